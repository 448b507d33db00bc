/* Stop strings: where a growing text is to be cut. Layer: jobs. Local, pure.
 *
 * The match that begins first wins, wherever token borders lie; among those the cut is the
 * same. Bytes are compared, so a stop string is found across any tokens that spell it. */
#ifndef LS_JOBS_STOPS_H
#define LS_JOBS_STOPS_H

#include <stdbool.h>
#include <stddef.h>

struct ls_stop {
    const char *text; /* [n] */
    size_t n;         /* 1.. */
};

struct ls_stops {
    const struct ls_stop *items; /* [n]; the caller's */
    size_t n;
    size_t longest; /* bytes, 0 when n is 0 */
};

/* Looks for a stop in text [n], of which the first n_old bytes were searched before. True when
 * there is one: *cut is the offset where it begins. */
bool ls_stops_find(const struct ls_stops *stops, const void *text, size_t n, size_t n_old,
                   size_t *cut);

#endif
