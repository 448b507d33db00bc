/* The reference kernels: the arithmetic contract as loops and formulas, never optimised.
 * Layer: kernels, internal. */
#ifndef LS_KERNELS_REF_H
#define LS_KERNELS_REF_H

#include "kernels/tables.h"

/* sum_k x[k] w[k] over lane `lane` of a packed tile of k elements. */
float ls_ref_dot(enum ls_fmt fmt, const float *x, const void *tile, int lane, int k);

void ls_ref_matmul_f32(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1);
void ls_ref_matmul_f16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                       int k, int tile0, int tile1);
void ls_ref_matmul_bf16(float *y, size_t ldy, const float *x, size_t ldx, const void *w, int m,
                        int k, int tile0, int tile1);
void ls_ref_attention(const struct ls_attn *a, float *scratch);
void ls_ref_kv_store(void *k_block, void *v_block, const float *k, const float *v, int slot,
                     int k_dim, int v_dim, enum ls_fmt d);

void ls_ref_accumulate(float *acc, const float *y, float w, int n);
void ls_ref_gated_clamped(float *y, const float *gate, const float *up, int n, float alpha,
                          float limit, enum ls_fmt d);
void ls_ref_exp_below(float *y, const float *x, float max, int n);
void ls_ref_sigmoid(float *y, const float *x, int n);

#endif
