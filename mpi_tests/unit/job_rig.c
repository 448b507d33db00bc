#include "job_rig.h"

#include "jobs/out.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The letter that stands for a byte in a byte-level vocabulary, as UTF-8. */
static void byte_letter(char out[4], int b)
{
    const int plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    int c = b;
    if (!plain)
        c = b < 33 ? 256 + b : b < 161 ? 256 + 33 + b - 127 : 256 + 33 + 34;
    memset(out, 0, 4);
    if (c < 128) {
        out[0] = (char)c;
    } else {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
    }
}

static void add_vocab(struct ls_out *o)
{
    char letter[4];
    for (int b = 0; b < 256; b++) {
        byte_letter(letter, b);
        ls_out_text(o, b ? "," : "");
        ls_out_string(o, letter, strlen(letter));
        ls_out_text(o, ":");
        ls_out_i64(o, b);
    }
    ls_out_text(o, ",\"he\":256,\"ll\":257,\"\xc4\xa0w\":258");
}

static void add_special(struct ls_out *o, int id, const char *text)
{
    ls_out_text(o, id == RIG_BOS ? "{\"id\":" : ",{\"id\":");
    ls_out_i64(o, id);
    ls_out_text(o, ",\"content\":");
    ls_out_string(o, text, strlen(text));
    ls_out_text(o, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                   "\"normalized\":false,\"special\":true}");
}

struct ls_tokenizer *rig_tokenizer(void)
{
    struct ls_out o = { 0 };
    struct ls_err err = { 0 };
    struct ls_tokenizer *tok = NULL;
    ls_out_text(&o, "{\"version\":\"1.0\",\"added_tokens\":[");
    add_special(&o, RIG_BOS, "<s>");
    add_special(&o, RIG_EOS, "</s>");
    add_special(&o, RIG_SPECIAL, "<sp>");
    ls_out_text(&o, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
                    "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":"
                    "\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":"
                    "0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{"
                    "\"<s>\":{\"id\":\"<s>\",\"ids\":[259],\"tokens\":[\"<s>\"]}}},"
                    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                    "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\","
                    "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
                    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
                    "\"vocab\":{");
    add_vocab(&o);
    ls_out_text(&o, "},\"merges\":[\"h e\",\"l l\",\"\xc4\xa0 w\"]}}");
    ls_status status = ls_tokenizer_create(&tok, o.data, o.n, NULL, 0, &err);
    if (status)
        fail_msg("tokenizer: %s", err.text);
    ls_out_finish(&o);
    return tok;
}

void rig_arch(struct ls_arch *arch)
{
    *arch = (struct ls_arch){ .vocab = RIG_VOCAB, .context = RIG_CONTEXT, .n_eos = 1 };
    arch->eos[0] = RIG_EOS;
}

void rig_read(struct rig_request *r, enum ls_input_kind kind, const char *line, size_t n,
              const struct ls_tokenizer *tokenizer)
{
    const struct ls_line l = { .data = line, .n = n, .number = 7 };
    memset(&r->err, 0, sizeof r->err);
    r->rules = (struct ls_request_rules){ .defaults = &r->defaults,
                                          .tokenizer = tokenizer,
                                          .vocab = RIG_VOCAB,
                                          .context = RIG_CONTEXT };
    r->status = ls_request_read(&r->req, kind, &l, &r->rules, &r->err);
}

void rig_folder_new(char path[256])
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/lockstep job XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path))
        fail_msg("%s: %s", path, strerror(errno));
}

static int drop_one(const char *path, const struct stat *s, int flag, struct FTW *at)
{
    (void)s, (void)flag, (void)at;
    return remove(path);
}

void rig_folder_drop(const char *path)
{
    nftw(path, drop_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *rig_in(const char *folder, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void rig_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f))
        fail_msg("%s: %s", path, strerror(errno));
}

char *rig_slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    *n = 0;
    if (!f)
        return NULL;
    size_t cap = 1 << 16;
    char *data = malloc(cap + 1);
    for (size_t got; data && (got = fread(data + *n, 1, cap - *n, f)) > 0;) {
        *n += got;
        if (*n == cap)
            data = realloc(data, (cap *= 2) + 1);
    }
    fclose(f);
    if (!data)
        fail_msg("out of memory for %s", path);
    data[*n] = 0;
    return data;
}
