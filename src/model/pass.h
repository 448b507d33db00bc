/* The forward's insides: its scratch and the phases of one pass, shared by the files of the
 * forward only.
 *
 * Layer: model. A phase is called by every member of the team inside a job, between barriers,
 * and writes only what is the member's own: rows [row0, row1), or the outputs of its weight
 * tiles. Activations are binary32 rows that hold D-rounded values; the elements between a row's
 * width and its `ld` are +0 wherever a matrix product with an odd K reads them. */
#ifndef LS_MODEL_PASS_H
#define LS_MODEL_PASS_H

#include "base/carve.h"
#include "model/forward.h"

/* A pair is a token with one of its experts. Pairs are ordered by expert, then by token, so
 * that an expert's inputs are consecutive rows. Which member computes what depends on the step,
 * no sum does. */
struct ls_expert_scratch {
    float *logits;        /* [max_tokens][ld_router]; a softmax or sigmoid replaces them */
    int32_t *keys;        /* [max_tokens][experts + groups] of the choice, as integers */
    int32_t *chosen;      /* [max_tokens][n_chosen] ids, ascending */
    float *weight;        /* [max_tokens][n_chosen] */
    float *shared_weight; /* [max_tokens][LS_TILE], the first counts */
    float *shared;    /* [max_tokens][ld_hidden] output of the shared expert or dense block */
    uint32_t *pair;   /* [max_tokens][n_chosen] where the token's pairs are */
    uint32_t *first;  /* [experts + 1] first pair of each expert, and the end */
    uint32_t *token;  /* [max_tokens x n_chosen] of each pair */
    float *x;         /* [max_tokens x n_chosen][ld_hidden] input of a pair, then its output */
    float *gate, *up; /* [max_tokens x n_chosen][ld_expert] */
};

struct ls_scratch {
    size_t ld_hidden, ld_q, ld_kv, ld_ffn, ld_vocab; /* floats from row to row, 16 x */
    size_t ld_router, ld_expert, ld_per_layer;       /* the same */
    float *h;         /* [max_tokens][ld_hidden] residual stream */
    float *x;         /* [max_tokens][ld_hidden] normed input of a branch, then of the head */
    float *acc;       /* [max_tokens][ld_hidden] output of a branch before it joins h */
    float *q;         /* [max_tokens][ld_q] */
    float *o;         /* [max_tokens][ld_q] attention output */
    float *k, *v;     /* [max_tokens][ld_kv] */
    float *gate, *up; /* [max_tokens][ld_ffn]; the gated product replaces gate */
    float *per_layer; /* [max_tokens][ld_per_layer] inputs of the own layers and those behind */
    struct ls_expert_scratch experts;                   /* of stages that have such layers */
    float *cosines[LS_MAX_ROPES], *sines[LS_MAX_ROPES]; /* [max_tokens][n_pairs] */
    float *attn;                                        /* [n_threads][attn_floats] */
    size_t attn_floats;                                 /* 16 x */
    float *logits;                                      /* [max_logit_rows][ld_vocab] */
    uint32_t *span_of;                                  /* [max_tokens] span of each token */
    int32_t *nan_layer;     /* [max_tokens] first layer whose output held NaN, or -1 */
    struct ls_kv_layer *kv; /* [last_layer - first_layer] */
    int *flushing;          /* [n_threads] what each member's start-up check saw */
};

struct ls_forward {
    struct ls_forward_config cfg;
    const struct ls_weights *weights;
    struct ls_team *team;
    struct ls_scratch s;
    struct ls_forward_io io;    /* of the run in progress */
    bool given_up;              /* by progress; written by member 0 between two barriers */
    struct ls_logits_io wanted; /* of the logits call in progress */
    uint64_t lap_ns;            /* when the phase being timed began */
};

/* One member's part of a job. */
struct ls_part {
    int member, n_members;
    uint32_t row0, row1; /* its rows of the step (or of the wanted logits) */
};

/* A layer as a phase sees it. */
struct ls_pass {
    int global;                       /* layer number */
    const struct ls_layer *layer;     /* its entry of arch->layers */
    const struct ls_layer_weights *w; /* its weights */
    const struct ls_kv_layer *kv;     /* its part of the pool */
};

/* Absolute position of the step's token t. */
static inline int32_t ls_token_pos(const struct ls_forward *f, uint32_t t)
{
    const struct ls_span *s = &f->io.spans[f->s.span_of[t]];
    return s->first_pos + (int32_t)(t - s->token);
}

/* Rows of floats. */
struct ls_grid {
    float *at;
    size_t ld;
};

/* Own tiles [tile0, tile1) of a matrix, and the outputs [c0, c1) that they hold. */
struct ls_own {
    int tile0, tile1, c0, c1;
};

/* --- rows.c: own rows ------------------------------------------------------------------------
 */

