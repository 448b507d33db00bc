/* A batch job on rank 0: requests in, rows out, in input order.
 *
 * Layer: jobs; never MPI. Implements the coordinator's `struct ls_client`. Everything that can
 * be found wrong without a model (input missing, output not writable, logits folder in use) is
 * found by ls_job_create, before start-up. A bad request line costs its own row. A finished row
 * goes to the journal beside the output, and from there into the output when its turn has come;
 * a job that was stopped or killed is resumed from there.
 * Requests are described in request.h, rows in row.h, logits files in logits_files.h. */
#ifndef LS_JOBS_JOB_H
#define LS_JOBS_JOB_H

#include "model/arch.h"
#include "pipeline/client.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct ls_job;

enum ls_digest { LS_DIGEST_GENERATED, LS_DIGEST_ALL, LS_DIGEST_NONE };
enum ls_logits_rows { LS_ROWS_ALL, LS_ROWS_PROMPT, LS_ROWS_GENERATED, LS_ROWS_LAST };
enum ls_logits_format { LS_LOGITS_SAFETENSORS, LS_LOGITS_NPY };
enum ls_progress { LS_PROGRESS_AUTO, LS_PROGRESS_BAR, LS_PROGRESS_PLAIN, LS_PROGRESS_NONE };

/* What a request gets when it does not say. OpenAI lines: OpenAI's defaults (temperature 1)
 * unless set here; plain lines and {"prompt"} / {"tokens"}: greedy unless set here. */
struct ls_request_defaults {
    bool has_temperature, has_max_tokens, has_top_p, has_top_k, has_min_p;
    double temperature, top_p, min_p;
    int max_tokens, top_k;
    bool ignore_eos;
};

/* What `lockstep score` adds to a run; all zero for the others. */
struct ls_score_settings {
    bool scores;    /* texts are scored, not continued */
    bool by_line;   /* each line of a text is one; else the whole input is */
    int stride;     /* tokens that a window scores; 0: as many as the context holds */
    bool no_prefix; /* score from the second token on, with nothing in front of the first */
    bool listed;    /* every token's log-probability in the row */
};

struct ls_chat;

/* What a certificate needs and only the caller knows. All outlive the job. */
struct ls_certificate_terms {
    const char *path;            /* of the file that is made when all rows are there */
    const char *profile;         /* of the arithmetic */
    const unsigned char *secret; /* [32] that signs it, or NULL */
    const unsigned char *parts;  /* [parts_bytes], as certificate.h has them */
    uint64_t parts_bytes, n_parts;
    unsigned char parts_root[32];
};

/* A field that changes results belongs into the job's identity, too (identity.c). */
struct ls_job_config {
    const char *input;      /* file, or "-" for standard input, which is copied first */
    const char *output;     /* file; beside it output.lockstep/ is made */
    bool fresh;             /* start over, whatever an earlier run left */
    const char *logits_dir; /* or NULL */
    const char *metrics;    /* Prometheus textfile, or NULL */
    const char *model_name; /* for the rows' "model" field when a request names none */
    enum ls_logits_rows logits_rows;
    enum ls_logits_format logits_format;
    enum ls_digest digest;
    enum ls_progress progress;
    uint64_t seed; /* --seed */
    struct ls_request_defaults defaults;
    struct ls_score_settings score;
    const struct ls_certificate_terms *certificate; /* or NULL */
    const struct ls_chat *chat; /* renders chats; NULL: they are refused. It outlives the job */
};

ls_status ls_job_create(struct ls_job **out, const struct ls_job_config *config,
                        struct ls_err *err);
/* Removes what an unsuccessful start left empty; takes NULL. */
void ls_job_destroy(struct ls_job *job);

/* A fact that results depend on and that the job does not know itself (the model's digest); a
 * run is resumed only when all facts are the same. value NULL: absent. Before ls_job_bind. */
void ls_job_fact(struct ls_job *job, const char *name, const char *value);
/* The one fact that a run takes from the clock: when a job is resumed, the earlier run's value
 * counts. After ls_job_bind ls_job_fact_value says which; it stays valid with the job. */
void ls_job_fact_of_clock(struct ls_job *job, const char *name, const char *value);
const char *ls_job_fact_value(const struct ls_job *job, const char *name);

/* After start-up, before the run. Takes up the journal of an earlier run of the same job, or
 * begins one; LS_E_REFUSED when it is another job's, and then nothing was touched. tokenizer
 * may be NULL (a checkpoint without one): then only token prompts work, and rows carry no text.
 * All outlive the job. */
ls_status ls_job_bind(struct ls_job *job, const struct ls_arch *arch,
                      const struct ls_tokenizer *tokenizer, struct ls_err *err);

const struct ls_client *ls_job_client(struct ls_job *job);

struct ls_job_counts {
    uint64_t rows, error_rows, prompt_tokens, generated_tokens; /* in the journal */
    uint64_t resumed_rows;                                      /* of these, an earlier run's */
    uint64_t torn_bytes;    /* behind its last whole record, cut */
    uint64_t bytes_written; /* in the output */
};
void ls_job_count(const struct ls_job *job, struct ls_job_counts *counts);
/* Makes journal and output durable, and completes the logits files when all rows are there.
 * Called once, also after a failed run. */
ls_status ls_job_finish(struct ls_job *job, struct ls_job_counts *counts, struct ls_err *err);

/* BLAKE2b-256 over all rows' digests in input order, as "b2:<64 hex>". After ls_job_finish. */
void ls_job_digest(const struct ls_job *job, char text[68]);

/* The token in front of a text that is scored: BOS, else EOS, as the harness takes it, of the
 * tokenizer (may be NULL), else of the model; -1: neither is known. */
int32_t ls_job_prefix(const struct ls_arch *arch, const struct ls_tokenizer *tokenizer);

/* Path of the folder beside the output. */
const char *ls_job_folder(const struct ls_job *job);

#endif
