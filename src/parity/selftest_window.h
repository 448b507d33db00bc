/* The window part of the self-test. Layer: parity, private to selftest*.c.
 *
 * One layer of each kind (window, or chunk of Llama 4) runs alone, on made-up inputs, so that
 * what a token reaches is not smeared by the layers behind: the token must be seen by the last
 * one that sees it by the model's word, and by none behind. A window of more than
 * LS_SELFTEST_MAX_WINDOW is tried as one of that size, which the verdict says. */
#ifndef LS_PARITY_SELFTEST_WINDOW_H
#define LS_PARITY_SELFTEST_WINDOW_H

#include "parity/selftest.h"

enum { LS_SELFTEST_MAX_WINDOW = 64 };

ls_status ls_selftest_window(const struct ls_replay_model *model,
                             const struct ls_kernels *kernels, int n_threads,
                             struct ls_selftest_verdict *verdict, struct ls_err *err);

#endif
