#include "app/sweep_truth.h"

#include "app/model_folder.h"
#include "app/table.h"
#include "app/wish.h"
#include "jobs/input.h"
#include "jobs/out.h"
#include "jobs/request.h"
#include "model/arch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reading {
    struct ls_sweep_truth *truth;
    const struct ls_passages *rows; /* NULL: the reference is a dump */
    struct ls_request_rules rules;
    struct ls_out forced; /* lines */
};

ls_status ls_sweep_truth_open(struct ls_sweep_truth *t, const struct ls_arm *reference,
                              struct ls_err *err)
{
    char folder[4096];
    *t = (struct ls_sweep_truth){ .n_requests = 0 };
    ls_options_init(&t->options, &ls_table, LS_CMD_RUN);
    ls_passages_init(&t->free_run);
    ls_passages_init(&t->forced);
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i < reference->options.n; i++) {
        const struct ls_setting *const set = &reference->options.list[i];
        s = ls_options_set(&t->options, ls_options_find(&ls_table, set->key), set->value,
                           set->key, LS_FROM_FILE, set->line, err);
    }
    if (!s)
        s = ls_model_folder(folder, sizeof folder, ls_options_text(&t->options, LS_OPT_MODEL),
                            err);
    if (!s)
        s = ls_model_tokenizer(&t->tokenizer, folder, err);
    if (s)
        ls_sweep_truth_finish(t);
    return s;
}

void ls_sweep_truth_finish(struct ls_sweep_truth *t)
{
    ls_tokenizer_destroy(t->tokenizer);
    t->tokenizer = NULL;
    ls_passages_finish(&t->free_run);
    ls_passages_finish(&t->forced);
    ls_options_finish(&t->options);
}

/* --- requests --------------------------------------------------------------------------------
 */

static void write_forced(struct ls_out *out, const struct ls_passage *passage, uint32_t n)
{
    ls_out_text(out, "{\"custom_id\":");
    ls_out_string(out, passage->name, strlen(passage->name));
    ls_out_text(out, ",\"tokens\":[");
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            ls_out_text(out, ",");
        ls_out_i64(out, passage->ids[i]);
    }
    ls_out_text(out, "],\"max_tokens\":0}\n");
}

/* The last token that was generated or scored is only a target: nothing follows it. */
static ls_status add_both(struct reading *r, const struct ls_passage *passage, bool scored,
                          struct ls_err *err)
{
    struct ls_passage forced = *passage;
    forced.n_prompt = forced.n;
    forced.digest = NULL;
    ls_status s = ls_passages_add(&r->truth->free_run, passage, err);
    if (!s)
        s = ls_passages_add(&r->truth->forced, &forced, err);
    if (!s)
        write_forced(&r->forced, passage,
                     passage->n - (scored || passage->n > passage->n_prompt));
    return s;
}

/* Choice k of a request: its prompt, then what the reference's row says. */
static ls_status add_choice(struct reading *r, const struct ls_request *req, const char *name,
                            const struct ls_prompt *prompt, struct ls_err *err)
{
    const struct ls_passage *const row = r->rows ? ls_passages_find(r->rows, name) : NULL;
    const bool scored = prompt->n_scored > 0;
    const uint32_t n_prompt = prompt->n + scored;
    const uint32_t n_new = row && !scored ? row->n : 0;
    if (r->rows && !row)
        return ls_fail(err, LS_E_FORMAT, "the reference has no result row for '%.200s'", name);
    if (row && row->error)
        return ls_passages_add(&r->truth->free_run, row, err);
    int32_t *const ids = malloc(((size_t)n_prompt + n_new) * sizeof *ids);
    if (!ids)
        return ls_fail(err, LS_E_MEMORY, "no memory for the token ids of a run");
    memcpy(ids, prompt->tokens, n_prompt * sizeof *ids);
    if (n_new)
        memcpy(ids + n_prompt, row->ids, n_new * sizeof *ids);
    const struct ls_passage passage = { .name = name,
                                        .ids = ids,
                                        .n_prompt = n_prompt,
                                        .n = n_prompt + n_new,
                                        .number = req->line,
                                        .digest = row ? row->digest : NULL };
    const ls_status s = add_both(r, &passage, scored, err);
    free(ids);
    return s;
}

static ls_status add_choices(struct reading *r, const struct ls_request *req,
                             struct ls_err *err)
{
    ls_status s = LS_OK;
    const size_t n = (size_t)req->n_prompts * (size_t)req->n;
    char *const id = strndup(req->custom_id, req->n_custom_id);
    for (size_t k = 0; id && !s && k < n; k++) {
        char *const name = ls_passage_name(id, k);
        s = name ? add_choice(r, req, name, &req->prompts[k / (size_t)req->n], err)
                 : LS_E_MEMORY;
        free(name);
    }
    free(id);
    return id && s != LS_E_MEMORY ? s : ls_fail(err, LS_E_MEMORY, "no memory for a request");
}

