#include "app/prompts.h"

#include "app/model_folder.h"
#include "jobs/input.h"
#include "jobs/lines.h"
#include "jobs/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_status grow(struct ls_prompts *p, struct ls_err *err)
{
    if (p->n < p->capacity)
        return LS_OK;
    const size_t capacity = p->capacity ? 2 * p->capacity : 16;
    void *const list = realloc(p->list, capacity * sizeof *p->list);
    p->list = list ? list : p->list;
    const char **const names = realloc(p->names, capacity * sizeof *p->names);
    p->names = names ? names : p->names;
    if (!list || !names)
        return ls_fail(err, LS_E_MEMORY, "no memory for prompts");
    p->capacity = capacity;
    return LS_OK;
}

static ls_status add(struct ls_prompts *p, const struct ls_request *req, uint32_t k,
                     struct ls_err *err)
{
    char name[512];
    const struct ls_prompt *const prompt = &req->prompts[k];
    const uint64_t bytes = prompt->n * sizeof *prompt->tokens;
    int n = req->custom_id
                ? snprintf(name, sizeof name, "%.*s", (int)req->n_custom_id, req->custom_id)
                : snprintf(name, sizeof name, "line-%" PRIu64, req->line);
    if (k && n < (int)sizeof name)
        n += snprintf(name + n, sizeof name - (size_t)n, "#%u", k);
    if (n >= (int)sizeof name)
        return ls_fail(err, LS_E_REQUEST, "line %" PRIu64 ": its id has %d bytes, at most %zu",
                       req->line, n, sizeof name - 1);
    const ls_status s = grow(p, err);
    if (s)
        return s;
    int32_t *const tokens = ls_arena_take(&p->arena, bytes);
    p->names[p->n] = ls_arena_text(&p->arena, name, (size_t)n);
    if (!tokens || !p->names[p->n])
        return ls_fail(err, LS_E_MEMORY, "no memory for prompts");
    memcpy(tokens, prompt->tokens, bytes);
    p->list[p->n++] = (struct ls_probe_prompt){ tokens, prompt->n };
    return LS_OK;
}

static ls_status read_line(struct ls_prompts *p, enum ls_input_kind kind,
                           const struct ls_line *line, const struct ls_request_rules *rules,
                           struct ls_err *err)
{
    struct ls_request req;
    ls_status s = ls_request_read(&req, kind, line, rules, err);
    if (s == LS_E_REQUEST)
        ls_fail_prefix(err, "line %" PRIu64, line->number);
    for (uint32_t k = 0; !s && k < req.n_prompts; k++)
        s = add(p, &req, k, err);
    ls_request_finish(&req);
    return s;
}

static ls_status read_lines(struct ls_prompts *p, int fd, const char *input,
                            const struct ls_request_rules *rules, struct ls_err *err)
{
    struct ls_lines lines;
    struct ls_line line;
    const char *data;
    size_t n;
    bool more = true;
    ls_lines_init(&lines, fd, input);
    ls_status s = ls_lines_peek(&lines, LS_KIND_BYTES, &data, &n, err);
    const enum ls_input_kind kind = s ? LS_INPUT_TEXT : ls_input_kind(input, data, n);
    while (!s && more) {
        s = ls_lines_next(&lines, &line, &more, err);
        if (!s && more && line.n)
            s = read_line(p, kind, &line, rules, err);
    }
    ls_lines_finish(&lines);
    if (!s && !p->n)
        return ls_fail(err, LS_E_REQUEST, "%s: holds no prompt", input);
    return s;
}

ls_status ls_prompts_read(struct ls_prompts *prompts, const char *input, const char *folder,
                          const struct ls_arch *arch, struct ls_err *err)
{
    struct ls_tokenizer *tokenizer = NULL;
    /* nothing is generated, so the whole context is the prompt's */
    const struct ls_request_defaults defaults = { .has_max_tokens = true };
    int fd = -1;
    *prompts = (struct ls_prompts){ .n = 0 };
    ls_arena_init(&prompts->arena);
    ls_status s = ls_model_tokenizer(&tokenizer, folder, err);
    if (!s)
        s = ls_input_open(&fd, input, err);
    const struct ls_request_rules rules = { .defaults = &defaults,
                                            .tokenizer = tokenizer,
                                            .vocab = arch->vocab,
                                            .context = arch->context,
                                            .prefix = arch->bos };
    if (!s)
        s = read_lines(prompts, fd, input, &rules, err);
    if (fd >= 0)
        close(fd);
    ls_tokenizer_destroy(tokenizer);
    return s;
}

void ls_prompts_finish(struct ls_prompts *prompts)
{
    ls_arena_finish(&prompts->arena);
    free(prompts->list);
    free(prompts->names);
    *prompts = (struct ls_prompts){ .n = 0 };
}

ls_status ls_prompts_find(const struct ls_prompts *prompts, const char *name, size_t *index,
                          struct ls_err *err)
{
    size_t found = 0;
    for (size_t i = 0; i < prompts->n; i++)
        if (!strcmp(prompts->names[i], name) && !found++)
            *index = i;
    if (found == 1)
        return LS_OK;
    return ls_fail(err, LS_E_USAGE, "--request %s: %zu prompts of the input have this name",
                   name, found);
}