/* h = embedding rows of the token ids, or the hidden state that came in. */
void ls_rows_load(struct ls_forward *f, struct ls_part p);
/* hidden_out = h in D's bytes, when it is wanted. */
void ls_rows_store(const struct ls_forward *f, struct ls_part p);
/* x = norm(h) with weight w; nothing when w is NULL. */
void ls_rows_norm(struct ls_forward *f, struct ls_part p, const float *w);
/* h = D(h + norm(acc)), where the branch has a norm of its own (w not NULL). */
void ls_rows_join(struct ls_forward *f, struct ls_part p, const float *w);
/* Records layer `global` for rows of h that hold NaN and did not before. */
void ls_rows_find_nan(struct ls_forward *f, struct ls_part p, int global);
/* h = D(h x scalar). */
void ls_rows_scale(struct ls_forward *f, struct ls_part p, const float *scalar);
/* y = norm of one row with weight w. */
void ls_norm_row(const struct ls_forward *f, float *y, const float *x, const float *w);
/* Row `id` of a table in the mapping, elements [first, first + n), rounded to D and scaled. */
void ls_table_row(const struct ls_forward *f, float *y, const struct ls_tensor *table,
                  uint64_t first, int n, float scale);
/* x[i] = final norm of the i-th wanted row of h. */
void ls_rows_final_norm(struct ls_forward *f, struct ls_part p);

/* --- rope_table.c: own rows ------------------------------------------------------------------
 */

/* Cosines and sines of the positions of own rows, for every rope of the architecture. */
void ls_rope_fill(struct ls_forward *f, struct ls_part p);

/* --- matrix.c: own tiles ---------------------------------------------------------------------
 */

/* q, k, v = D(W x + b), of x, or of h where the branch has no norm in front. */
void ls_phase_qkv(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
/* The branch's last projection: joins h, or waits in acc for the branch's norm. */
void ls_phase_attn_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
void ls_phase_ffn_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
/* gate = D(act(gate) * up). */
void ls_phase_ffn_in(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
/* The same block of a layer that has experts too: its rounded output waits in experts.shared.
 */
void ls_phase_shared_out(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

struct ls_own ls_own_tiles(const struct ls_matrix *m, uint64_t tile0, uint64_t tile1);
struct ls_own ls_own_share(const struct ls_matrix *m, struct ls_part p);
/* y = W x, bias last, in binary32, for own outputs of rows [0, n_rows). */
void ls_product(const struct ls_forward *f, struct ls_grid y, struct ls_grid x,
                const struct ls_matrix *m, struct ls_own own, uint32_t n_rows);
/* Rounds own outputs of rows [0, n_rows) to D. */
void ls_round_own(const struct ls_forward *f, struct ls_grid y, struct ls_own own,
                  uint32_t n_rows);
/* gate = D(act(gate) * up) in own outputs [c0, c1) of n; +0 behind an odd n. */
void ls_gate_own(const struct ls_forward *f, struct ls_grid gate, struct ls_grid up, int n,
                 struct ls_own own, uint32_t n_rows);
/* Logits of the wanted rows from x. */
void ls_phase_head(struct ls_forward *f, struct ls_part p);

/* --- attention.c -----------------------------------------------------------------------------
 */

/* Own rows: norms and rope of q and k, then k and v into their KV blocks. */
void ls_phase_cache(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
/* o = attention, split by (span, queries, head) with about equal numbers of visible keys. */
void ls_phase_attention(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- experts.c -------------------------------------------------------------------------------
 */

/* The feed-forward of a layer of experts, with its barriers: from x, normed by this member for
 * its rows, until the output has joined h (own rows). */
void ls_experts_run(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- router.c --------------------------------------------------------------------------------
 */

/* Own rows: chosen experts and their weights. */
void ls_rows_route(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- per_layer.c -----------------------------------------------------------------------------
 */

/* First stage: the inputs of all layers from the embedded tokens, with barriers. */
void ls_per_layer_make(struct ls_forward *f, struct ls_part p);
/* The block behind a layer's feed-forward, with barriers; its output waits in acc. */
void ls_per_layer_run(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- tap.c -----------------------------------------------------------------------------------
 */

static inline bool ls_tapped(const struct ls_forward *f, enum ls_op op)
{
    return f->cfg.tap && (f->cfg.tap->ops >> op & 1);
}

/* Each does nothing when nobody wants `op`. `width`: elements of the whole value. */

/* One row, or own rows, of the step. */
void ls_tap_row(const struct ls_forward *f, enum ls_op op, int layer, uint32_t t,
                const float *at, int width);
void ls_tap_rows(const struct ls_forward *f, struct ls_part p, enum ls_op op, int layer,
                 struct ls_grid from, int width);
/* Own outputs of all rows. */
void ls_tap_own(const struct ls_forward *f, enum ls_op op, int layer, struct ls_grid from,
                int width, struct ls_own own);
/* Own outputs, at `at`, of the i-th row whose logits are wanted. */
void ls_tap_wanted(const struct ls_forward *f, enum ls_op op, uint32_t i, const float *at,
                   struct ls_own own, int width);
/* Own rows' choice of experts and their weights. */
void ls_tap_route(const struct ls_forward *f, struct ls_part p, int layer);
/* Own rows' experts, from an array of pairs; `width` of one expert. */
void ls_tap_pairs(const struct ls_forward *f, struct ls_part p, enum ls_op op, int layer,
                  struct ls_grid from, int width);
/* Own rows, after attention and before its projection. Overwrites own rows of k. */
void ls_tap_scores(const struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- scratch.c -------------------------------------------------------------------------------
 */

/* Places every array of the scratch and the forward itself in one block and returns its bytes,
 * UINT64_MAX on overflow. */
uint64_t ls_scratch_place(struct ls_forward **f, struct ls_scratch *s, struct ls_carve *c,
                          const struct ls_forward_config *cfg, int n_threads);

#endif
