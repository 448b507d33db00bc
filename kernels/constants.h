/* Constants of the arithmetic contract that every instruction set shares (docs/arithmetic.md).
 * Layer: kernels, internal. Only numbers, never an operation. */
#ifndef LS_KERNELS_CONSTANTS_H
#define LS_KERNELS_CONSTANTS_H

/* exp(x), x <= 0: n = rint(x log2 e) by the magic number, r = x - n ln2 in two steps, then
 * 1 + r + r^2 (C2 + C3 r + ... + C6 r^4), times 2^n. Worst error 0.8913 ulp over [-104, -0]. */
#define LS_EXP_MIN    -104.0f
#define LS_EXP_LOG2E  0x1.715476p+0f
#define LS_EXP_MAGIC  0x1.8p+23f
#define LS_EXP_LN2_HI 0x1.62e4p-1f
#define LS_EXP_LN2_LO 0x1.7f7d1cp-20f
#define LS_EXP_C6     0x1.6ac144p-10f
#define LS_EXP_C5     0x1.123da6p-7f
#define LS_EXP_C4     0x1.555858p-5f
#define LS_EXP_C3     0x1.55548cp-3f
#define LS_EXP_C2     0x1.fffffcp-2f

/* tanh(x), |x| < LS_TANH_LIMIT: x + x^3 (C0 + C1 x^2 + ... + C4 x^8), minimax, 0.08 ulp before
 * rounding; above by exp. Worst error over every float from 2^-126 to 20, of both signs: 0.7731
 * ulp below, 1.5090 ulp above. */
#define LS_TANH_LIMIT 0.625f
#define LS_TANH_C4    -0x1.750ce4p-8f
#define LS_TANH_C3    0x1.51f8cep-6f
#define LS_TANH_C2    -0x1.b835a4p-5f
#define LS_TANH_C1    0x1.1106f6p-3f
#define LS_TANH_C0    -0x1.555532p-2f

/* GELU by tanh: sqrt(2 / pi) and the cubic's coefficient. */
#define LS_GELU_K 0x1.988454p-1f
#define LS_GELU_C 0.044715f

#endif
