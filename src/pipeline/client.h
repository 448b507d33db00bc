/* What the coordinator asks of the owner of the requests, on rank 0.
 *
 * Layer: pipeline; implemented by jobs, and by a script in the tests. All functions are called
 * by the coordinator's thread, never from two threads at once. A sequence is one prompt and one
 * continuation; a request with n choices is n sequences. */
#ifndef LS_PIPELINE_CLIENT_H
#define LS_PIPELINE_CLIENT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_sequence {
    uint64_t id;           /* the client's own handle */
    const int32_t *tokens; /* [n_prompt], valid until `done` for this id */
    uint32_t n_prompt;     /* 1.. */
    /* tokens that may follow; the last one is never fed back, so n_prompt + max_new - 1 <=
     * context (n_prompt <= context when 0: only the prompt's logits are wanted) */
    uint32_t max_new;
    uint32_t n_send;   /* logits of the last n_send prompt positions are handed over; at least
                          1 when max_new > 0; <= n_prompt */
    uint32_t n_digest; /* the last n_digest prompt positions enter the digest */
    bool digest_generated; /* so do the positions of generated tokens that are fed back */
};

enum ls_next {
    LS_NEXT_SEQUENCE, /* *seq is filled */
    LS_NEXT_LATER,    /* none now; ask again after a sequence is done */
    LS_NEXT_AGAIN,    /* none yet; ask again soon, also when nothing runs */
    LS_NEXT_END       /* no more, ever */
};

struct ls_logits {
    uint32_t pos;      /* absolute position whose next-token logits these are */
    const float *row;  /* [vocab], binary32, valid during the call */
    int32_t nan_layer; /* first layer that produced NaN for this sequence, or -1 */
};

enum ls_verdict {
    LS_GO_ON, /* *token is the token at pos + 1 (at a prompt position before the last: ignored)
               */
    LS_FINISH /* the sequence ends here */
};

struct ls_client {
    void *arg;
    /* The next sequence to run, in the order in which they should start. A failure ends the run
     * (input that cannot be read); so does a sequence that breaks the rules above. One that was
     * handed over just before a drain may never be started, and then never ends. */
    ls_status (*next)(void *arg, struct ls_sequence *seq, enum ls_next *what,
                      struct ls_err *err);
    /* One row of logits, positions ascending within a sequence. */
    ls_status (*logits)(void *arg, uint64_t id, const struct ls_logits *logits,
                        enum ls_verdict *verdict, int32_t *token, struct ls_err *err);
    /* Every position of the sequence, ascending, when the run's wish says leaves; before `done`
     * and behind its logits: leaves [n_layers + 1][LS_LEAF] of the hidden state behind each
     * layer and of the logits row (zeros when that was not computed). Else it may be NULL. */
    ls_status (*leaves)(void *arg, uint64_t id, uint32_t pos, const unsigned char *leaves,
                        struct ls_err *err);
    /* The sequence has ended: by LS_FINISH, or max_new reached. n_rows logits were digested. */
    ls_status (*done)(void *arg, uint64_t id, const unsigned char digest[32], uint64_t n_rows,
                      struct ls_err *err);
    /* Called between steps, some times a second: progress display, flushing. Sets *drain to
     * stop admitting. May be NULL. */
    ls_status (*tick)(void *arg, uint64_t n_running, bool *drain, struct ls_err *err);
};

#endif
