/* Writes small Llama checkpoints with random weights, whole or broken in one chosen way.
 * The same spec gives the same bytes. */
#ifndef LS_TESTS_MODEL_MAKER_H
#define LS_TESTS_MODEL_MAKER_H

#include "model_rig.h"
#include "tensor/dtype.h"

struct maker {
    int vocab, hidden, intermediate, n_layers, n_heads, n_kv_heads;
    enum ls_dtype dtype;      /* of matrices */
    enum ls_dtype norm_dtype; /* of norms; NONE: as the matrices */
    bool tied;
    bool head;           /* write lm_head.weight */
    const char *prefix;  /* in front of every body tensor; NULL: "model." */
    const char *without; /* leave this tensor out */
    const char *extra;   /* add this one, [2] of the matrices' dtype */
    const char *odd;     /* give this one another dtype and shape: odd_dtype, odd_rows */
    enum ls_dtype odd_dtype;
    int odd_rows; /* 0: as it should be */
};

/* A spec of small sizes, bf16, untied with a head. */
struct maker maker_small(void);

/* Writes config.json and model.safetensors into an existing folder. */
void maker_write(const struct maker *m, const struct rig_folder *f);

#endif
