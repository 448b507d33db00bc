/* The forward's insides: its scratch and the phases of one pass, shared by the files of the
 * forward only.
 *
 * Layer: model. A phase is called by every member of the team inside a job, between barriers,
 * and writes only what is the member's own: rows [row0, row1), or the outputs of its weight
 * tiles. Activations are binary32 rows that hold D-rounded values; the elements between a row's
 * width and its `ld` are +0 wherever a matrix product with an odd K reads them. */
#ifndef LS_MODEL_PASS_H
#define LS_MODEL_PASS_H

#include "model/forward.h"

struct ls_scratch {
    size_t ld_hidden, ld_q, ld_kv, ld_ffn, ld_vocab; /* floats from row to row, 16 x */
    float *h;         /* [max_tokens][ld_hidden] residual stream */
    float *x;         /* [max_tokens][ld_hidden] normed input of a branch, then of the head */
    float *acc;       /* [max_tokens][ld_hidden] output of a branch before it joins h */
    float *q;         /* [max_tokens][ld_q] */
    float *o;         /* [max_tokens][ld_q] attention output */
    float *k, *v;     /* [max_tokens][ld_kv] */
    float *gate, *up; /* [max_tokens][ld_ffn]; the gated product replaces gate */
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
/* Logits of the wanted rows from x. */
void ls_phase_head(struct ls_forward *f, struct ls_part p);

/* --- attention.c -----------------------------------------------------------------------------
 */

/* Own rows: norms and rope of q and k, then k and v into their KV blocks. */
void ls_phase_cache(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);
/* o = attention, split by (span, KV head, queries) with about equal numbers of visible keys. */
void ls_phase_attention(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass);

/* --- scratch.c -------------------------------------------------------------------------------
 */

/* Places every array of the scratch and the forward itself in one block that starts at `base`
 * (NULL: only counts) and returns the block's bytes, UINT64_MAX on overflow. */
uint64_t ls_scratch_place(struct ls_forward **f, struct ls_scratch *s, char *base,
                          const struct ls_forward_config *cfg, int n_threads);

#endif
