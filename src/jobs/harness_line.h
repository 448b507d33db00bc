/* A line of the harness while it is read. Layer: jobs, private to request_harness.c and
 * request_score.c. */
#ifndef LS_JOBS_HARNESS_LINE_H
#define LS_JOBS_HARNESS_LINE_H

#include "jobs/request_parts.h"

struct ls_harness_line {
    struct ls_request *req;
    const struct ls_request_rules *rules;
    const json_t *first, *second; /* context or text; continuation or gen_kwargs */
    int32_t prefix;               /* -1: none */
    int bos;                      /* add_bos_token: 0, 1; -1: not said */
    bool is_document;
};

/* LS_E_REQUEST: `name` is not what it should be. */
ls_status ls_harness_refuse(const struct ls_harness_line *h, const char *name,
                            const json_t *value, const char *expected, struct ls_err *err);

/* The harness's encoding: as the tokenizer does it (or as add_bos_token says), but with no
 * second BOS in front of a text that spells one. */
ls_status ls_harness_encode(const struct ls_harness_line *h, int32_t bos, const char *text,
                            size_t n, struct ls_ids *ids, struct ls_err *err);
/* Appends the prefix token, or refuses when none is known. */
ls_status ls_harness_prefix(const struct ls_harness_line *h, struct ls_ids *ids,
                            struct ls_err *err);

/* Room for n prompts. */
ls_status ls_harness_prompts(const struct ls_harness_line *h, size_t n, struct ls_err *err);
/* The prompts of a log-likelihood, of a text. */
ls_status ls_harness_pair(const struct ls_harness_line *h, struct ls_err *err);
ls_status ls_harness_text(const struct ls_harness_line *h, const char *text, size_t n,
                          struct ls_err *err);

#endif
