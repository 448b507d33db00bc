/* One request: a line of input turned into prompts and settings, all of it checked.
 *
 * Layer: jobs. Local, but for the rendering of chats. The kinds of line:
 *   OpenAI batch   {"custom_id", "method": "POST", "url": "/v1/completions", "body": {...}},
 *                  or "/v1/chat/completions"
 *   plain object   {"prompt": ...}, {"tokens": [...]} or {"messages": [...]}, with "custom_id"
 *                  (or "id") if wanted and the same fields as a body beside it
 *   harness        {"request_type": ...}, see request_harness.c
 *   text           the whole line is the prompt
 *   document       the whole input is a text to be scored
 * Without a custom_id, all but batch lines get "line-<number>".
 *
 * A text prompt is encoded with the tokenizer's special tokens, unless add_special_tokens is
 * false; a rendered chat is encoded without them, as the reference does, for the template
 * spells them; a prompt of ids is taken as it is. Fields and ranges: max_tokens 0.. (16),
 * temperature 0..2, top_p (0, 1], top_k -1.., min_p 0..1, n 1..128, best_of = n, logprobs and
 * prompt_logprobs 0..20, stop (a text or up to 64), stop_token_ids, seed (64 bits), echo,
 * ignore_eos, logit_bias (id: -100..100), presence_penalty and frequency_penalty -2..2,
 * repetition_penalty (0, 100], model; user, metadata, store, service_tier and stream are
 * accepted and change nothing. null is as if absent. Of a chat: logprobs is a flag and
 * top_logprobs the number, max_completion_tokens is as max_tokens, which is by default what is
 * left of the context. Anything else, and any value out of range, is refused by name: a field
 * that would change the answer is never ignored.
 *
 * n_prompt + max_tokens may be one more than the context: the last token is never fed back. */
#ifndef LS_JOBS_REQUEST_H
#define LS_JOBS_REQUEST_H

#include "base/alloc.h"
#include "base/status.h"
#include "jobs/chat.h"
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

enum ls_input_kind { LS_INPUT_TEXT, LS_INPUT_JSON, LS_INPUT_DOCUMENT };

enum ls_request_kind {
    LS_KIND_COMPLETION,
    LS_KIND_CHAT,
    LS_KIND_GENERATE, /* generate_until: a completion with the harness's rules */
    /* nothing is generated; each prompt has scored rows */
    LS_KIND_LOGLIKELIHOOD,
    LS_KIND_ROLLING, /* prompts are the windows of one text */
};

struct ls_prompt {
    const int32_t *tokens; /* [n], 1..; [n + 1] when n_scored > 0 */
    uint32_t n;
    uint32_t n_scored; /* the last n_scored rows are for the token that follows each */
    const char *text;  /* [n_text]; NULL for a prompt of ids */
    size_t n_text;
};

struct ls_request {
    struct ls_arena arena; /* owns everything below */
    uint64_t line;         /* 1.. */
    const char *custom_id; /* [n_custom_id]; NULL when the line has none that can be read */
    size_t n_custom_id;
    unsigned char digest[32]; /* BLAKE2b-256 of the line */
    const char *code;         /* of the error row, when refused */

    enum ls_request_kind kind;
    bool add_special;   /* a text prompt gets the tokenizer's special tokens */
    bool truncated;     /* harness: tokens were dropped on the left */
    bool given_max;     /* max_tokens was said, by the request or for the run */
    bool text_alone;    /* the continuation is decoded without looking at the prompt */
    uint64_t n_bytes;   /* rolling: of the text that is scored */
    const char *scored; /* loglikelihood: the continuation's text [n_scored_text], or NULL */
    size_t n_scored_text;

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
    const struct ls_chat *chat;           /* or NULL: chats are refused */
    int32_t vocab, context;
    int32_t prefix; /* the token in front of a text that is scored; -1: none is known */
    int32_t stride; /* tokens that a document's window scores; 0: the context */
    bool scores;    /* `lockstep score`: a line of text is a document */
    bool no_prefix; /* documents are scored from their second token on */
    bool listed;    /* documents: log-probabilities of every token in the row */
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
