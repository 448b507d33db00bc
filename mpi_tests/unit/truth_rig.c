#include "truth_rig.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 256 };

/* Running sums of one comparison. */
struct sums {
    double reference, difference, max;
    size_t n, n_rows;
    double row_rms[MAX_ROWS];
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void add_rows(struct sums *s, const float *ours, const float *theirs, uint32_t n,
                     int vocab)
{
    for (uint32_t t = 0; t < n; t++) {
        double row = 0;
        for (int i = 0; i < vocab; i++) {
            double a = ours[(size_t)t * (size_t)vocab + (size_t)i];
            double b = theirs[(size_t)t * (size_t)vocab + (size_t)i];
            double d = isnan(a) ? DBL_MAX : fabs(a - b);
            s->max = d > s->max ? d : s->max;
            s->reference += b * b;
            row += d * d;
        }
        s->difference += row;
        assert_true(s->n_rows < MAX_ROWS);
        s->row_rms[s->n_rows++] = sqrt(row / vocab);
    }
    s->n += (size_t)n * (size_t)vocab;
}

static struct truth_error finish(struct sums *s)
{
    double scale = sqrt(s->reference / (double)s->n);
    qsort(s->row_rms, s->n_rows, sizeof *s->row_rms, ascending);
    double middle = s->row_rms[s->n_rows / 2] + s->row_rms[(s->n_rows - 1) / 2];
    return (struct truth_error){ .rms = sqrt(s->difference / (double)s->n) / scale,
                                 .max = s->max / scale,
                                 .median_row_rms = middle / 2 / scale };
}

static void open_model(struct rig_model *m, const struct truth_run *run, int context)
{
    if (run->folder)
        rig_open_folder(m, run->folder, run->f32, context);
    else
        rig_open(m, run->fixture, run->f32, context);
    if (run->poke)
        run->poke(&m->arch);
}

struct truth_error truth_compare(const struct truth_run *run)
{
    struct rig_reference ref;
    struct sums sums = { .n = 0 };
    rig_reference_open(&ref, run->fixture);
    for (int i = run->first_prompt; i < RIG_PROMPTS; i++) {
        struct rig_model m;
        unsigned char digest[32];
        uint32_t n;
        const int32_t *ids = rig_ids(&ref, i, &n);
        open_model(&m, run, 0);
        if (m.arch.rope_needs_context || (int)n > m.arch.context) {
            rig_close(&m);
            open_model(&m, run, (int)n);
        }
        float *logits = test_malloc((size_t)n * (size_t)m.arch.vocab * sizeof *logits);
        rig_plain_run(&m, ids, n, logits, digest);
        add_rows(&sums, logits, rig_logits(&ref, "logits_f32", i), n, m.arch.vocab);
        test_free(logits);
        rig_close(&m);
    }
    rig_reference_close(&ref);
    return finish(&sums);
}

/* --- what the reference says of itself -------------------------------------------------------
 */

static json_t *errors;

static void free_errors(void)
{
    json_decref(errors);
}

static json_t *row_of(const char *fixture)
{
    json_error_t e;
    if (!errors) {
        errors = json_load_file(LS_FIXTURES "/reference/ERRORS.json", 0, &e);
        if (!errors)
            fail_msg("ERRORS.json: %s", e.text);
        atexit(free_errors);
    }
    json_t *row = json_object_get(json_object_get(errors, "fixtures"), fixture);
    if (!row)
        fail_msg("ERRORS.json has no %s", fixture);
    return row;
}

double truth_number(const char *fixture, const char *run, const char *key)
{
    json_t *v = json_object_get(json_object_get(row_of(fixture), run), key);
    if (!json_is_number(v))
        fail_msg("ERRORS.json has no %s.%s.%s", fixture, run, key);
    return json_number_value(v);
}

bool truth_is_16_bit(const char *fixture)
{
    return strcmp(json_string_value(json_object_get(row_of(fixture), "dtype")), "float32") != 0;
}

double truth_bound(const char *fixture)
{
    double spread = 10 * truth_number(fixture, "f32_vs_f64", "max");
    return spread < 1e-4 ? spread : 1e-4;
}

bool truth_flips(const char *fixture)
{
    struct rig_model m;
    rig_open(&m, fixture, false, 0);
    const bool flips = m.arch.experts.n > 0 || !strncmp(fixture, "gemma4", 6);
    rig_close(&m);
    return flips;
}

const char *const truth_fixtures[] = {
    "llama-f32",
    "llama-bf16",
    "llama-tied-bf16",
    "llama-f16",
    "llama-bias",
    "llama-headdim",
    "llama-rope-llama3",
    "llama-rope-linear",
    "llama-rope-yarn",
    "llama-sharded",
    "llama-rope-dynamic",
    "mistral",
    "mistral-nowindow",
    "qwen2",
    "qwen2-window",
    "qwen3",
    "smollm3",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3-mm",
    "phi3",
    "phi3-longrope",
    "olmo2",
    "granite",
    "cohere2",
    "glm4",
    "mixtral",
    "qwen3_moe",
    "qwen2_moe",
    "glm4_moe",
    "gpt_oss",
    "llama4",
    "gemma4",
    "gemma4-moe",
    "glm4_moe-groups",
    "llama4-two",
    "gemma4-odd",
    "gpt_oss-expanded",
    "gpt_oss-mxfp4",
    NULL,
};
