/* Which weight files a checkpoint folder has. Layer: tensor. Local.
 *
 * Looks at names only. Stray weight files are refused here: a `.safetensors` that nothing names
 * is either forgotten or meant, and guessing would compute the wrong model. */
#ifndef LS_TENSOR_FOLDER_H
#define LS_TENSOR_FOLDER_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>

#define LS_WEIGHTS_FILE "model.safetensors"
#define LS_INDEX_FILE   "model.safetensors.index.json"

struct ls_folder {
    const char **safetensors; /* [n_safetensors] names ending in .safetensors, sorted */
    int n_safetensors;
    bool has_index;    /* model.safetensors.index.json */
    const char *other; /* a weight file of another format (.bin, .gguf, .pth), or NULL */
};

/* Lists dir; names live in the arena. LS_E_IO when it cannot be read. */
ls_status ls_folder_list(struct ls_folder *folder, const char *dir, struct ls_arena *arena,
                         struct ls_err *err);

/* Refuses (LS_E_FORMAT) when a .safetensors of the folder is not among the n sorted names. */
ls_status ls_folder_check_strays(const struct ls_folder *folder, const char *const *names,
                                 int n, struct ls_err *err);

/* Refuses a folder without an index and without model.safetensors, saying what it has instead.
 */
ls_status ls_folder_check_weights(const struct ls_folder *folder, struct ls_err *err);

#endif
