/* One YAML document as a tree: configuration files, sweeps, mappings of dumps.
 *
 * Layer: base. Local; knows YAML, never what a key means. Read event by event: anchors,
 * aliases, tags, a second document, nesting deeper than LS_YAML_DEPTH, more than LS_YAML_KEYS
 * keys in a mapping, repeated keys and zero bytes are refused with file and line, so that no
 * text costs more memory than a small multiple of its length. */
#ifndef LS_BASE_YAML_TREE_H
#define LS_BASE_YAML_TREE_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { LS_YAML_DEPTH = 8, LS_YAML_KEYS = 4096 /* of one mapping */ };

enum ls_yaml_kind { LS_YAML_SCALAR, LS_YAML_LIST, LS_YAML_MAP };

struct ls_yaml {
    enum ls_yaml_kind kind;
    int line;                    /* from 1; in a mapping its key's */
    const char *key;             /* in a mapping; else NULL */
    const char *text;            /* of a scalar, zero-terminated; NULL for the others */
    bool empty;                  /* a scalar that says nothing: absent, ~ or null, unquoted */
    const struct ls_yaml *first; /* of a list or mapping */
    const struct ls_yaml *next;  /* sibling */
    size_t n;                    /* children */
};

/* *root is in the arena; an empty text gives a mapping without keys. path is for messages.
 * LS_E_USAGE, LS_E_MEMORY. */
ls_status ls_yaml_parse(const struct ls_yaml **root, const char *path, const char *yaml,
                        size_t n, struct ls_arena *arena, struct ls_err *err);

/* The child of this key, or NULL. */
const struct ls_yaml *ls_yaml_find(const struct ls_yaml *map, const char *key);

#endif
