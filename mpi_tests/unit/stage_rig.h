/* What the tests of stages share: a fixture opened as a model, a chain of stages in one
 * process, and a player that feeds sequences through it in chunks, company and blocks drawn at
 * random. Functions fail the running cmocka test by themselves; nothing is returned on failure.
 */
#ifndef LS_TESTS_STAGE_RIG_H
#define LS_TESTS_STAGE_RIG_H

#include "model/weights.h"
#include "stage/stage.h"
#include "tensor/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RIG_PROMPTS = 4, RIG_GREEDY = 24, RIG_MAX_STAGES = 8, RIG_MAX_SEQUENCES = 8 };

/* Random numbers that a seed repeats. */
struct rig_random {
    uint64_t key, index;
};
uint32_t rig_below(struct rig_random *r, uint32_t n); /* 0..n-1 */

/* --- a fixture -------------------------------------------------------------------------------
 */

struct rig_model {
    struct ls_arena arena;
    struct ls_arch arch;
    struct ls_checkpoint *ckpt;
};

bool rig_has(const char *fixture);
/* context 0: the config's own. */
void rig_open(struct rig_model *m, const char *fixture, bool f32, int context);
/* Another checkpoint folder. */
void rig_open_folder(struct rig_model *m, const char *path, bool f32, int context);
void rig_close(struct rig_model *m);

/* The reference of a fixture: ids and logits of its four prompts. */
struct rig_reference {
    struct ls_arena arena;
    char *image;
    struct ls_tensor *tensors;
    size_t n_tensors;
};
void rig_reference_open(struct rig_reference *ref, const char *fixture);
void rig_reference_close(struct rig_reference *ref);
/* Prompt i; *n tokens. */
const int32_t *rig_ids(const struct rig_reference *ref, int i, uint32_t *n);
/* The greedy continuation of prompt i: [RIG_GREEDY]. */
const int32_t *rig_greedy(const struct rig_reference *ref, int i);
/* [n][vocab] of tensor `what`/i. */
const float *rig_logits(const struct rig_reference *ref, const char *what, int i);

/* --- a chain of stages -----------------------------------------------------------------------
 */

struct rig_chain {
    const struct rig_model *model;
    struct ls_step_limits limits;
    int n_stages;
    struct ls_stage *stages[RIG_MAX_STAGES];
    int cuts[RIG_MAX_STAGES + 1]; /* first layer of each stage, then n_layers */
    struct ls_step step;          /* as rank 0 writes it */
    struct ls_step seen;          /* as a later stage decodes it */
    unsigned char *bytes;         /* the step's byte form */
    char *hidden[2];              /* between stages */
    float *logits;                /* of one call */
    uint32_t max_logit_rows;
};

struct rig_layout {
    int n_stages;
    int cuts[RIG_MAX_STAGES + 1];
    int n_threads;
    const struct ls_kernels *kernels;
    struct ls_step_limits limits;
    uint32_t max_logit_rows;
    const struct ls_tap *tap; /* or NULL */
};

/* One stage, one thread, the fastest kernels, `tokens` in one step, one slot. */
struct rig_layout rig_plain(const struct rig_model *m, uint32_t tokens);
struct ls_step_limits rig_limits(const struct rig_model *m, uint32_t tokens, uint32_t slots);

void rig_chain_open(struct rig_chain *c, const struct rig_model *m,
                    const struct rig_layout *layout);
void rig_chain_close(struct rig_chain *c);
/* Runs c->step through all stages, by its bytes from the second on; sent logits to out. */
void rig_chain_run(struct rig_chain *c, float *out);

/* --- sequences through a chain ---------------------------------------------------------------
 */

struct rig_sequence {
    const int32_t *ids;
    uint32_t n;
    float *logits;            /* [n][vocab], filled */
    unsigned char digest[32]; /* over all of them, filled */
    /* the player's */
    uint32_t slot, done, n_blocks, live_first;
    bool open, closed;
};

struct rig_play {
    struct rig_sequence *sequences;
    int n_sequences;
    struct rig_random *random; /* NULL: whole prompts, one after another, blocks in order */
    uint32_t max_chunk;        /* with random: tokens of one row, 1.. */
    uint32_t window;           /* not 0: blocks wholly outside such a window are trimmed */
    uint64_t steps, allocs;    /* out: steps run; allocations made in all but the first */
};

/* Plays all sequences to their ends. */
void rig_play(struct rig_chain *c, struct rig_play *play);

/* The plain run of one prompt: logits [n][vocab] into `logits`. */
void rig_plain_run(const struct rig_model *m, const int32_t *ids, uint32_t n, float *logits,
                   unsigned char digest[32]);

#endif
