/* A set of tensors on disk, one mapped file at a time: a logits folder of ours (index.json),
 * one safetensors file, one npy file, or a file of differences to another set (store.h), whose
 * tensors are made anew as they are viewed. Of other programs' sets a mapping file says what
 * lies where (external.h).
 *
 * Layer: parity. Local. Holds names and places, never tensor bytes; a view is valid until the
 * next one of the same dump. Names of files come from index.json and are refused unless they
 * lie directly in the folder. */
#ifndef LS_PARITY_DUMP_H
#define LS_PARITY_DUMP_H

#include "base/status.h"
#include "tensor/safetensors.h"

#include <stddef.h>
#include <stdint.h>

struct ls_dump;

struct ls_dump_entry {
    const char *name;   /* custom_id, with " [choice k]" for k > 0; or the tensor's own name;
                           "" for an npy file */
    const char *file;   /* path */
    const char *tensor; /* name inside a safetensors file; NULL for npy */
    uint64_t first_position; /* of row 0; 0 outside logits folders */
    uint64_t rows;           /* as index.json says; UINT64_MAX: it is not said */
};

/* LS_E_IO: cannot be read; LS_E_FORMAT: broken. */
ls_status ls_dump_open(struct ls_dump **out, const char *path, struct ls_err *err);
void ls_dump_close(struct ls_dump *dump); /* takes NULL */

/* In the order of index.json, or by name. */
size_t ls_dump_n(const struct ls_dump *dump);
const struct ls_dump_entry *ls_dump_entry(const struct ls_dump *dump, size_t i);
/* Index of the entry of this name, or -1. */
int64_t ls_dump_find(const struct ls_dump *dump, const char *name);

/* Maps the tensor of entry i. */
ls_status ls_dump_view(struct ls_dump *dump, size_t i, struct ls_tensor *tensor,
                       struct ls_err *err);
/* BLAKE2b-256 over names, places, shapes, types and bytes of all tensors, in the order of
 * entries; reads everything. */
ls_status ls_dump_digest(struct ls_dump *dump, unsigned char digest[32], struct ls_err *err);
/* Lets the pages of a part of the viewed tensor go. */
void ls_dump_release(const struct ls_dump *dump, const void *data, uint64_t bytes);

#endif
