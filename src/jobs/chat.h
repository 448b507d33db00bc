/* From the messages of a chat to the text that the model reads.
 *
 * Layer: jobs. What renders is the app's (a process that runs the reference's own template
 * engine), or a script in the tests; jobs only checks the messages and asks. */
#ifndef LS_JOBS_CHAT_H
#define LS_JOBS_CHAT_H

#include "base/status.h"
#include "text/buffer.h"

#include <stddef.h>

struct ls_chat {
    void *arg;
    /* request [n] is JSON: {"messages": [...], "add_generation_prompt": true or false,
     * "variables": {...}}. Appends the rendered text to *text. LS_E_REQUEST: this chat cannot
     * be rendered (the template refuses it); LS_E_REFUSED: none can, and err says why. Local to
     * rank 0; waits for the answer, but not for ever. */
    ls_status (*render)(void *arg, const char *request, size_t n, struct ls_bytes *text,
                        struct ls_err *err);
};

#endif
