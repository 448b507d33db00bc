/* The self backend: a message is the sender's buffer, lent to the receiver until it returns it.
 * No copy, no MPI. */
#include "comm/backend.h"

#include <stddef.h>

static ls_status self_open(struct ls_link *link, struct ls_err *err)
{
    for (struct ls_link *other = link->comm->links; other; other = other->next)
        if (other->peer == link->peer && other->tag == link->tag) {
            link->pair = other;
            other->pair = link;
        }
    ls_status s = link->direction == LS_SEND ? ls_link_alloc_buffers(link, err) : LS_OK;
    if (s && link->pair)
        link->pair->pair = NULL;
    return s;
}

static void self_send(struct ls_link *link, int slot, uint64_t n)
{
    link->sent[slot].bytes = n;
}

static void self_advance(struct ls_link *link)
{
    const struct ls_link *sender = link->pair;
    if (link->direction == LS_SEND || link->arrived || !sender ||
        sender->n_busy <= link->n_held)
        return;
    int slot = (sender->oldest + link->n_held) % sender->n_buffers;
    uint64_t n = sender->sent[slot].bytes;
    if (n > link->buffer_bytes) {
        ls_link_fail_too_large(link);
        return;
    }
    link->message = ls_link_slot(sender, slot);
    link->arrived_bytes = n;
    link->arrived = true;
}

static void self_release(struct ls_link *link)
{
    struct ls_link *sender = link->pair;
    sender->oldest = (sender->oldest + 1) % sender->n_buffers;
    sender->n_busy--;
}

static bool self_close(struct ls_link *link)
{
    if (link->pair)
        link->pair->pair = NULL;
    return true;
}

const struct ls_backend ls_backend_self = { .open = self_open,
                                            .send = self_send,
                                            .advance = self_advance,
                                            .release = self_release,
                                            .close = self_close };
