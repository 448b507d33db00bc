/* One way to compute, asked for probes: by this program, or by another one that runs beside it.
 *
 * Layer: app. Local; a child of this process where another program is named. */
#ifndef LS_APP_PARITY_ARM_H
#define LS_APP_PARITY_ARM_H

#include "app/prompts.h"
#include "parity/locate.h"
#include "parity/replay.h"
#include "pipeline/plan.h"

struct ls_parity_wish {
    const char *model;   /* as --model has it */
    const char *input;   /* request file */
    const char *program; /* another lockstep; NULL: this one */
    bool f32;
    int cpu;              /* enum ls_cpu_path; -1: the fastest */
    int context, threads; /* 0: the model's own, all cores */
};

struct ls_parity_arm {
    struct ls_parity_wish wish;
    char folder[LS_MAX_PATH];
    struct ls_replay_model model;
    struct ls_prompts prompts;
    const struct ls_kernels *kernels;
    int n_threads;
};

/* Opens the checkpoint (no weight is read) and encodes the prompts. Finish it in every case. */
ls_status ls_parity_arm_open(struct ls_parity_arm *arm, const struct ls_parity_wish *wish,
                             struct ls_err *err);
void ls_parity_arm_finish(struct ls_parity_arm *arm);

/* struct ls_locate_arm's function; arg is the arm. */
ls_status ls_parity_arm_probe(void *arg, const struct ls_probe_wish *wish, const char *path,
                              struct ls_err *err);

/* The configuration of a probe by this program, of the arm's own or another architecture; the
 * prompt is put into *prompt. */
struct ls_probe_config ls_parity_arm_config(const struct ls_parity_arm *arm,
                                            const struct ls_probe_wish *wish,
                                            struct ls_probe_prompt *prompt);

#endif
