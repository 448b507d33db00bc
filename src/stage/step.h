/* One step of the pipeline, as every stage sees it: which tokens of which sequences, at which
 * positions, in which KV blocks, and which logits are wanted.
 *
 * Layer: stage. Written by the scheduler on rank 0 only; stages never invent a position or a
 * block. The byte form (the row table in front of a STEP frame's tensor) is little-endian u32
 * words: n_rows, n_events, n_tokens, 0; then rows, events, and token ids for stage 0's own use
 * never travel. */
#ifndef LS_STAGE_STEP_H
#define LS_STAGE_STEP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_NO_LAYER = -1 };

/* Consecutive tokens of one sequence. */
struct ls_step_row {
    uint32_t slot;      /* the sequence's place in every stage's tables, < n_slots */
    uint32_t first_pos; /* absolute position of the first token */
    uint32_t count;     /* tokens, 1.. */
    uint32_t n_send;    /* the last n_send positions' logits go to rank 0; <= count */
    uint32_t n_digest;  /* the last n_digest positions' logits enter the slot's digest */
    int32_t nan_layer;  /* first global layer whose output held NaN for these tokens, or
                           LS_NO_LAYER; each stage keeps the smallest */
};

enum ls_event_kind {
    LS_EVENT_OPEN,   /* slot becomes a fresh, empty sequence; value 0 */
    LS_EVENT_ASSIGN, /* value: id of a free block, which becomes the slot's next one */
    LS_EVENT_TRIM,   /* value: new live_first, a multiple of 32; earlier blocks are let go */
    LS_EVENT_CLOSE, /* the slot becomes free, and its blocks that no other one holds; value 0 */
    LS_EVENT_ADOPT, /* value: id of a block that was computed in full as this one of another
                       slot; it becomes the slot's next one, and its positions are there */
    LS_N_EVENTS
};

struct ls_step_event {
    uint32_t kind, slot, value;
};

/* Bounds that the plan fixes; buffers and checks use these, never a peer's numbers. */
struct ls_step_limits {
    uint32_t max_rows;   /* rows of a step, <= n_slots */
    uint32_t max_events; /* events of a step, 1.. */
    uint32_t max_tokens; /* tokens of a step: the budget */
    uint32_t n_slots, n_blocks;
    uint32_t max_blocks_per_slot; /* ceil(context / 32) */
    uint32_t context;             /* positions are < context */
    uint32_t leaves; /* 1: each stage digests every token behind each of its layers,
                        the last one its logits row, too; else 0 */
};

struct ls_step {
    uint64_t id;                         /* 0, 1, 2 .. without gaps */
    uint64_t nonce;                      /* random; its results repeat it */
    uint32_t n_rows, n_events, n_tokens; /* rows and tokens: 1.. */
    struct ls_step_row *rows;            /* [max_rows] */
    struct ls_step_event *events;        /* [max_events], applied in order before the rows */
    int32_t *tokens; /* [max_tokens] in row order; only on rank 0, else NULL */
};

/* LS_E_REFUSED when the limits contradict each other or pass what the program can address. */
ls_status ls_step_limits_check(const struct ls_step_limits *lim, struct ls_err *err);

/* Allocates the arrays of one step (with_tokens: on rank 0). */
ls_status ls_step_init(struct ls_step *step, const struct ls_step_limits *lim, int with_tokens,
                       struct ls_err *err);
void ls_step_finish(struct ls_step *step);

/* Largest, and this step's, size of the byte form. */
size_t ls_step_max_bytes(const struct ls_step_limits *lim);
size_t ls_step_bytes(const struct ls_step *step);
/* Bytes of the leaves of n_tokens tokens behind n_layers layers: [layer][token][LS_LEAF], 0
 * when none are wanted. They travel behind the step's bytes, stage by stage more of them. */
uint64_t ls_step_leaf_bytes(const struct ls_step_limits *lim, uint32_t n_tokens, int n_layers);
/* Writes ls_step_bytes(step) bytes. */
void ls_step_encode(const struct ls_step *step, unsigned char *out);
/* From exactly n bytes; every count and field is checked against `lim` (LS_E_SHAPE). step's
 * arrays must have been made for the same limits; id and nonce are not in the bytes and not
 * touched. */
ls_status ls_step_decode(struct ls_step *step, const unsigned char *bytes, size_t n,
                         const struct ls_step_limits *lim, struct ls_err *err);

/* Every check that needs nothing but the limits, on a step that did not come as bytes. */
ls_status ls_step_check(const struct ls_step *step, const struct ls_step_limits *lim,
                        struct ls_err *err);

/* Rows of logits that a step makes: for each row in order its last max(n_send, n_digest)
 * positions, ascending. */
uint32_t ls_step_n_logits(const struct ls_step *step);
/* How many of logits [begin, end) are sent to rank 0. */
uint32_t ls_step_n_sent(const struct ls_step *step, uint32_t begin, uint32_t end);

/* Where logits row i of a step comes from. */
struct ls_logit_place {
    uint32_t row;   /* step row */
    uint32_t pos;   /* absolute position */
    uint32_t token; /* index among the step's tokens */
    int sent, digested;
};
/* Fills place[0 .. ls_step_n_logits(step)); capacity is max_tokens. */
void ls_step_logit_places(const struct ls_step *step, struct ls_logit_place *places);

#endif
