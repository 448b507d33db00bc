/* Are two sets of tensors equal, bit for bit, and if not: where first, and by how much.
 *
 * Layer: parity. Local. Streams: two mapped files, a block of each at a time; pages are let go
 * behind the reader. Values of different types are compared as numbers but never count as
 * equal. What cannot be measured (a distance to NaN, units in the last place between types, any
 * distance of bytes that are no number here) is never given as 0. */
#ifndef LS_PARITY_COMPARE_H
#define LS_PARITY_COMPARE_H

#include "parity/dump.h"

#include <stdbool.h>

enum { LS_COMPARE_NAME = 256 };

struct ls_comparison {
    uint64_t n_tensors; /* compared: in both, of one shape */
    uint64_t n_different_tensors;
    uint64_t n_only_a, n_only_b;
    uint64_t n_mismatched; /* in both, but of another shape, type or first position */
    uint64_t n_elements, n_different; /* of the compared tensors */
    /* Of the different ones, what has no distance and is not in the figures below: */
    uint64_t n_nan;      /* NaN on one side only */
    uint64_t n_nan_bits; /* NaN on both sides, of other bits */
    uint64_t n_zero;     /* +0 and -0 */
    uint64_t n_measured; /* different elements that have a distance */
    double max_abs, rms; /* over all compared elements; nothing when !has_distance */
    uint64_t max_ulp;    /* steps between neighbours of the type; nothing when !has_ulp */
    bool has_distance, has_ulp;
    bool equal; /* all names, types, shapes and bits */

    /* The first element whose bits differ, in the order of A. */
    bool has_first;
    char first_name[LS_COMPARE_NAME];
    uint64_t first_position; /* of the row; absolute in a logits folder */
    uint64_t first_element;  /* in the row */
    double first_a, first_b;
    /* The first thing that is missing or mismatched, in words; "" when none. */
    char first_mismatch[LS_COMPARE_NAME + 128];
};

ls_status ls_compare(struct ls_comparison *out, struct ls_dump *a, struct ls_dump *b,
                     struct ls_err *err);

#endif
