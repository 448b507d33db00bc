/* The tensors of a Hugging Face checkpoint folder, mapped and not read. Layer: tensor.
 *
 * Opens model.safetensors, or the shards that model.safetensors.index.json names; the index is
 * the truth. Every fault that headers and sizes can show is found here, before any compute, and
 * its message names file and tensor. The mapping is read-only; pages are touched only by
 * whoever reads a tensor's data. Local. */
#ifndef LS_TENSOR_CHECKPOINT_H
#define LS_TENSOR_CHECKPOINT_H

#include "base/status.h"
#include "tensor/safetensors.h"

struct ls_checkpoint;

ls_status ls_checkpoint_open(struct ls_checkpoint **out, const char *dir, struct ls_err *err);
void ls_checkpoint_close(struct ls_checkpoint *ckpt); /* takes NULL */

size_t ls_checkpoint_n_tensors(const struct ls_checkpoint *ckpt);
const struct ls_tensor *ls_checkpoint_tensor(const struct ls_checkpoint *ckpt, size_t i);
/* NULL when there is none of that name. */
const struct ls_tensor *ls_checkpoint_find(const struct ls_checkpoint *ckpt, const char *name);
/* File name (without folder) that holds tensor t, for messages. */
const char *ls_checkpoint_file_of(const struct ls_checkpoint *ckpt, const struct ls_tensor *t);

/* Name of the file that says which tensors there are: the index, or the only weight file. */
const char *ls_checkpoint_list(const struct ls_checkpoint *ckpt);

/* Drops the pages of a tensor's bytes from this process: after it was repacked, the copy in the
 * mapping need not stay resident. The data can still be read. */
void ls_checkpoint_release(const struct ls_checkpoint *ckpt, const struct ls_tensor *t);

/* Bytes of the mappings resident in this process now (from the kernel), for evidence. */
ls_status ls_checkpoint_resident_bytes(const struct ls_checkpoint *ckpt, uint64_t *bytes,
                                       struct ls_err *err);

/* BLAKE2b-256 over names, dtypes, shapes and sizes in name order; with_bytes adds every
 * tensor's bytes (--check-bytes). Equal on every host exactly when the checkpoints are. */
void ls_checkpoint_digest(const struct ls_checkpoint *ckpt, int with_bytes,
                          unsigned char digest[32]);

/* Reads a whole small file into a fresh zero-terminated buffer (free with ls_free): config and
 * tokenizer files. Longer than max_bytes, or not a regular file: refused. */
ls_status ls_file_read(const char *path, uint64_t max_bytes, char **out, size_t *n,
                       struct ls_err *err);

#endif
