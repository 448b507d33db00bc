/* A large payload as several whole frames, where it lies.
 *
 * Layer: wire. Pure functions over bytes. A payload is computed and read as one piece of
 * memory, but each of its frames needs a header and a tag. The frames lie one behind the other
 * in steps of frame_bytes, F, so between two of them there is a gap of LS_PARTS_GAP bytes (tag,
 * header) in the middle of the payload. What the payload has in the gaps travels at its end:
 *
 *   computed   H pppppppppppp pppp pppppppppppp pppp ppppp
 *                             aaaa              bbbb
 *   as frames  H pppppppppppp T  H pppppppppppp T  H ppppp aaaa bbbb T
 *              |<------- F ----->|<------ F ------>|<---- at most F ->|
 *
 * Every frame but the last is full. Room: LS_FRAME_HEADER before the payload, and behind it up
 * to the end of the last frame's F bytes. */
#ifndef LS_WIRE_PARTS_H
#define LS_WIRE_PARTS_H

#include "wire/frame.h"

enum { LS_PARTS_GAP = LS_FRAME_HEADER + LS_FRAME_TAG };

/* Frames for n bytes of payload; 1 for none. frame_bytes > 2 * LS_PARTS_GAP. */
uint64_t ls_parts_count(uint64_t n, uint64_t frame_bytes);
/* Payload bytes of frame `part`, of as many as ls_parts_count says. */
uint64_t ls_parts_bytes(uint64_t n, uint64_t frame_bytes, uint64_t part);

/* Moves what lies in the gaps to the end; then the frames may be sealed. */
void ls_parts_split(unsigned char *payload, uint64_t n, uint64_t frame_bytes);
/* The other way, when all frames have been opened. */
void ls_parts_join(unsigned char *payload, uint64_t n, uint64_t frame_bytes);

#endif
