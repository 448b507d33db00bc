/* The row table of a step: whatever the bytes are, decoding stays inside them, what is accepted
 * encodes to the same bytes, and tables take or refuse it without losing track of a block. */
#include "kernels/kernels.h"
#include "stage/tables.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 4, BLOCKS = 8 };

static const struct ls_step_limits limits = { .max_rows = SLOTS,
                                              .max_events = 16,
                                              .max_tokens = 64,
                                              .n_slots = SLOTS,
                                              .n_blocks = BLOCKS,
                                              .max_blocks_per_slot = 4,
                                              .context = 128 };

static void require(int holds)
{
    if (!holds)
        abort();
}

static void play(const struct ls_step *step)
{
    struct ls_slot slots[SLOTS] = { { .open = false } };
    uint32_t blocks[SLOTS * 4] = { 0 }, in_use = 0, held = 0;
    /* what earlier sequences left, so that some blocks can be adopted */
    uint32_t users[BLOCKS] = { 0 }, whole[BLOCKS] = { 1, 2, 3, 4, 1 };
    struct ls_event_undo undo[16];
    struct ls_tables tables = { .lim = limits,
                                .slots = slots,
                                .blocks = blocks,
                                .users = users,
                                .whole = whole,
                                .undo = undo };
    if (ls_tables_apply(&tables, step, NULL) == LS_OK)
        ls_tables_advance(&tables, step);
    for (int i = 0; i < SLOTS; i++)
        held += slots[i].open ? slots[i].n_blocks - slots[i].live_first / LS_KV_BLOCK : 0;
    for (int b = 0; b < BLOCKS; b++)
        in_use += users[b];
    require(held == in_use);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char again[4 * (4 + SLOTS * 6 + 16 * 3)];
    struct ls_step step;
    require(ls_step_init(&step, &limits, 0, NULL) == LS_OK);
    if (ls_step_decode(&step, data, size, &limits, NULL) == LS_OK) {
        require(ls_step_bytes(&step) == size && size <= sizeof again);
        ls_step_encode(&step, again);
        require(memcmp(again, data, size) == 0);
        require(ls_step_check(&step, &limits, NULL) == LS_OK);
        play(&step);
    }
    ls_step_finish(&step);
    return 0;
}
