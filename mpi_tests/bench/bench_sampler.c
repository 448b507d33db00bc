/* Milliseconds of one core that a draw takes from 152,000 logits: median and p10..p90 of
 * repeats after a warm-up, by the processor's time. Two rows: normal logits (deviation 2), and
 * all of them equal, where nothing can be left out. */
#include "bench/measure.h"
#include "jobs/sampler.h"

#include <stdio.h>

enum { VOCAB = 152000 };

struct draws {
    struct ls_sampler sampler;
    struct ls_sampler_scratch scratch;
    float row[VOCAB];
    uint64_t index;
    int32_t token;
};

static void draw(void *arg)
{
    struct draws *const d = arg;
    d->token = ls_sampler_pick(&d->sampler, &d->scratch, d->row, d->index++);
}

/* About normal: the sum of twelve uniform numbers. */
static void fill_row(float *row, float deviation)
{
    uint32_t state = 1;
    for (int i = 0; i < VOCAB; i++) {
        float sum = -6;
        for (int k = 0; k < 12; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (float)(state >> 8) * 0x1p-24f;
        }
        row[i] = deviation * sum;
    }
}

int main(void)
{
    static struct draws d;
    static const struct {
        const char *name;
        struct ls_sampling want;
    } kinds[] = {
        { "no limit", { .temperature = 1, .top_p = 1, .repetition_penalty = 1 } },
        { "top-k 50", { .temperature = 1, .top_p = 1, .top_k = 50, .repetition_penalty = 1 } },
        { "top-p 0.9", { .temperature = 1, .top_p = 0.9, .repetition_penalty = 1 } }
    };
    struct ls_err err = { 0 };
    if (ls_sampler_scratch_init(&d.scratch, VOCAB, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int flat = 0; flat < 2; flat++) {
        fill_row(d.row, flat ? 0 : 2);
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            struct ls_rate rate;
            d.sampler = (struct ls_sampler){ .sampling = &kinds[i].want, .key = 1 };
            ls_measure(
                &rate,
                &(struct ls_work){
                    .run = draw, .arg = &d, .amount = 1, .seconds = 0.3, .by_cpu_time = true });
            printf("%-9s %-6s %6.2f ms (p10..p90 %.2f..%.2f)\n", kinds[i].name,
                   flat ? "flat" : "normal", 1e3 / rate.median, 1e3 / rate.p90, 1e3 / rate.p10);
        }
    }
    ls_sampler_scratch_finish(&d.scratch);
    return 0;
}
