/* What a run will take, before it: memory of each rank and, when the requests are known, time.
 *
 * Layer: app. Local. Writes nothing; reads the requests, and the weights of the last layers to
 * measure this machine. */
#ifndef LS_APP_PREDICT_H
#define LS_APP_PREDICT_H

#include "app/app.h"
#include "jobs/ahead.h"
#include "pipeline/forecast.h"

#include <jansson.h>
#include <stdio.h>

struct ls_chat_process;

struct ls_prediction {
    const char *input; /* NULL: no requests are known, and only memory is predicted */
    struct ls_ahead requests;
    struct ls_pace pace;
    struct ls_rehearsal run;
    uint64_t tokenizer_bytes;
    double load_s;             /* of the rank that loads most */
    struct ls_forecast *ranks; /* [n_ranks]; owned */
    int n_ranks;
};

/* What is known when the plan is formed. */
struct ls_predict_terms {
    const struct ls_options *options;
    const struct ls_run_wish *wish;
    const struct ls_plan *plan;
    const struct ls_arch *arch;
    const struct ls_checkpoint *ckpt;
    uint64_t base_bytes;        /* of a rank's process before anything is loaded */
    const struct ls_chat *chat; /* or NULL */
};

/* Ended by ls_prediction_finish in every case. */
ls_status ls_predict(struct ls_prediction *out, const struct ls_predict_terms *terms,
                     struct ls_err *err);
void ls_prediction_finish(struct ls_prediction *p);

void ls_prediction_print(const struct ls_prediction *p, FILE *out);
/* A new object, or NULL when memory is exhausted. */
json_t *ls_prediction_to_json(const struct ls_prediction *p);

#endif
