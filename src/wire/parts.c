#include "wire/parts.h"

#include "base/size.h"

#include <stdbool.h>
#include <string.h>

uint64_t ls_parts_count(uint64_t n, uint64_t frame_bytes)
{
    const uint64_t full = frame_bytes - LS_PARTS_GAP;
    return n <= full ? 1 : (n + full - 1) / full;
}

uint64_t ls_parts_bytes(uint64_t n, uint64_t frame_bytes, uint64_t part)
{
    const uint64_t full = frame_bytes - LS_PARTS_GAP;
    return ls_min_u64(n - part * full, full);
}

/* Where a place in a gap goes on behind it; any other place as it is. */
static uint64_t past_gap(uint64_t at, uint64_t frame_bytes)
{
    const uint64_t in = (at + LS_PARTS_GAP) % frame_bytes;
    return at + LS_PARTS_GAP >= frame_bytes && in < LS_PARTS_GAP ? at + LS_PARTS_GAP - in : at;
}

static uint64_t until_gap(uint64_t at, uint64_t frame_bytes)
{
    return frame_bytes - (at + LS_PARTS_GAP) % frame_bytes;
}

/* Copies between the gaps that lie in the payload and the places behind its end, which leave
 * the gaps there free. */
static void move_gaps(unsigned char *payload, uint64_t n, uint64_t frame_bytes, bool to_end)
{
    uint64_t end = past_gap(n, frame_bytes);
    if (ls_parts_count(n, frame_bytes) == 1)
        return;
    for (uint64_t gap = frame_bytes - LS_PARTS_GAP; gap < n; gap += frame_bytes)
        for (uint64_t at = gap, size; at < ls_min_u64(gap + LS_PARTS_GAP, n); at += size) {
            size =
                ls_min_u64(ls_min_u64(gap + LS_PARTS_GAP, n) - at, until_gap(end, frame_bytes));
            memcpy(payload + (to_end ? end : at), payload + (to_end ? at : end), size);
            end = past_gap(end + size, frame_bytes);
        }
}

void ls_parts_split(unsigned char *payload, uint64_t n, uint64_t frame_bytes)
{
    move_gaps(payload, n, frame_bytes, true);
}

void ls_parts_join(unsigned char *payload, uint64_t n, uint64_t frame_bytes)
{
    move_gaps(payload, n, frame_bytes, false);
}
