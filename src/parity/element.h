/* One element of a tensor as a number. Layer: parity. Local, cannot fail; any alignment. */
#ifndef LS_PARITY_ELEMENT_H
#define LS_PARITY_ELEMENT_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* False for the 8-bit floats, which are compared as bytes. */
bool ls_element_is_known(enum ls_dtype dtype);

/* 64-bit integers are rounded to double. */
double ls_element_value(const void *data, enum ls_dtype dtype, uint64_t i);

/* How many representable values lie between element i of a and of b, plus one when they differ;
 * +0 and -0 are one value. Floats that are no NaN; 0 for other types. */
uint64_t ls_element_ulps(const void *a, const void *b, enum ls_dtype dtype, uint64_t i);

#endif
