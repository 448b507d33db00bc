/* The token ids of each request of a run, by the names that its logits have.
 *
 * Layer: parity. Local. Names are custom ids, with " [choice k]" behind those of choice k > 0,
 * as in dump.h. */
#ifndef LS_PARITY_PASSAGES_H
#define LS_PARITY_PASSAGES_H

#include "base/alloc.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ls_passage {
    const char *name;
    const int32_t *ids; /* [n]: of the prompt, then those that were generated or scored */
    uint32_t n_prompt, n;
    uint64_t number;    /* of the request's line, from 1 */
    const char *digest; /* of its logits, as the result row says it; NULL: it has none */
    const char *error;  /* of an error row: its message; else NULL */
};

struct ls_passages {
    struct ls_arena arena;
    struct ls_passage *list; /* [n], in the order of lines */
    size_t n, capacity;
    size_t *by_name; /* [n] */
};

void ls_passages_init(struct ls_passages *s);
void ls_passages_finish(struct ls_passages *s);
/* A copy of everything that the passage points at. LS_E_MEMORY. */
ls_status ls_passages_add(struct ls_passages *s, const struct ls_passage *passage,
                          struct ls_err *err);
/* After the last one. LS_E_FORMAT: two of one name. */
ls_status ls_passages_sort(struct ls_passages *s, struct ls_err *err);
/* NULL: none of that name. */
const struct ls_passage *ls_passages_find(const struct ls_passages *s, const char *name);

/* "id", or "id [choice k]" for k > 0; to be freed. NULL: no memory. */
char *ls_passage_name(const char *id, size_t choice);

/* What a file of result rows says: no prompts, only what was generated. One that is missing a
 * custom id is named by its line, "line-<number>". Sorted already. LS_E_IO, LS_E_FORMAT. */
ls_status ls_passages_read_rows(struct ls_passages *s, const char *path, struct ls_err *err);

#endif
