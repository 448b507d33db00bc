/* Deliberate faults for the negative controls. Layer: base.
 *
 * In a normal build LS_MUTANT(x) is the constant 0 and leaves no code behind. In a test build
 * (meson -Dmutants=true) the program activates the one mutant that the environment variable
 * LOCKSTEP_MUTANT names, and a test that should notice must then fail. */
#ifndef LS_BASE_MUTANT_H
#define LS_BASE_MUTANT_H

enum ls_mutant {
    LS_MUT_NONE,
    LS_MUT_LOCAL_LAYER,    /* local instead of global layer index */
    LS_MUT_WINDOW,         /* sliding window off by one */
    LS_MUT_F16_WIDEN,      /* f16 payload widened on receive */
    LS_MUT_EVEN_FIRST,     /* even element first in a pair of a dot product */
    LS_MUT_TIE_IGNORED,    /* tied head left out on the last stage */
    LS_MUT_LOCAL_POSITION, /* position from a local counter instead of the row table */
    LS_MUT_BOS_DOUBLED,    /* BOS put twice in front of a prompt */
    LS_MUT_FUTURE,         /* a query sees the key behind its own */
    LS_MUT_NEIGHBOUR,      /* a row reads the KV blocks of the one in front of it */
    LS_MUT_DRIFT,          /* every other step's logits differ in one bit */
    LS_MUT_EMBED_SCALE,    /* scale of the embedding not rounded to D */
    LS_MUT_PLUS_ONE,       /* 1 + w of a norm rounded to D */
    LS_MUT_WIDE_RESIDUAL,  /* residual sum of attention not rounded */
    LS_MUT_NEXT_EXPERT,    /* the last expert chosen is the one behind it in rank */
    LS_MUT_KV_HEAD,        /* attention reads the next KV head */
    LS_MUT_ROPE_LATE,      /* rope turns by the next position */
    LS_MUT_GATE_UP,        /* activation of up instead of gate */
    LS_N_MUTANTS
};

#ifdef LS_MUTANTS
/* Nonzero when `m` is the active mutant. An unknown name ends the program: a negative control
 * that misspells its fault would otherwise pass. */
int ls_mutant_active(enum ls_mutant m);
#define LS_MUTANT(m) ls_mutant_active(LS_MUT_##m)
#else
#define LS_MUTANT(m) 0
#endif

#endif
