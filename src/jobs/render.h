/* Chats rendered ahead of a run: the request file again, with the texts in it.
 *
 * Layer: jobs. Local. A chat's body gets "rendered_prompt", or "rendered_error" when its
 * template refuses it or its messages are not in order; run then needs no renderer for it, and
 * the answer is the same. Every other line is copied as it is. */
#ifndef LS_JOBS_RENDER_H
#define LS_JOBS_RENDER_H

#include "jobs/chat.h"

#include <stdint.h>

struct ls_render_counts {
    uint64_t lines, rendered, failed;
    uint64_t failed_line; /* the first one; 0: none */
    char why[LS_ERR_TEXT];
};

/* input: a file or "-". output comes into being when it is whole. LS_E_REFUSED: no chat can be
 * rendered, and err says why; LS_E_USAGE, LS_E_IO, LS_E_MEMORY. */
ls_status ls_render_file(const char *input, const char *output, const struct ls_chat *chat,
                         struct ls_render_counts *counts, struct ls_err *err);

#endif
