/* What must hold of every model on every machine, tried on this one: the checks behind
 * `lockstep selftest --model`.
 *
 * Layer: parity. Local. A few hundred tokens in all (LS_SELFTEST_TOKENS at most through the
 * whole model), made up from a fixed seed; rows are compared by their digests, so bit for bit.
 * A check that could not notice a fault (a change that reaches nothing) does not pass. */
#ifndef LS_PARITY_SELFTEST_H
#define LS_PARITY_SELFTEST_H

#include "parity/replay.h"

enum ls_selftest_part {
    LS_SELFTEST_REPEAT,     /* the same tokens again, and in other chunks: the same bits */
    LS_SELFTEST_CAUSALITY,  /* changing token t changes no logits before t, and those of t */
    LS_SELFTEST_NEIGHBOURS, /* other sequences in the same steps change nothing */
    LS_SELFTEST_WINDOW,     /* a layer's window ends where the model says, to the token */
    LS_N_SELFTEST_PARTS
};

enum { LS_SELFTEST_LENGTH = 48, LS_SELFTEST_TOKENS = 700, LS_SELFTEST_TEXT = 240 };

struct ls_selftest_verdict {
    bool good;
    char text[LS_SELFTEST_TEXT]; /* what was tried, or what is wrong */
};

const char *ls_selftest_name(enum ls_selftest_part part);

/* Loads the model once, and single layers of it for the window. verdicts[]: of every part. A
 * failure is one of the machine or the checkpoint, not of a check. */
ls_status ls_selftest_model(const struct ls_replay_model *model,
                            const struct ls_kernels *kernels, int n_threads,
                            struct ls_selftest_verdict verdicts[LS_N_SELFTEST_PARTS],
                            struct ls_err *err);

#endif
