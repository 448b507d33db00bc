/* What a dump is made of. Layer: parity, private to dump*.c and external.c. */
#ifndef LS_PARITY_DUMP_PARTS_H
#define LS_PARITY_DUMP_PARTS_H

#include "parity/dump.h"
#include "parity/store.h"
#include "tensor/mapping.h"

struct ls_dump {
    struct ls_arena arena; /* entries' texts */
    struct ls_dump_entry *entries;
    size_t n, capacity;
    size_t *by_name; /* [n] indices of entries, sorted by name */
    /* the file that is mapped now */
    char *path; /* NULL: none */
    struct ls_mapping mapping;
    struct ls_arena file_arena; /* tensors' names */
    struct ls_tensor *tensors;  /* of a safetensors file, sorted by name */
    size_t n_tensors;
    /* a file of differences, mapped for good */
    bool is_base;         /* the reference of such a file, and none itself */
    struct ls_dump *base; /* the reference; NULL: this dump is none */
    struct ls_store store;
    void *rows, *scratch; /* of the entry that is viewed */
};

ls_status ls_dump_open_as(struct ls_dump **out, const char *path, bool is_base,
                          struct ls_err *err);
ls_status ls_dump_new(struct ls_dump **out, struct ls_err *err);
ls_status ls_dump_add(struct ls_dump *dump, const struct ls_dump_entry *entry,
                      struct ls_err *err);
/* After the last entry. LS_E_FORMAT: two of one name. */
ls_status ls_dump_sort(struct ls_dump *dump, struct ls_err *err);

/* The mapped file holds differences. */
ls_status ls_dump_open_kept(struct ls_dump *dump, struct ls_err *err);
ls_status ls_dump_view_kept(struct ls_dump *dump, size_t i, struct ls_tensor *tensor,
                            struct ls_err *err);

#endif
