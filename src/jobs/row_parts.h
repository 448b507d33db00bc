/* The pieces of a row that depend on what was asked. Layer: jobs, private to row*.c. */
#ifndef LS_JOBS_ROW_PARTS_H
#define LS_JOBS_ROW_PARTS_H

#include "jobs/row.h"

/* A token as its text, bytes:\xNN... or token_id:N; quoted. */
ls_status ls_row_token(struct ls_out *out, int32_t token, const struct ls_tokenizer *tokenizer,
                       struct ls_err *err);
/* OpenAI's object of the likeliest tokens beside score `at`, its own among them. */
ls_status ls_row_top(struct ls_out *out, const struct ls_scores *scores, size_t at,
                     const struct ls_tokenizer *tokenizer, struct ls_err *err);

/* How many of the generated tokens belong to the text that is returned: all, or those that
 * begin in front of the stop at which it was cut. */
ls_status ls_row_n_shown(size_t *n, const struct ls_choice *c,
                         const struct ls_tokenizer *tokenizer, struct ls_err *err);

/* A choice of a chat. */
ls_status ls_row_chat_choice(struct ls_out *out, const struct ls_choice *c,
                             const struct ls_tokenizer *tokenizer, struct ls_err *err);

/* True for requests whose choices are windows of one text, all of them scored. */
static inline bool ls_row_is_score(const struct ls_request *req)
{
    return req->kind == LS_KIND_LOGLIKELIHOOD || req->kind == LS_KIND_ROLLING;
}
/* Their one choice; the sums behind `usage`; the ids in front of the digest. */
ls_status ls_row_score_choice(struct ls_out *out, const struct ls_request *req,
                              const struct ls_choice *windows,
                              const struct ls_tokenizer *tokenizer, struct ls_err *err);
void ls_row_score_sums(struct ls_out *out, const struct ls_request *req,
                       const struct ls_choice *windows);
void ls_row_score_ids(struct ls_out *out, const struct ls_request *req,
                      const struct ls_choice *windows);

#endif
