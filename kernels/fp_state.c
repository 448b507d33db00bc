#include "kernels/kernels.h"

#include <immintrin.h>

enum {
    FLUSH = 0x8040,   /* flush-to-zero and denormals-are-zero */
    DEFAULT = 0x1f80, /* all exceptions masked, round to nearest even */
};

unsigned ls_fp_enter(void)
{
    unsigned saved = _mm_getcsr();
    _mm_setcsr(DEFAULT | FLUSH);
    return saved;
}

void ls_fp_leave(unsigned saved)
{
    _mm_setcsr(saved);
}

bool ls_fp_is_flushing(void)
{
    /* volatile: the compiler would multiply, and compare, without flushing */
    volatile float small = 0x1p-70f, least = 0x1p-149f, one = 1.0f;
    volatile float flushed = small * small, read = least * one;
    union {
        float f;
        uint32_t u;
    } a = { .f = flushed }, b = { .f = read };
    return a.u == 0 && b.u == 0;
}
