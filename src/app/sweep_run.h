/* The runs of a sweep: children started, their results compared, kept and recorded.
 *
 * Layer: app. Local; never MPI: arms are programs of their own, since a rank that dies takes
 * its whole MPI job with it. Each run works in a folder of its own under attempts/; what it
 * leaves is put in its place only when it is whole, the record in results/ last, so that a
 * sweep that is killed at any instant goes on with what is not recorded. */
#ifndef LS_APP_SWEEP_RUN_H
#define LS_APP_SWEEP_RUN_H

#include "app/sweep_folder.h"
#include "app/sweep_truth.h"

struct ls_sweep_run {
    const struct ls_sweep *sweep;
    const char *program; /* of arms that name no binary */
    struct ls_sweep_folder folder;
    struct ls_sweep_truth truth;
    struct ls_arena arena;       /* texts of outcomes */
    struct ls_outcome *outcomes; /* [sweep->n]; owned */
    json_t *
        *facts[LS_N_PHASES]; /* [sweep->n] of finished runs: what timings.json says; owned */
    unsigned char digests[LS_N_PHASES][32]; /* of the reference's logits, once has_digest */
    bool has_digest[LS_N_PHASES];
    json_t *model; /* from the reference's manifest; or NULL; owned */
    /* after each arm, in the order in which they end; arg for it */
    void (*tell)(void *arg, const struct ls_sweep_run *run, size_t arm);
    void *arg;
};

/* Allocates what the run needs. LS_E_MEMORY. */
ls_status ls_sweep_run_init(struct ls_sweep_run *run, const struct ls_sweep *sweep,
                            const char *program, struct ls_err *err);
void ls_sweep_run_finish(struct ls_sweep_run *run);

/* The reference, then the other arms. An arm that fails has its reason in its outcome. Failures
 * of the reference, of the folder and of memory end the sweep; LS_E_DRAINED after SIGINT or
 * SIGTERM (app/stop.h). The folder is open. */
ls_status ls_sweep_run_all(struct ls_sweep_run *run, struct ls_err *err);

/* LS_E_DRAINED in words. */
ls_status ls_sweep_stopped(struct ls_err *err);

/* Seconds of an arm's runs. */
double ls_sweep_seconds(const struct ls_sweep_run *run, size_t arm);

#endif
