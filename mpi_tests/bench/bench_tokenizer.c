/* Speed of encoding and decoding on one core, MB of text a second: median and p10..p90 of at
 * least ten repeats after a warm-up. Two texts: English (a passage repeated), and the same with
 * three random letters behind each word, so that no word is seen twice and the word cache does
 * not help. Aim: 5 MB/s of English.
 *
 * bench_tokenizer PASSAGE FOLDER...: each FOLDER holds a tokenizer.json; further ones are the
 * folders in LOCKSTEP_TOKENIZERS. Prints the time that loading took as well. */
#include "base/clock.h"
#include "text/tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 20, REPEATS = 11 };

struct text {
    const char *name;
    char *s;
    size_t n;
};

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *s = need(malloc(*n + 1));
    if (fread(s, 1, *n, f) != *n)
        exit(1);
    fclose(f);
    return s;
}

/* The passage again and again; `strange` puts three letters behind each word. */
static struct text repeat(const char *name, const char *passage, size_t n, int strange)
{
    struct text t = { name, need(malloc(TEXT_BYTES + 8)), 0 };
    uint32_t draw = 1;
    for (size_t i = 0; t.n < TEXT_BYTES; i = (i + 1) % n) {
        if (strange && passage[i] == ' ')
            for (int k = 0; k < 3; k++) {
                draw = draw * 1664525u + 1013904223u;
                t.s[t.n++] = (char)('a' + (draw >> 16) % 26);
            }
        t.s[t.n++] = passage[i];
    }
    return t;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(const char *what, const char *text, double *mb_s)
{
    qsort(mb_s, REPEATS, sizeof *mb_s, by_value);
    printf("  %-8s %-8s %7.1f MB/s (p10..p90 %.1f..%.1f)\n", what, text, mb_s[REPEATS / 2],
           mb_s[REPEATS / 10], mb_s[REPEATS * 9 / 10]);
}

static void measure(const struct ls_tokenizer *tok, const struct text *t)
{
    double encode[REPEATS], decode[REPEATS];
    struct ls_ids ids = { 0 };
    struct ls_bytes out = { 0 };
    struct ls_err err = { 0 };
    for (int i = -1; i < REPEATS; i++) { /* -1 warms up */
        ids.n = out.n = 0;
        uint64_t begin = ls_now_us();
        ls_status s = ls_tokenizer_encode(tok, t->s, t->n, false, &ids, &err);
        uint64_t middle = ls_now_us();
        if (!s)
            s = ls_tokenizer_decode(tok, ids.data, ids.n, false, &out, &err);
        uint64_t end = ls_now_us();
        if (s) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        if (i >= 0) {
            encode[i] = (double)t->n / (double)(middle - begin);
            decode[i] = (double)t->n / (double)(end - middle);
        }
    }
    print_row("encode", t->name, encode);
    print_row("decode", t->name, decode);
    ls_ids_finish(&ids);
    ls_bytes_finish(&out);
}

static void bench_folder(const char *folder, const struct text *texts)
{
    char path[4096];
    size_t n = 0;
    struct ls_tokenizer *tok = NULL;
    struct ls_err err = { 0 };
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    char *json = read_file(path, &n);
    if (!json)
        return;
    uint64_t begin = ls_now_us();
    if (ls_tokenizer_create(&tok, json, n, NULL, 0, &err)) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        exit(1);
    }
    printf("%s: %.1f MB, %d ids, loaded in %.3f s\n", folder, (double)n * 1e-6,
           ls_tokenizer_vocab_size(tok), (double)(ls_now_us() - begin) * 1e-6);
    free(json);
    measure(tok, &texts[0]);
    measure(tok, &texts[1]);
    ls_tokenizer_destroy(tok);
}

static void bench_real(const char *parent, const struct text *texts)
{
    struct dirent **names;
    int n = scandir(parent, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/%s", parent, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            bench_folder(folder, texts);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

int main(int argc, char **argv)
{
    size_t n = 0;
    char *passage = argc > 2 ? read_file(argv[1], &n) : NULL;
    const char *real = getenv("LOCKSTEP_TOKENIZERS");
    if (!n) {
        fprintf(stderr, "usage: bench_tokenizer PASSAGE FOLDER...\n");
        return 2;
    }
    struct text texts[2] = { repeat("english", passage, n, 0),
                             repeat("strange", passage, n, 1) };
    for (int i = 2; i < argc; i++)
        bench_folder(argv[i], texts);
    if (real && *real)
        bench_real(real, texts);
    else
        printf("LOCKSTEP_TOKENIZERS is not set: real tokenizers skipped\n");
    free(passage);
    free(texts[0].s);
    free(texts[1].s);
    return 0;
}