/* A line that the reference refused, too, is its error row and nothing else. */
static ls_status add_refused(struct reading *r, const struct ls_request *req,
                             struct ls_err *err)
{
    char name[32];
    char *const id = req->custom_id ? strndup(req->custom_id, req->n_custom_id) : NULL;
    snprintf(name, sizeof name, "line-%llu", (unsigned long long)req->line);
    const struct ls_passage *const row =
        r->rows ? ls_passages_find(r->rows, id ? id : name) : NULL;
    free(id);
    if (row && row->error)
        return ls_passages_add(&r->truth->free_run, row, err);
    ls_fail_prefix(err, "prompts, line %llu%s", (unsigned long long)req->line,
                   req->code && !strcmp(req->code, "chat_unavailable")
                       ? " (make prompts of chats first: lockstep render)"
                       : "");
    return err->status = LS_E_USAGE;
}

static ls_status read_lines(struct reading *r, struct ls_lines *lines, struct ls_err *err)
{
    struct ls_line line;
    const char *begin;
    size_t n;
    bool more = true;
    ls_status s = ls_lines_peek(lines, LS_KIND_BYTES, &begin, &n, err);
    const enum ls_input_kind kind = s ? LS_INPUT_TEXT : ls_input_kind(lines->name, begin, n);
    while (!s && !(s = ls_lines_next(lines, &line, &more, err)) && more) {
        struct ls_request req;
        r->truth->n_requests++;
        s = ls_request_read(&req, kind, &line, &r->rules, err);
        if (!s)
            s = add_choices(r, &req, err);
        else if (s == LS_E_REQUEST)
            s = add_refused(r, &req, err);
        ls_request_finish(&req);
    }
    return s;
}

static ls_status write_text(const char *path, const struct ls_out *text, struct ls_err *err)
{
    ls_status s = ls_out_check(text, path, err);
    if (s)
        return s;
    FILE *const f = fopen(path, "we");
    const bool written = f && fwrite(text->data, 1, text->n, f) == text->n;
    if (!f || fclose(f) || !written)
        return ls_fail(err, ls_io_status(errno), "%s: cannot be written: %s", path,
                       strerror(errno));
    return LS_OK;
}

static ls_status read_prompts(struct reading *r, const char *path, struct ls_err *err)
{
    struct ls_lines lines;
    int fd;
    ls_status s = ls_input_open(&fd, path, err);
    if (s)
        return s;
    ls_lines_init(&lines, fd, path);
    s = read_lines(r, &lines, err);
    ls_lines_finish(&lines);
    close(fd);
    if (!s)
        s = ls_passages_sort(&r->truth->free_run, err);
    return s ? s : ls_passages_sort(&r->truth->forced, err);
}

ls_status ls_sweep_truth_read(struct ls_sweep_truth *t, const char *prompts, const char *rows,
                              const char *forced_path, struct ls_err *err)
{
    struct ls_job_config config;
    struct ls_arch arch;
    struct ls_arena arena;
    struct ls_passages said;
    char folder[4096];
    const struct ls_arch_wish wish = {
        .f32_activations = ls_options_number(&t->options, LS_OPT_DTYPE) == 1,
        .context = (int)ls_options_number(&t->options, LS_OPT_CONTEXT),
    };
    struct reading r = { .truth = t, .rows = rows ? &said : NULL };
    ls_arena_init(&arena);
    ls_passages_init(&said);
    ls_status s =
        ls_model_folder(folder, sizeof folder, ls_options_text(&t->options, LS_OPT_MODEL), err);
    if (!s)
        s = ls_arch_load(&arch, folder, &wish, &arena, err);
    if (!s && rows)
        s = ls_passages_read_rows(&said, rows, err);
    ls_job_config_of(&config, &t->options, "");
    r.rules =
        (struct ls_request_rules){ .defaults = &config.defaults, .tokenizer = t->tokenizer };
    if (!s) {
        r.rules.vocab = arch.vocab;
        r.rules.context = arch.context;
        r.rules.prefix = ls_job_prefix(&arch, t->tokenizer);
        s = read_prompts(&r, prompts, err);
    }
    if (!s)
        s = write_text(forced_path, &r.forced, err);
    ls_out_finish(&r.forced);
    ls_passages_finish(&said);
    ls_arena_finish(&arena);
    return s;
}

static const char *keep(struct ls_arena *arena, const char *text, bool *failed)
{
    const char *const copy = text ? ls_arena_text(arena, text, strlen(text)) : NULL;
    *failed = *failed || (text && !copy);
    return copy;
}

ls_status ls_sweep_truth_digests(struct ls_sweep_truth *t, const struct ls_passages *rows,
                                 struct ls_err *err)
{
    bool failed = false;
    for (size_t i = 0; i < t->forced.n; i++) {
        struct ls_passage *const s = &t->forced.list[i];
        const struct ls_passage *const row = ls_passages_find(rows, s->name);
        s->digest = keep(&t->forced.arena, row ? row->digest : NULL, &failed);
        s->error = keep(&t->forced.arena, row ? row->error : NULL, &failed);
    }
    return failed ? ls_fail(err, LS_E_MEMORY, "no memory for the digests of a run") : LS_OK;
}
