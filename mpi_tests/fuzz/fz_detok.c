/* Any stream of ids through decoders of different make (the first byte chooses): what comes out
 * piece by piece is whole characters, and together exactly what decoding all at once gives. */
#include "text/detok.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_DECODERS = 9 };

static void must(int good)
{
    if (!good)
        abort();
}

static struct ls_tokenizer *make(int kind)
{
#define BYTES   "{\"type\":\"ByteFallback\"}"
#define LETTERS "{\"type\":\"ByteLevel\"}"
#define FUSE    "{\"type\":\"Fuse\"}"
#define SPACES  "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"}"
#define STRIP   "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}"
#define META    "{\"type\":\"Metaspace\",\"replacement\":\"_\"}"
#define RUNS    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+|b\"},\"content\":\"x\"}"
    static const char *const chains[N_DECODERS] = {
        LETTERS,
        SPACES "," BYTES "," FUSE,
        SPACES "," BYTES "," FUSE "," STRIP,
        META,
        BYTES "," META "," STRIP,
        LETTERS "," RUNS,
        FUSE "," LETTERS "," SPACES,
        STRIP "," FUSE "," BYTES "," RUNS,
        "",
    };
    static const char head[] = "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[";
    static const char tail[] =
        "]},\"added_tokens\":[{\"id\":16,\"content\":\"<s>\",\"special\":true}],\"model\":{"
        "\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"<0xE4>\":0,\"<0xBD>\":1,\"<0xA0>\":2,"
        "\"<0x41>\":3,\"\\u00e4\":4,\"\\u00bd\":5,\"\\u0142\":6,\"_\":7,\"_a\":8,\"a\":9,"
        "\"b_\":10,\"__\":11,\"\\u4f60\":12,\"\\u00f0\\u0141\":13,\"\\u013a\\u0122\":14,"
        "\"\":15}}}";
    char json[2048];
    struct ls_tokenizer *tok = NULL;
    struct ls_err err = { 0 };
    size_t n_head = sizeof head - 1, n_chain = strlen(chains[kind]);
    memcpy(json, head, n_head);
    memcpy(json + n_head, chains[kind], n_chain);
    memcpy(json + n_head + n_chain, tail, sizeof tail);
    must(!ls_tokenizer_create(&tok, json, strlen(json), NULL, 0, &err));
    return tok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ls_tokenizer *toks[N_DECODERS];
    if (!size)
        return 0;
    int kind = data[0] % N_DECODERS;
    bool skip = data[0] & 0x80;
    if (!toks[kind])
        toks[kind] = make(kind);
    struct ls_ids ids = { 0 };
    struct ls_bytes all = { 0 }, parts = { 0 };
    struct ls_detok *d = NULL;
    struct ls_err err = { 0 };
    must(!ls_detok_create(&d, toks[kind], skip, &err));
    for (size_t i = 1; i < size; i++) {
        int32_t id = (int8_t)data[i] % 20; /* some have no token */
        must(!ls_ids_push(&ids, id, &err));
        must(!ls_detok_feed(d, id, &parts, &err));
        if (i < 1000)
            must(ls_utf8_check(parts.data, parts.n) == parts.n);
    }
    must(!ls_detok_finish(d, &parts, &err));
    must(!ls_tokenizer_decode(toks[kind], ids.data, ids.n, skip, &all, &err));
    must(all.n == parts.n && (!all.n || !memcmp(all.data, parts.data, all.n)));
    must(ls_utf8_check(all.data, all.n) == all.n);
    ls_detok_destroy(d);
    ls_ids_finish(&ids);
    ls_bytes_finish(&all);
    ls_bytes_finish(&parts);
    return 0;
}
