#include "text_rig.h"

#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *rig_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, f), *n);
    text[*n] = 0;
    fclose(f);
    return text;
}

static struct ls_tokenizer *make(const char *json, size_t n, const char *config,
                                 size_t n_config)
{
    struct ls_tokenizer *tok = NULL;
    struct ls_err err = { 0 };
    if (ls_tokenizer_create(&tok, json, n, config, n_config, &err))
        fail_msg("%s", err.text);
    return tok;
}

struct ls_tokenizer *rig_open(const char *folder, bool with_config)
{
    char path[4096];
    size_t n = 0, n_config = 0;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    char *json = rig_read(path, &n);
    if (!json)
        return NULL;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    char *config = with_config ? rig_read(path, &n_config) : NULL;
    struct ls_tokenizer *tok = make(json, n, config, n_config);
    free(json);
    free(config);
    return tok;
}

struct ls_tokenizer *rig_make(const char *json, const char *config)
{
    return make(json, strlen(json), config, config ? strlen(config) : 0);
}

struct ls_tokenizer *rig_make_value(const json_t *json, const json_t *config)
{
    char *text = json_dumps(json, JSON_COMPACT);
    char *settings = config ? json_dumps(config, JSON_COMPACT) : NULL;
    struct ls_tokenizer *tok = rig_make(text, settings);
    free(text);
    free(settings);
    return tok;
}

bool rig_encodes(const struct ls_tokenizer *tok, const char *text, size_t n, bool add_special,
                 const json_t *ids)
{
    struct ls_ids got = { 0 };
    struct ls_err err = { 0 };
    bool same = !ls_tokenizer_encode(tok, text, n, add_special, &got, &err) &&
                got.n == json_array_size(ids);
    size_t i = 0;
    for (; same && i < got.n; i++)
        same = got.data[i] == json_integer_value(json_array_get(ids, i));
    if (!same)
        print_error("'%.*s' special %d: %zu ids, expected %zu, place %zu %s\n",
                    (int)(n > 60 ? 60 : n), text, add_special, got.n, json_array_size(ids), i,
                    err.text);
    ls_ids_finish(&got);
    return same;
}

/* Feeds one id at a time; every addition must end at the end of a character. */
static bool stream(const struct ls_tokenizer *tok, const json_t *ids, bool skip_special,
                   struct ls_bytes *out)
{
    struct ls_detok *d = NULL;
    struct ls_err err = { 0 };
    bool whole = true;
    size_t i;
    const json_t *id;
    assert_int_equal(ls_detok_create(&d, tok, skip_special, &err), LS_OK);
    json_array_foreach(ids, i, id)
    {
        assert_int_equal(ls_detok_feed(d, (int32_t)json_integer_value(id), out, &err), LS_OK);
        whole = whole && ls_utf8_check(out->data, out->n) == out->n;
    }
    assert_int_equal(ls_detok_finish(d, out, &err), LS_OK);
    ls_detok_destroy(d);
    return whole;
}

bool rig_decodes(const struct ls_tokenizer *tok, const json_t *ids, bool skip_special,
                 const char *text, size_t n)
{
    struct ls_ids list = { 0 };
    struct ls_bytes at_once = { 0 }, piecewise = { 0 };
    struct ls_err err = { 0 };
    size_t i;
    const json_t *id;
    json_array_foreach(ids, i, id) ls_ids_push(&list, (int32_t)json_integer_value(id), &err);
    bool good = !ls_tokenizer_decode(tok, list.data, list.n, skip_special, &at_once, &err) &&
                at_once.n == n && (!n || !memcmp(at_once.data, text, n));
    bool streams = stream(tok, ids, skip_special, &piecewise) && piecewise.n == at_once.n &&
                   (!at_once.n || !memcmp(piecewise.data, at_once.data, at_once.n));
    if (!good || !streams)
        print_error("%zu ids, skip %d: expected '%.*s', got '%.*s', as a stream '%.*s' %s\n",
                    list.n, skip_special, (int)(n > 60 ? 60 : n), text, (int)at_once.n,
                    at_once.n ? (char *)at_once.data : "", (int)piecewise.n,
                    piecewise.n ? (char *)piecewise.data : "", err.text);
    ls_ids_finish(&list);
    ls_bytes_finish(&at_once);
    ls_bytes_finish(&piecewise);
    return good && streams;
}

int rig_each_line(const char *path, int (*each)(const json_t *line, void *arg), void *arg,
                  int *n_lines)
{
    size_t n = 0;
    char *text = rig_read(path, &n), *at = text;
    int bad = 0;
    *n_lines = 0;
    if (!text)
        fail_msg("cannot read %s", path);
    while (*at) {
        char *end = strchr(at, '\n');
        json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
        assert_non_null(line);
        bad += each(line, arg);
        json_decref(line);
        ++*n_lines;
        at = end + 1;
    }
    free(text);
    return bad;
}
