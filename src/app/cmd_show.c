/* show: a result file for reading, one line a completion. */
#include "app/app.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_PROMPT_BYTES = 64 }; /* of a longer prompt the end is shown */

struct line {
    char *text; /* without its end; owned */
    size_t capacity;
    size_t n;
};

static bool read_line(FILE *f, struct line *line)
{
    const ssize_t n = f ? getline(&line->text, &line->capacity, f) : -1;
    if (n < 0)
        return false;
    line->n = (size_t)n;
    while (line->n && (line->text[line->n - 1] == '\n' || line->text[line->n - 1] == '\r'))
        line->text[--line->n] = 0;
    return true;
}

/* Quoted, on one line, and harmless to a terminal. */
static void put_quoted(const char *text)
{
    putchar('"');
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '\n')
            fputs("\\n", stdout);
        else if (c == '\t')
            fputs("\\t", stdout);
        else if (c < 0x20 || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void put_end_of(const char *text)
{
    const size_t n = strlen(text);
    const char *begin = text;
    if (n > SHOWN_PROMPT_BYTES) {
        begin = text + n - SHOWN_PROMPT_BYTES;
        while (((unsigned char)*begin & 0xc0) == 0x80) /* not inside a character */
            begin++;
        fputs("...", stdout);
    }
    put_quoted(begin);
}

/* The last thing that was said in a chat, or NULL. */
static json_t *last_message(json_t *holder)
{
    json_t *const messages = json_object_get(holder, "messages");
    json_t *const last = json_array_get(messages, json_array_size(messages) - 1);
    json_t *const content = json_object_get(last, "content");
    return json_is_array(content) ? json_object_get(json_array_get(content, 0), "text")
                                  : content;
}

/* What a request is about: its prompt, its last message, or the text that is scored. */
static json_t *subject_of(json_t *holder)
{
    static const char *const names[] = { "prompt", "tokens", "context", "text", "arguments" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *const value = json_object_get(holder, names[i]);
        if (value)
            return value;
    }
    return last_message(holder);
}

/* Text, or how many token ids there are. */
static void put_prompt(json_t *request)
{
    json_t *const body = json_object_get(request, "body");
    json_t *prompt = subject_of(body ? body : request);
    if (json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0);
    if (json_is_string(prompt))
        put_end_of(json_string_value(prompt));
    else
        printf("[%zu token ids]", json_array_size(prompt));
}

static void show_request(const struct line *line)
{
    json_t *const request = json_loadb(line->text, line->n, JSON_ALLOW_NUL, NULL);
    if (json_is_object(request))
        put_prompt(request);
    else
        put_end_of(line->text);
    fputs(" => ", stdout);
    json_decref(request);
}

static void put_score(const json_t *body)
{
    const json_t *const score = json_object_get(body, "loglikelihood");
    const json_t *const perplexity = json_object_get(body, "perplexity");
    if (json_is_number(score))
        printf(" log-likelihood %.6g", json_number_value(score));
    if (json_is_number(perplexity))
        printf(", perplexity %.6g", json_number_value(perplexity));
}

static void show_choices(json_t *row)
{
    json_t *const response = json_object_get(row, "response");
    json_t *const choices = json_object_get(json_object_get(response, "body"), "choices");
    size_t i;
    json_t *choice;
    json_array_foreach(choices, i, choice)
    {
        json_t *const message = json_object_get(choice, "message");
        const char *const text = json_string_value(message ? json_object_get(message, "content")
                                                           : json_object_get(choice, "text"));
        if (i)
            fputs(" | ", stdout);
        put_quoted(text ? text : "");
    }
    put_score(json_object_get(response, "body"));
    if (!json_array_size(choices)) {
        const char *const why =
            json_string_value(json_object_get(json_object_get(row, "error"), "message"));
        printf("error: %s", why ? why : "no choices in this row");
    }
    putchar('\n');
}

/* Rows stand in the order of the request lines, one for each. */
static ls_status show_rows(FILE *rows, FILE *requests, const char *path, struct ls_err *err)
{
    struct line row = { NULL, 0, 0 }, request = { NULL, 0, 0 };
    ls_status s = LS_OK;
    for (unsigned long long number = 1; !s && read_line(rows, &row); number++) {
        json_error_t why;
        json_t *const json = json_loadb(row.text, row.n, JSON_ALLOW_NUL, &why);
        if (!json_is_object(json)) {
            s = ls_fail(err, LS_E_FORMAT, "%s:%llu: not a result row", path, number);
        } else {
            const char *const id = json_string_value(json_object_get(json, "custom_id"));
            printf("%s  ", id ? id : "-");
            if (read_line(requests, &request))
                show_request(&request);
            show_choices(json);
        }
        json_decref(json);
    }
    if (!s && ferror(rows))
        s = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    free(row.text);
    free(request.text);
    return s;
}

static ls_status open_to_read(FILE **f, const char *path, struct ls_err *err)
{
    *f = fopen(path, "re");
    return *f ? LS_OK : ls_fail(err, LS_E_USAGE, "%s: %s", path, strerror(errno));
}

int ls_cmd_show(struct ls_app *app)
{
    struct ls_err err;
    FILE *rows = NULL, *requests = NULL;
    const struct ls_options *const o = &app->options;
    const char *const input = ls_options_text(o, LS_OPT_INPUT);
    ls_status s = ls_options_check(o, &err);
    if (!s)
        s = open_to_read(&rows, o->operands[0], &err);
    if (!s && input)
        s = open_to_read(&requests, input, &err);
    if (!s)
        s = show_rows(rows, requests, o->operands[0], &err);
    if (rows)
        fclose(rows);
    if (requests)
        fclose(requests);
    return s ? ls_app_fail(app, ls_app_code_before_start(s), &err) : LS_EXIT_GOOD;
}
