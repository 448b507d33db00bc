/* One line of the output file, as text. Layer: jobs. Local, pure: a row is a function of the
 * request and its results, so it is the same whatever the layout and timing.
 *
 * A success row is an OpenAI batch output line whose body is a text completion or, for a chat,
 * a chat completion, plus
 *   "lockstep": {"token_ids": [...], "logits_digest": "b2:<64 hex>", "rows": N}
 * of one choice; of several {"choices": [one such object each], "logits_digest": BLAKE2b-256
 * over the choices' digests, "rows": their sum}. logits_digest is null under --digest none. An
 * error row has "response": null and "error": {"code", "message", "line"}.
 *
 * The harness's requests and scored texts are text completions too, with more in the body:
 * loglikelihood (natural logarithm, the sum), scored_tokens, truncated, and is_greedy or, of a
 * rolling one, perplexity, bits_per_byte, bytes and windows; generate_until has truncated. In
 * `lockstep` token_ids are then the scored ones (of a rolling one only with logprobs) and
 * context_tokens counts those in front of them; the digest is there under --digest all.
 *
 * text is "" without a tokenizer. logprobs is OpenAI's object; a token whose bytes are no whole
 * characters is written as bytes:\xNN..., one without a spelling as token_id:N; with echo the
 * first token's entries are null. text_offset counts characters of `text`. prompt_logprobs
 * (beside it, when asked for) is vLLM's list: null, then {"<id>": {"logprob", "rank",
 * "decoded_token"}} per prompt token. */
#ifndef LS_JOBS_ROW_H
#define LS_JOBS_ROW_H

#include "jobs/choice.h"
#include "jobs/out.h"

struct ls_row_rules {
    const struct ls_tokenizer *tokenizer; /* or NULL */
    const char *model_name;               /* when the request names none */
    enum ls_digest digest;
};

/* Appends the row of a request whose choices [n_prompts x n] are all done and free of NaN, with
 * its line end; digest gets the request's logits digest (zeros under --digest none). */
ls_status ls_row_write(struct ls_out *out, const struct ls_request *req,
                       const struct ls_choice *choices, const struct ls_row_rules *rules,
                       unsigned char digest[32], struct ls_err *err);

/* Appends an error row. The line number is part of its ids, so that repeated lines differ. */
void ls_row_error(struct ls_out *out, const struct ls_request *req, const char *code,
                  const char *message);

/* The two lists of log-probabilities of one choice, as JSON values. */
ls_status ls_row_logprobs(struct ls_out *out, const struct ls_choice *choice,
                          const struct ls_tokenizer *tokenizer, struct ls_err *err);
ls_status ls_row_prompt_logprobs(struct ls_out *out, const struct ls_choice *choice,
                                 const struct ls_tokenizer *tokenizer, struct ls_err *err);

#endif
