/* Packing: a tensor made smaller on the way, without losing a bit.
 *
 * Layer: wire. Bytes only; no allocation. The bytes of the elements are sorted into planes
 * (first all lowest bytes, then all second ones, ..), because the exponents of neighbours are
 * alike and their mantissas are not; the planes then become one LZ4 block. A block carries no
 * size: the receiver knows how many bytes must come out, and no others will do. Packing happens
 * where the tensor lies, before the seal; unpacking where it arrived, behind it. */
#ifndef LS_WIRE_PACK_H
#define LS_WIRE_PACK_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The numbers travel in the plan: append only. */
enum ls_pack { LS_PACK_NONE = 0, LS_PACK_LZ4 = 1, LS_PACK_AUTO = 2, LS_N_PACKS };

const char *ls_pack_name(enum ls_pack pack);
/* False in a build without liblz4: only NONE can run. */
bool ls_pack_is_built(void);

/* Packs n bytes of elements of `size` bytes (1, 2, 4 or 8; n a multiple) in place and returns
 * how many are left, fewer than n; or 0, and data is as it was. scratch: n bytes. */
uint64_t ls_pack_apply(unsigned char *data, uint64_t n, unsigned size, unsigned char *scratch);

/* The other way: `packed` untrusted bytes at data become exactly n bytes at out (LS_E_SHAPE
 * otherwise, and out is worthless); out may be data. scratch: n bytes. */
ls_status ls_pack_open(unsigned char *out, uint64_t n, const unsigned char *data,
                       uint64_t packed, unsigned size, unsigned char *scratch,
                       struct ls_err *err);

#endif
