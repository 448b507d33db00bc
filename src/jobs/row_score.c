#include "jobs/row_parts.h"

#include "kernels/math64.h"

#include <math.h>

static const double ln2 = 0x1.62e42fefa39efp-1;
enum { MAX_EXPONENT = 700 };

/* Calls a writer for each scored token, windows in order. */
static ls_status for_each(struct ls_out *out, const struct ls_request *req,
                          const struct ls_choice *windows, const struct ls_tokenizer *tokenizer,
                          ls_status (*write)(struct ls_out *out, const struct ls_scores *s,
                                             size_t at, const struct ls_tokenizer *tokenizer,
                                             struct ls_err *err),
                          struct ls_err *err)
{
    ls_status status = LS_OK;
    bool first = true;
    for (uint32_t w = 0; w < req->n_prompts; w++)
        for (size_t i = 0; !status && i < windows[w].scores.n; i++) {
            ls_out_text(out, first ? "" : ",");
            first = false;
            status = write(out, &windows[w].scores, i, tokenizer, err);
        }
    return status;
}

static ls_status write_token(struct ls_out *out, const struct ls_scores *s, size_t at,
                             const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    return ls_row_token(out, s->items[at].token, tokenizer, err);
}

static ls_status write_logprob(struct ls_out *out, const struct ls_scores *s, size_t at,
                               const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    (void)tokenizer, (void)err;
    ls_out_f64(out, s->items[at].logprob);
    return LS_OK;
}

static ls_status write_id(struct ls_out *out, const struct ls_scores *s, size_t at,
                          const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    (void)tokenizer, (void)err;
    ls_out_i64(out, s->items[at].token);
    return LS_OK;
}

static ls_status add_logprobs(struct ls_out *out, const struct ls_request *req,
                              const struct ls_choice *windows,
                              const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    ls_out_text(out, "{\"tokens\":[");
    ls_status status = for_each(out, req, windows, tokenizer, write_token, err);
    ls_out_text(out, "],\"token_logprobs\":[");
    for_each(out, req, windows, tokenizer, write_logprob, err);
    ls_out_text(out, "],\"top_logprobs\":[");
    if (!status)
        status = for_each(out, req, windows, tokenizer, ls_row_top, err);
    ls_out_text(out, "],\"text_offset\":null}");
    return status;
}

ls_status ls_row_score_choice(struct ls_out *out, const struct ls_request *req,
                              const struct ls_choice *windows,
                              const struct ls_tokenizer *tokenizer, struct ls_err *err)
{
    ls_status status = LS_OK;
    ls_out_text(out, "{\"index\":0,\"text\":");
    ls_out_string(out, req->scored, req->n_scored_text);
    ls_out_text(out, ",\"logprobs\":");
    if (req->logprobs < 0)
        ls_out_text(out, "null");
    else
        status = add_logprobs(out, req, windows, tokenizer, err);
    ls_out_text(out, ",\"finish_reason\":\"length\"}");
    return status;
}

struct sums {
    double logprob; /* added in the order of the text */
    uint64_t n;
    bool greedy;
};

static struct sums sums_of(const struct ls_request *req, const struct ls_choice *windows)
{
    struct sums s = { .greedy = true };
    for (uint32_t w = 0; w < req->n_prompts; w++)
        for (size_t i = 0; i < windows[w].scores.n; i++) {
            s.logprob += windows[w].scores.items[i].logprob;
            s.greedy = s.greedy && windows[w].scores.items[i].rank == 1;
            s.n++;
        }
    return s;
}

static void add_number(struct ls_out *out, const char *name, double value)
{
    ls_out_text(out, name);
    ls_out_f64(out, value);
}

static void add_rolling(struct ls_out *out, const struct ls_request *req, const struct sums *s)
{
    const double mean = s->n ? s->logprob / (double)s->n : NAN;
    const double bytes = (double)req->n_bytes;
    add_number(out, ",\"perplexity\":", mean >= -MAX_EXPONENT ? ls_exp64(-mean) : NAN);
    add_number(out, ",\"bits_per_byte\":", bytes > 0 ? -s->logprob / bytes / ln2 : NAN);
    ls_out_text(out, ",\"bytes\":");
    ls_out_u64(out, req->n_bytes);
    ls_out_text(out, ",\"windows\":");
    ls_out_u64(out, req->n_prompts);
}

void ls_row_score_sums(struct ls_out *out, const struct ls_request *req,
                       const struct ls_choice *windows)
{
    const struct sums s = sums_of(req, windows);
    add_number(out, ",\"loglikelihood\":", s.logprob);
    if (req->kind == LS_KIND_ROLLING)
        add_rolling(out, req, &s);
    else
        ls_out_text(out, s.greedy ? ",\"is_greedy\":true" : ",\"is_greedy\":false");
    ls_out_text(out, ",\"scored_tokens\":");
    ls_out_u64(out, s.n);
    ls_out_text(out, req->truncated ? ",\"truncated\":true" : ",\"truncated\":false");
}

void ls_row_score_ids(struct ls_out *out, const struct ls_request *req,
                      const struct ls_choice *windows)
{
    const bool listed = req->kind == LS_KIND_LOGLIKELIHOOD || req->logprobs >= 0;
    ls_out_text(out, "{\"token_ids\":[");
    if (listed)
        for_each(out, req, windows, NULL, write_id, NULL);
    ls_out_text(out, "],");
    if (req->kind == LS_KIND_ROLLING)
        return;
    ls_out_text(out, "\"context_tokens\":");
    ls_out_u64(out, req->prompts[0].n + 1 - req->prompts[0].n_scored);
    ls_out_text(out, ",");
}
