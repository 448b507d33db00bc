/* Files in memory: read-only mappings and whole small files. Layer: tensor. Local.
 *
 * A mapping is taken of a regular file at the size it has then; nothing is read. The caller
 * owns it. A file that shrinks while it is mapped ends the process with SIGBUS at the next
 * touch of the lost part: sizes are checked when a checkpoint is opened and cannot be held
 * afterwards. */
#ifndef LS_TENSOR_MAPPING_H
#define LS_TENSOR_MAPPING_H

#include "base/status.h"

#include <stdint.h>

struct ls_mapping {
    void *base;    /* NULL when the file is empty */
    uint64_t size; /* bytes of the file */
};

/* Refused (LS_E_IO, the file's last path part in the message): not there, not readable, not a
 * regular file. An empty file gives an empty mapping. */
ls_status ls_mapping_open(struct ls_mapping *m, const char *path, struct ls_err *err);
void ls_mapping_close(struct ls_mapping *m);

/* Lets the pages of [data, data + bytes) go from this process, widened to the window that the
 * kernel maps around a fault: border pages shared with neighbours can be read again. */
void ls_mapping_release(const struct ls_mapping *m, const void *data, uint64_t bytes);

/* Adds what the kernel counts as resident in this process for n mappings to *bytes. */
ls_status ls_mapping_resident(const struct ls_mapping *m, int n, uint64_t *bytes,
                              struct ls_err *err);

#endif
