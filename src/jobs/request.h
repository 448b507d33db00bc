/* One request: a line of input turned into prompts and settings, all of it checked.
 *
 * Layer: jobs. Local. Three kinds of line:
 *   OpenAI batch   {"custom_id", "method": "POST", "url": "/v1/completions", "body": {...}}
 *   plain object   {"prompt": ...} or {"tokens": [...]}, with "custom_id" (or "id") if wanted
 * and the same fields as a body beside it text           the whole line is the prompt Without a
 * custom_id, plain objects and texts get "line-<number>".
 *
 * A text prompt is encoded with the tokenizer's special tokens; a prompt of ids is taken as it
 * is. Fields and ranges: max_tokens 0.. (16), temperature 0..2, top_p (0, 1], top_k -1.., min_p
 * 0..1, n 1..128, best_of = n, logprobs and prompt_logprobs 0..20, stop (a text or up to 64),
 * stop_token_ids, seed (64 bits), echo, ignore_eos, logit_bias (id: -100..100),
 * presence_penalty and frequency_penalty -2..2, repetition_penalty (0, 100], model; user,
 * metadata, store, service_tier and stream = false are accepted and change nothing. null is as
 * if absent. Anything else, and any value out of range, is refused by name: a field that would
 * change the answer is never ignored.
 *
 * n_prompt + max_tokens may be one more than the context: the last token is never fed back. */
#ifndef LS_JOBS_REQUEST_H
#define LS_JOBS_REQUEST_H

#include "base/alloc.h"
#include "base/status.h"
#include "jobs/job.h"
#include "jobs/lines.h"
#include "jobs/sampler.h"
#include "jobs/stops.h"

enum {
    LS_MAX_N = 128,
    LS_MAX_PROMPTS = 2048,
    LS_MAX_CHOICES = 16384, /* prompts x n */
    LS_MAX_STOPS = 64,
    LS_MAX_STOP_IDS = 1024,
    LS_MAX_TOP = 20, /* logprobs, prompt_logprobs */
};

enum ls_input_kind { LS_INPUT_TEXT, LS_INPUT_JSON };

struct ls_prompt {
    const int32_t *tokens; /* [n], 1.. */
    uint32_t n;
    const char *text; /* [n_text]; NULL for a prompt of ids */
    size_t n_text;
};

struct ls_request {
    struct ls_arena arena; /* owns everything below */
    uint64_t line;         /* 1.. */
    const char *custom_id; /* [n_custom_id]; NULL when the line has none that can be read */
    size_t n_custom_id;
    unsigned char digest[32]; /* BLAKE2b-256 of the line */
    const char *code;         /* of the error row, when refused */

    const char *model;         /* the request's own, or NULL */
    struct ls_prompt *prompts; /* [n_prompts] */
    uint32_t n_prompts;        /* 1.. */
    int32_t n;                 /* choices of each prompt, 1..LS_MAX_N */
    int32_t max_tokens;        /* 0.. */
    struct ls_sampling sampling;
    bool has_seed;
    int64_t seed;
    bool echo, ignore_eos;
    int32_t logprobs, prompt_logprobs; /* 0..LS_MAX_TOP; -1: none */
    struct ls_stops stops;
    const int32_t *stop_ids; /* [n_stop_ids] */
    size_t n_stop_ids;
};

/* What a request is checked against. All outlive it. */
struct ls_request_rules {
    const struct ls_request_defaults *defaults;
    const struct ls_tokenizer *tokenizer; /* or NULL */
    int32_t vocab, context;
};

/* Fills *req, which ls_request_finish must end in every case. LS_E_REQUEST: refused, with
 * req->code and the message for its error row; custom_id is set when it could be read. Other
 * failures end the run. `kind` says how the line is to be read. */
ls_status ls_request_read(struct ls_request *req, enum ls_input_kind kind,
                          const struct ls_line *line, const struct ls_request_rules *rules,
                          struct ls_err *err);
void ls_request_finish(struct ls_request *req);

/* Records a refusal under `code`. */
ls_status ls_request_refuse(struct ls_request *req, const char *code, struct ls_err *err,
                            const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* How the lines of an input are to be read: as JSON when the first line that is not blank
 * begins with '{', or when among the lines in data[n] one is an object with custom_id, body,
 * prompt or tokens, or when the file's name ends in .jsonl or .ndjson; else as text. data is
 * the beginning of the input, at least LS_KIND_BYTES or all of it. */
enum { LS_KIND_BYTES = 64 * 1024 };
enum ls_input_kind ls_input_kind(const char *name, const char *data, size_t n);

#endif
