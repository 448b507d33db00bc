/* A set of tensors written as one safetensors file. Layer: parity. Local. */
#ifndef LS_PARITY_EXPORT_H
#define LS_PARITY_EXPORT_H

#include "parity/dump.h"

/* Names are those of the entries ("logits" for an npy file, which has none), bytes as they are.
 * A file that is there is replaced when the new one is whole. LS_E_REFUSED: a name that the
 * format keeps for itself; LS_E_IO, LS_E_FULL, LS_E_MEMORY. */
ls_status ls_dump_export(struct ls_dump *dump, const char *path, struct ls_err *err);

#endif
