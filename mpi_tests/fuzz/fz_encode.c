/* Any bytes as a text, by four tokenizers of different make (the first byte chooses): refused
 * exactly when they are not UTF-8; else ids of the vocabulary, and what a byte-level or
 * byte-fallback tokenizer made of them decodes to the text again. */
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_KINDS = 4 };

static void must(int good)
{
    if (!good)
        abort();
}

/* Vocabulary entries for the 256 letters of byte-level, or the 256 <0xHH>, from id 0. */
static size_t put_bytes(char *out, bool letters)
{
    size_t k = 0;
    int extra = 0x100;
    for (int b = 0; b < 256; b++) {
        bool plain = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        int c = plain ? b : extra++;
        k += (size_t)sprintf(out + k, letters ? "\"\\u%04x\":%d," : "\"<0x%02X>\":%d,",
                             letters ? c : b, b);
    }
    return k;
}

static struct ls_tokenizer *make(int kind)
{
    static const char *const parts[N_KINDS] = {
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"},",
        "\"added_tokens\":[{\"id\":259,\"content\":\"<s>\",\"special\":true},{\"id\":256,"
        "\"content\":\"ab\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true}],"
        "\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
        "\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":false},{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":true}]},\"decoder\":{\"type\":\"ByteLevel\"},",
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{"
        "\"type\":"
        "\"Fuse\"}]},",
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":"
        "\"Lowercase\"},{\"type\":\"Prepend\",\"prepend\":\"_\"},{\"type\":\"Replace\","
        "\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\"_\"}]},\"pre_tokenizer\":{\"type\":"
        "\"Metaspace\",\"replacement\":\"_\"},",
    };
    struct ls_tokenizer *tok = NULL;
    struct ls_err err = { 0 };
    char *json = malloc(16384);
    must(json != NULL);
    size_t k = (size_t)sprintf(json,
                               "{%s\"model\":{\"type\":\"BPE\",\"byte_fallback\":%s,"
                               "\"vocab\":{",
                               parts[kind], kind > 1 ? "true" : "false");
    k += put_bytes(json + k, kind < 2);
    sprintf(json + k, kind < 2 ? "\"ab\":256,\"aba\":257,\"\\u00e3\\u0123\":258},\"merges\":["
                                 "\"a b\",\"ab a\",\"\\u00e3 \\u0123\"]}}"
                               : "\"a\":256,\"b\":257,\"ab\":258},\"merges\":[\"a b\"]}}");
    must(!ls_tokenizer_create(&tok, json, strlen(json), NULL, 0, &err));
    free(json);
    return tok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ls_tokenizer *toks[N_KINDS];
    if (!size)
        return 0;
    int kind = data[0] % N_KINDS;
    if (!toks[kind])
        toks[kind] = make(kind);
    const struct ls_tokenizer *tok = toks[kind];
    const char *text = (const char *)data + 1;
    const size_t n = size - 1;
    struct ls_ids ids = { 0 };
    struct ls_bytes out = { 0 };
    struct ls_err err = { 0 };
    ls_status s = ls_tokenizer_encode(tok, text, n, true, &ids, &err);
    must((s == LS_OK) == (ls_utf8_check(data + 1, n) == n));
    must(s == LS_OK || (s == LS_E_REQUEST && *err.text));
    for (size_t i = 0; i < ids.n; i++)
        must(ls_tokenizer_has_id(tok, ids.data[i]));
    must(!ls_tokenizer_decode(tok, ids.data, ids.n, false, &out, &err));
    must(ls_utf8_check(out.data, out.n) == out.n);
    if (!s && kind % 2 == 0)
        must(out.n == n && (!n || !memcmp(out.data, text, n)));
    ls_ids_finish(&ids);
    ls_bytes_finish(&out);
    return 0;
}
