#include "jobs/stops.h"

#include <string.h>

bool ls_stops_find(const struct ls_stops *stops, const void *text, size_t n, size_t n_old,
                   size_t *cut)
{
    const char *bytes = text;
    /* a match that ends in the new part begins at most longest - 1 bytes before it */
    const size_t back = stops->longest ? stops->longest - 1 : 0;
    const size_t from = n_old > back ? n_old - back : 0;
    size_t first = n;
    for (size_t i = 0; i < stops->n; i++) {
        const struct ls_stop *s = &stops->items[i];
        const size_t end = n - first < s->n ? n : first + s->n;
        const char *hit = end > from ? memmem(bytes + from, end - from, s->text, s->n) : NULL;
        if (hit && (size_t)(hit - bytes) < first)
            first = (size_t)(hit - bytes);
    }
    if (first == n)
        return false;
    *cut = first;
    return true;
}
