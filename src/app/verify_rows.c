/* Lines, rows and logits files against the certificate's blocks, line by line. */
#include "app/verify.h"

#include "jobs/input.h"
#include "jobs/lines.h"
#include "parity/dump.h"

#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 256 };

/* A file of lines and where the walk is. */
struct feed {
    const char *path; /* NULL: not given */
    int fd;
    struct ls_lines lines;
    struct ls_line line;
    bool more;
};

struct walk {
    struct ls_verify *v;
    struct feed input, output;
    struct ls_dump *logits; /* or NULL */
    uint64_t n_logits;      /* rows compared */
};

static ls_status open_feed(struct feed *f, const char *path, struct ls_err *err)
{
    *f = (struct feed){ .path = path, .fd = -1 };
    const ls_status s = path ? ls_input_open(&f->fd, path, err) : LS_OK;
    ls_lines_init(&f->lines, f->fd, path);
    return s;
}

static void close_feed(struct feed *f)
{
    ls_lines_finish(&f->lines);
    if (f->fd >= 0)
        close(f->fd);
}

static ls_status advance(struct feed *f, struct ls_err *err)
{
    f->more = false;
    return f->path ? ls_lines_next(&f->lines, &f->line, &f->more, err) : LS_OK;
}

static bool is_digest_of(const unsigned char digest[LS_LEAF], const struct ls_line *line)
{
    unsigned char own[LS_LEAF];
    crypto_generichash(own, sizeof own, (const unsigned char *)line->data, line->n, NULL, 0);
    return !memcmp(own, digest, LS_LEAF);
}

/* As the job names it: custom_id, id, or the line's number. */
static void name_line(char name[NAME], const struct ls_line *line)
{
    json_t *const object = json_loadb(line->data, line->n, 0, NULL);
    const char *id = json_string_value(json_object_get(object, "custom_id"));
    id = id ? id : json_string_value(json_object_get(object, "id"));
    snprintf(name, NAME, "line-%" PRIu64, line->number);
    if (id && strlen(id) < NAME)
        strcpy(name, id);
    json_decref(object);
}

/* --- logits ----------------------------------------------------------------------------------
 */

static void compare_rows(struct walk *w, const struct ls_cert_block *b, const char *name,
                         const struct ls_tensor *t, uint64_t first)
{
    const struct ls_cert *const cert = &w->v->cert;
    const uint64_t vocab = (uint64_t)cert->head.vocab;
    if (t->dtype != LS_DTYPE_F32 || t->n_dims != 2 || t->dims[1] != vocab ||
        first > b->n_positions || t->dims[0] > b->n_positions - first) {
        ls_verify_found(w->v, "logits of '%s': of another shape than the certificate's", name);
        return;
    }
    for (uint64_t r = 0; r < t->dims[0]; r++) {
        unsigned char leaf[LS_LEAF];
        const uint32_t pos = (uint32_t)(first + r);
        ls_leaf_of(leaf, (const char *)t->data + r * vocab * sizeof(float),
                   vocab * sizeof(float));
        w->n_logits++;
        if (memcmp(leaf, ls_cert_leaf(cert, b, pos, cert->head.n_layers), LS_LEAF))
            ls_verify_found(w->v, "logits of '%s', position %u", name, pos);
    }
}

static ls_status check_logits(struct walk *w, const struct ls_cert_block *b, const char *id,
                              struct ls_err *err)
{
    char name[NAME + 32];
    struct ls_tensor t;
    if (!w->logits || !b->n_positions)
        return LS_OK;
    if (b->choice)
        snprintf(name, sizeof name, "%s [choice %u]", id, b->choice);
    else
        snprintf(name, sizeof name, "%s", id);
    const int64_t i = ls_dump_find(w->logits, name);
    if (i < 0) {
        ls_verify_found(w->v, "logits of '%s': not in %s", name,
                        ls_options_text(w->v->o, LS_OPT_LOGITS));
        return LS_OK;
    }
    const ls_status s = ls_dump_view(w->logits, (size_t)i, &t, err);
    if (!s)
        compare_rows(w, b, name, &t, ls_dump_entry(w->logits, (size_t)i)->first_position);
    return s;
}

