/* The prompts of a request file as token ids, for commands that run no job. Layer: app. Local.
 */
#ifndef LS_APP_PROMPTS_H
#define LS_APP_PROMPTS_H

#include "base/alloc.h"
#include "model/arch.h"
#include "parity/probe.h"

struct ls_prompts {
    struct ls_arena arena;
    struct ls_probe_prompt *list; /* [n], in the order of the file */
    const char **names; /* [n]: custom ids, "#k" behind those of prompt k > 0 of a line */
    size_t n, capacity;
};

/* Reads `input`, encodes texts with the folder's tokenizer, as run does. A line that run would
 * answer with an error row, and a file without prompts, is LS_E_REQUEST here. Finish it in
 * every case. */
ls_status ls_prompts_read(struct ls_prompts *prompts, const char *input, const char *folder,
                          const struct ls_arch *arch, struct ls_err *err);
void ls_prompts_finish(struct ls_prompts *prompts);

/* Index of the only prompt of this name. LS_E_USAGE: none, or several. */
ls_status ls_prompts_find(const struct ls_prompts *prompts, const char *name, size_t *index,
                          struct ls_err *err);

#endif
