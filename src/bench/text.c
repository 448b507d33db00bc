#include "bench/text.h"

#include "base/alloc.h"

enum { N_IDS = 50000 };

struct text {
    const struct ls_tokenizer *tok;
    struct ls_ids ids;
    struct ls_bytes bytes, again;
    struct ls_ids found;
    ls_status status; /* of the first call that failed */
    struct ls_err err;
};

static void encode(void *arg)
{
    struct text *const t = arg;
    t->found.n = 0;
    if (!t->status)
        t->status =
            ls_tokenizer_encode(t->tok, t->bytes.data, t->bytes.n, false, &t->found, &t->err);
}

static void decode(void *arg)
{
    struct text *const t = arg;
    t->again.n = 0;
    if (!t->status)
        t->status =
            ls_tokenizer_decode(t->tok, t->ids.data, t->ids.n, true, &t->again, &t->err);
}

static void measure(struct ls_results *r, const char *name, struct text *t,
                    void (*run)(void *arg), double seconds)
{
    struct ls_rate rate;
    ls_measure(&rate, &(struct ls_work){ .run = run,
                                         .arg = t,
                                         .amount = (double)t->bytes.n,
                                         .seconds = seconds,
                                         .by_cpu_time = r->by_cpu_time });
    ls_results_add(
        r, &(struct ls_result){ .part = "job", .name = name, .unit = "MB/s", .scale = 1e6 },
        &rate);
}

ls_status ls_bench_text(struct ls_results *r, const struct ls_tokenizer *tok, double seconds,
                        struct ls_err *err)
{
    static int32_t drawn[N_IDS];
    const uint32_t vocab = (uint32_t)ls_tokenizer_vocab_size(tok);
    struct text t = { .tok = tok, .ids = { .data = drawn, .n = N_IDS } };
    uint32_t x = 1;
    for (int i = 0; i < N_IDS; i++) {
        x = x * 1664525u + 1013904223u;
        drawn[i] = (int32_t)((x >> 8) % vocab);
    }
    t.status = ls_tokenizer_decode(tok, drawn, N_IDS, true, &t.bytes, &t.err);
    if (!t.status) {
        measure(r, "text to tokens", &t, encode, seconds);
        measure(r, "tokens to text", &t, decode, seconds);
    }
    const ls_status s = t.status ? ls_fail(err, t.status, "%s", t.err.text) : LS_OK;
    ls_bytes_finish(&t.bytes);
    ls_bytes_finish(&t.again);
    ls_ids_finish(&t.found);
    return s;
}
