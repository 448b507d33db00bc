/* A scripted coordinator: drives a job's client over a made-up model, in an order drawn from a
 * seed, with as many sequences side by side as it likes.
 *
 * The model: logits are noise that depends on the tokens so far. A prompt that begins with <sp>
 * is continued with its own tokens behind <sp>, then </s>. One that begins with id 262 has NaN
 * in the logits of position tokens[1], first produced by layer tokens[2] (0: by none). */
#ifndef LS_TESTS_JOB_SCRIPT_H
#define LS_TESTS_JOB_SCRIPT_H

#include "job_rig.h"

enum { RIG_NAN = 262 };

struct script {
    uint64_t seed;
    int max_running;
    uint64_t stop_after;   /* rows of logits, then the run fails (LS_E_DRAINED); 0: never */
    int n_calls;           /* of next, so far */
    uint64_t most_running; /* side by side */
    struct ls_err err;
};

/* Runs to the end, or to the first failure. */
ls_status script_run(struct script *s, const struct ls_client *client);

/* The row after tokens[0..pos] of a prompt of n_prompt tokens. */
void script_row(float row[RIG_VOCAB], const int32_t *tokens, uint32_t pos, uint32_t n_prompt);

/* One whole job: `input` through folder/in.jsonl (or the name given in config->input) to
 * folder/out.jsonl. config's other fields are the caller's. */
struct script_job {
    struct ls_job_config config;
    const struct ls_tokenizer *tokenizer;
    bool resume; /* else it starts over */
    struct script script;
    struct ls_job_counts counts;
    char digest[68];
    struct ls_err err;
};
ls_status script_job(struct script_job *j, const char *folder, const void *input, size_t n);

/* Row i (0..) of folder/out.jsonl as JSON; the caller decrefs. */
struct json_t *script_result(const char *folder, size_t i);

#endif
