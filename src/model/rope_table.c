#include "model/pass.h"

#include "base/mutant.h"
#include "kernels/math64.h"

/* The angle is a binary32 product, as the reference has it; a product by a factor of 1 is not
 * written, so the table of a rope without one holds exactly the rounded sine and cosine. */
static void fill_row(const struct ls_rope *rope, float *cosines, float *sines, int32_t pos)
{
    for (int i = 0; i < rope->n_pairs; i++) {
        double sine, cosine;
        ls_sincos64((float)pos * rope->freq[i], &sine, &cosine);
        cosines[i] = (float)cosine;
        sines[i] = (float)sine;
        if (rope->attention_factor != 1) {
            cosines[i] *= rope->attention_factor;
            sines[i] *= rope->attention_factor;
        }
    }
}

/* Made anew for the positions of each step: a few microseconds a token, where a table over the
 * declared context would take up to gigabytes. */
void ls_rope_fill(struct ls_forward *f, struct ls_part p)
{
    const struct ls_arch *arch = f->cfg.arch;
    for (uint32_t t = p.row0; t < p.row1; t++) {
        int32_t pos = ls_token_pos(f, t);
        if (LS_MUTANT(ROPE_LATE))
            pos++;
        if (LS_MUTANT(LOCAL_POSITION))
            pos -= f->io.spans[f->s.span_of[t]].live_first;
        for (int r = 0; r < arch->n_ropes; r++) {
            size_t at = (size_t)t * (size_t)arch->ropes[r].n_pairs;
            fill_row(&arch->ropes[r], f->s.cosines[r] + at, f->s.sines[r] + at, pos);
        }
    }
}
