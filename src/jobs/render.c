#include "jobs/render.h"

#include "jobs/lines.h"
#include "jobs/request_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rendering {
    const struct ls_chat *chat;
    struct ls_lines lines;
    FILE *out;
    struct ls_render_counts *counts;
};

/* The object that holds the messages: the line itself or its body; NULL: not a chat. */
static json_t *chat_of(json_t *line)
{
    const char *url = json_string_value(json_object_get(line, "url"));
    json_t *body = json_object_get(line, "body");
    if (url && !strcmp(url, "/v1/chat/completions"))
        return json_is_object(body) ? body : NULL;
    return !url && !body && json_object_get(line, "messages") ? line : NULL;
}

static void note_failure(struct rendering *r, uint64_t line, const struct ls_err *why)
{
    struct ls_render_counts *c = r->counts;
    if (!c->failed++) {
        c->failed_line = line;
        snprintf(c->why, sizeof c->why, "%s", why->text);
    }
}

/* Puts the text or the reason into the body. */
static ls_status render(struct rendering *r, json_t *body, uint64_t line, struct ls_err *err)
{
    struct ls_request req = { .line = line };
    struct ls_err why = { 0 };
    struct ls_bytes text = { 0 };
    ls_arena_init(&req.arena);
    ls_status status = ls_request_render(&req, r->chat, body, &text, &why);
    const bool none_can = req.code && !strcmp(req.code, "chat_unavailable");
    if (status && (status != LS_E_REQUEST || none_can)) {
        status = ls_fail(err, none_can ? LS_E_REFUSED : status, "%s", why.text);
        goto out;
    }
    json_object_del(body, "rendered_prompt");
    json_object_del(body, "rendered_error");
    if (status)
        note_failure(r, line, &why);
    else
        r->counts->rendered++;
    json_t *value =
        status ? json_string(why.text) : json_stringn((const char *)text.data, text.n);
    status = json_object_set_new(body, status ? "rendered_error" : "rendered_prompt", value)
                 ? ls_fail(err, LS_E_MEMORY, "out of memory for a rendered chat")
                 : LS_OK;
out:
    ls_bytes_finish(&text);
    ls_request_finish(&req);
    return status;
}

static ls_status write_line(struct rendering *r, const char *text, size_t n, struct ls_err *err)
{
    if (fwrite(text, 1, n, r->out) == n && putc('\n', r->out) != EOF)
        return LS_OK;
    return ls_fail(err, ls_io_status(errno), "cannot write the rendered requests: %s",
                   strerror(errno));
}

static ls_status do_line(struct rendering *r, const struct ls_line *line, struct ls_err *err)
{
    json_t *root =
        json_loadb(line->data, line->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *body = chat_of(root);
    char *text = NULL;
    ls_status status = LS_OK;
    r->counts->lines++;
    if (body)
        status = render(r, body, line->number, err);
    if (!status && body && !(text = json_dumps(root, JSON_COMPACT)))
        status = ls_fail(err, LS_E_MEMORY, "out of memory for a rendered chat");
    if (!status)
        status = write_line(r, text ? text : line->data, text ? strlen(text) : line->n, err);
    free(text);
    json_decref(root);
    return status;
}

static ls_status do_lines(struct rendering *r, struct ls_err *err)
{
    for (;;) {
        struct ls_line line;
        bool more;
        ls_status status = ls_lines_next(&r->lines, &line, &more, err);
        if (status || !more)
            return status;
        if (line.too_long)
            return ls_fail(err, LS_E_USAGE, "line %llu is longer than %d bytes",
                           (unsigned long long)line.number, LS_MAX_LINE);
        status = do_line(r, &line, err);
        if (status)
            return status;
    }
}

static ls_status open_both(struct rendering *r, const char *input, const char *part,
                           struct ls_err *err)
{
    const bool standard = !strcmp(input, "-");
    const int fd = standard ? STDIN_FILENO : open(input, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ls_fail(err, LS_E_IO, "cannot open input %s: %s", input, strerror(errno));
    ls_lines_init(&r->lines, fd, standard ? "standard input" : input);
    r->out = fopen(part, "we");
    return r->out ? LS_OK
                  : ls_fail(err, ls_io_status(errno), "cannot write %s: %s", part,
                            strerror(errno));
}

/* All of it reaches the disk, and only then the name. */
static ls_status keep(FILE *out, const char *part, const char *output, struct ls_err *err)
{
    const bool whole = !strcmp(part, output); /* a device, which stays one */
    const bool good = !fflush(out) && (whole || !fsync(fileno(out)));
    if (good && (whole || !rename(part, output)))
        return LS_OK;
    return ls_fail(err, ls_io_status(errno), "cannot write %s: %s", output, strerror(errno));
}

ls_status ls_render_file(const char *input, const char *output, const struct ls_chat *chat,
                         struct ls_render_counts *counts, struct ls_err *err)
{
    struct rendering r = { .chat = chat, .counts = counts, .lines = { .fd = -1 } };
    char *part = NULL;
    struct stat st;
    const bool device = !stat(output, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    *counts = (struct ls_render_counts){ 0 };
    if (asprintf(&part, "%s%s", output, device ? "" : ".part") < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for a path");
    ls_status status = open_both(&r, input, part, err);
    if (!status)
        status = do_lines(&r, err);
    if (!status)
        status = keep(r.out, part, output, err);
    if (r.out)
        fclose(r.out);
    if (status && r.out && !device)
        unlink(part);
    if (r.lines.fd > STDIN_FILENO)
        close(r.lines.fd);
    ls_lines_finish(&r.lines);
    free(part);
    return status;
}
