/* A scripted client for tests of whole runs: sequences drawn from a seed, greedy continuations
 * by plain code, and everything that came back, so that two runs can be compared. */
#ifndef LS_TESTS_SESSION_RIG_H
#define LS_TESTS_SESSION_RIG_H

#include "pipeline/session.h"

enum { RIG_SEQUENCES = 24, RIG_MAX_PROMPT = 90, RIG_MAX_NEW = 24 };

/* Random numbers that a seed repeats. */
struct rig_random {
    uint64_t key, index;
};
uint32_t rig_below(struct rig_random *r, uint32_t n); /* 0..n-1 */

struct rig_sequence {
    struct ls_sequence seq;
    int32_t prompt[RIG_MAX_PROMPT];
    int32_t new_tokens[RIG_MAX_NEW];
    uint32_t n_new;
    uint32_t next_pos;        /* of the next logits row that must come */
    unsigned char logits[32]; /* hash chained over every row that came, with its position */
    unsigned char digest[32];
    uint64_t n_rows;
    int n_done; /* calls of done; 1 in the end */
};

struct rig_script {
    int vocab;
    int n, started, finished;
    struct rig_sequence *sequences; /* [RIG_SEQUENCES] */
    int fail_at;                    /* logits call at which the client fails; 0: never */
    int drain_after; /* sequences done after which tick asks to drain; 0: never */
    int n_calls;
    char fault[256]; /* the first broken promise of the pipeline, "" when none */
    struct ls_client client;
};

/* n sequences; order_seed != 0 starts them in another order. Freed by rig_script_finish. */
void rig_script_init(struct rig_script *script, uint64_t seed, uint64_t order_seed, int vocab);
void rig_script_finish(struct rig_script *script);
/* "" when both runs gave the same, else what differs; both scripts of the same seed. */
const char *rig_script_differs(const struct rig_script *a, const struct rig_script *b);

#endif