/* --- the walk --------------------------------------------------------------------------------
 */

static void check_lines(struct walk *w, const struct ls_cert_block *b, const char *name)
{
    if (b->choice)
        return; /* all blocks of a line say the same, or the certificate was found broken */
    if (!w->input.more || !is_digest_of(b->line_digest, &w->input.line))
        ls_verify_found(w->v, "line %" PRIu64 " ('%s') of %s%s", b->line, name, w->input.path,
                        w->input.more ? "" : ": is not there");
    if (w->output.path && (!w->output.more || !is_digest_of(b->row_digest, &w->output.line)))
        ls_verify_found(w->v, "row of line %" PRIu64 " ('%s') in %s%s", b->line, name,
                        w->output.path, w->output.more ? "" : ": is not there");
}

static ls_status walk_blocks(struct walk *w, struct ls_err *err)
{
    struct ls_cert_block b;
    char name[NAME] = "";
    ls_status s = LS_OK;
    for (uint64_t at = 0; !s && ls_cert_next_block(&w->v->cert, &at, &b);) {
        if (b.choice == 0) {
            s = advance(&w->input, err);
            if (!s)
                s = advance(&w->output, err);
            if (!s && w->input.more)
                name_line(name, &w->input.line);
        }
        if (s)
            return s;
        check_lines(w, &b, name);
        s = check_logits(w, &b, name, err);
    }
    if (!s)
        s = advance(&w->input, err);
    if (!s)
        s = advance(&w->output, err);
    if (!s && w->input.more)
        ls_verify_found(w->v, "%s: has more lines than the certificate", w->input.path);
    if (!s && w->output.more)
        ls_verify_found(w->v, "%s: has more rows than the certificate", w->output.path);
    return s;
}

/* A text that was scored as a whole is one line, whatever line ends are in it. */
static ls_status look_for_document(struct walk *w, struct ls_err *err)
{
    struct ls_cert_block b;
    uint64_t at = 0;
    struct feed whole;
    if (w->v->cert.head.n_lines != 1 || !ls_cert_next_block(&w->v->cert, &at, &b))
        return LS_OK;
    ls_status s = open_feed(&whole, w->input.path, err);
    whole.lines.whole = true;
    if (!s)
        s = advance(&whole, err);
    w->input.lines.whole = !s && whole.more && is_digest_of(b.line_digest, &whole.line);
    close_feed(&whole);
    return s;
}

static void report(const struct walk *w, bool equal)
{
    const struct ls_cert_head *const h = &w->v->cert.head;
    printf("rows         %" PRIu64 " lines%s", h->n_lines, w->output.path ? " and rows" : "");
    if (w->logits)
        printf(", %" PRIu64 " rows of logits", w->n_logits);
    printf(": %s\n", equal ? "equal" : "DIFFERENT");
}

ls_status ls_verify_rows(struct ls_verify *v, struct ls_err *err)
{
    struct walk w = { .v = v };
    const uint64_t before = v->n_found;
    const char *const logits = ls_options_text(v->o, LS_OPT_LOGITS);
    ls_status s = open_feed(&w.input, ls_options_text(v->o, LS_OPT_INPUT), err);
    if (!s)
        s = look_for_document(&w, err);
    const ls_status opened =
        s ? s : open_feed(&w.output, ls_options_text(v->o, LS_OPT_OUTPUT), err);
    s = opened;
    if (!s && logits)
        s = ls_dump_open(&w.logits, logits, err);
    if (!s)
        s = walk_blocks(&w, err);
    if (!s)
        report(&w, v->n_found == before);
    close_feed(&w.input);
    if (w.output.path)
        close_feed(&w.output);
    ls_dump_close(w.logits);
    return s;
}
