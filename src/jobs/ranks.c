#include "jobs/ranks.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <string.h>

/* Buckets of about so many tokens, where values are spread evenly; values below FAR share the
 * last one. */
enum { PER_BUCKET = 8, MAX_BUCKETS = 1 << 14 };
static const double far = 64;

ls_status ls_ranks_init(struct ls_ranks *r, int32_t vocab, struct ls_err *err)
{
    void *begin, *ranked;
    int32_t n = vocab / PER_BUCKET + 1;
    n = n < MAX_BUCKETS ? n : MAX_BUCKETS;
    ls_status s = ls_alloc(&begin, ((uint64_t)n + 1) * sizeof *r->begin, "sampler", err);
    if (s)
        return s;
    s = ls_alloc(&ranked, (uint64_t)vocab * sizeof *r->ranked, "sampler", err);
    if (s) {
        ls_free(begin);
        return s;
    }
    *r = (struct ls_ranks){ .vocab = vocab, .n_buckets = n, .begin = begin, .ranked = ranked };
    return LS_OK;
}

void ls_ranks_finish(struct ls_ranks *r)
{
    ls_free(r->begin);
    ls_free(r->ranked);
    *r = (struct ls_ranks){ 0 };
}

/* --- buckets ---------------------------------------------------------------------------------
 */

/* Rounding keeps order: a larger value is in no later bucket. */
static int32_t bucket_of(double z, double scale, int32_t last)
{
    const double at = z * scale;
    return at < last ? (int32_t)at : last;
}

void ls_ranks_begin(struct ls_ranks *r, const double *z)
{
    const int32_t last = r->n_buckets - 1;
    double least = 0;
    for (int32_t i = 0; i < r->vocab; i++)
        least = z[i] < least ? z[i] : least;
    least = least > -far ? least : -far;
    const double scale = least < -1e-300 ? last / least : 0;
    memset(r->begin, 0, ((size_t)r->n_buckets + 1) * sizeof *r->begin);
    for (int32_t i = 0; i < r->vocab; i++)
        r->begin[bucket_of(z[i], scale, last)]++;
    for (int32_t b = 0, end = r->vocab; b <= last; b++) {
        const int32_t n = r->begin[b];
        r->begin[b] = end; /* filled downwards, to its begin */
        end -= n;
    }
    for (int32_t i = 0; i < r->vocab; i++)
        r->ranked[--r->begin[bucket_of(z[i], scale, last)]] =
            (struct ls_ranked){ .z = z[i], .token = i };
    r->n_found = r->n_left = 0;
    r->bucket = -1;
}

/* --- a heap in each --------------------------------------------------------------------------
 */

static bool ranks_before(struct ls_ranked a, struct ls_ranked b)
{
    return a.z > b.z || (a.z == b.z && a.token < b.token);
}

static void sift_down(struct ls_ranked *heap, int32_t n, int32_t at)
{
    struct ls_ranked moving = heap[at];
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_before(heap[child + 1], heap[child]))
            child++;
        if (!ranks_before(heap[child], moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void open_bucket(struct ls_ranks *r)
{
    const int32_t end = r->vocab - r->n_found;
    while (r->begin[++r->bucket] == end)
        ;
    r->n_left = end - r->begin[r->bucket];
    for (int32_t i = r->n_left / 2 - 1; i >= 0; i--)
        sift_down(r->ranked + r->begin[r->bucket], r->n_left, i);
}

/* The heap's first goes to its end: ranks gather there, backwards. */
struct ls_ranked *ls_ranks_next(struct ls_ranks *r)
{
    if (r->n_left == 0)
        open_bucket(r);
    struct ls_ranked *const heap = r->ranked + r->begin[r->bucket];
    const struct ls_ranked top = heap[0];
    heap[0] = heap[--r->n_left];
    sift_down(heap, r->n_left, 0);
    heap[r->n_left] = top;
    r->n_found++;
    return &heap[r->n_left];
}
