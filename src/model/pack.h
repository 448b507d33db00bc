/* From a tensor of a file to the packed form of the kernels, whatever its layout there: rows,
 * columns, every second column, or blocks of MXFP4.
 *
 * Layer: model, for weights.c. Exact: elements are moved, an MXFP4 number becomes the bf16
 * number of the same value (2^-128 to 1.5 2^127; a scale that leads above gives infinity, the
 * scale 255 NaN, as the format has it). Local; owns nothing. */
#ifndef LS_MODEL_PACK_H
#define LS_MODEL_PACK_H

#include "model/weights.h"

/* Elements of one weight in the mapping. */
struct ls_pack_source {
    const unsigned char *data;          /* of the whole tensor */
    const unsigned char *scales;        /* MXFP4: one byte for 32 elements; else NULL */
    uint64_t first, row_step, col_step; /* in elements, as in struct ls_tensor_place */
    enum ls_fmt fmt; /* of the packed elements, and of plain ones in the file */
};

/* Bytes of scratch that one member needs; 0: none. */
uint64_t ls_pack_scratch(const struct ls_pack_source *src, const struct ls_matrix *m);

/* Packs tiles [tile0, tile1) of m (n, k, fmt and packed are set). */
void ls_pack_tiles(const struct ls_pack_source *src, const struct ls_matrix *m, uint64_t tile0,
                   uint64_t tile1, void *scratch);

/* n elements of a vector as binary32, exact. */
void ls_pack_vector(const struct ls_pack_source *src, float *to, uint64_t n);

#endif
