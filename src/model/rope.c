#include "model/rope.h"

#include "kernels/math64.h"

#include <math.h>

static const double PI = 0x1.921fb54442d18p+1;

/* theta to the power of minus 2 i / dim: the plain frequency of pair i. */
static double plain(double theta, int i, int dim)
{
    return 1.0 / ls_pow64(theta, 2.0 * i / dim);
}

static void fill_plain(float *freq, double theta, int dim, double divisor)
{
    for (int i = 0; i < dim / 2; i++)
        freq[i] = (float)(plain(theta, i, dim) / divisor);
}

/* The base grows with the length once that exceeds what the model was trained on. */
static ls_status fill_dynamic(float *freq, const struct ls_rope_settings *r, int dim,
                              int max_positions, int context, struct ls_err *err)
{
    const int length = context > max_positions ? context : max_positions;
    if (dim <= 2)
        return ls_fail(err, LS_E_FORMAT, "dynamic rope needs more than %d rotated elements",
                       dim);
    const double grown = r->factor * length / max_positions - (r->factor - 1.0);
    const double theta =
        length == max_positions ? r->theta : r->theta * ls_pow64(grown, dim / (dim - 2.0));
    fill_plain(freq, theta, dim, 1.0);
    return LS_OK;
}

/* Short waves stay, long ones are stretched by the factor, between them both are blended. */
static void fill_llama3(float *freq, const struct ls_rope_settings *r, int dim)
{
    const double longest = r->original / r->low_freq, shortest = r->original / r->high_freq;
    for (int i = 0; i < dim / 2; i++) {
        const double f = plain(r->theta, i, dim), wave = 2.0 * PI / f;
        const double blend = (r->original / wave - r->low_freq) / (r->high_freq - r->low_freq);
        if (wave < shortest)
            freq[i] = (float)f;
        else if (wave >= longest)
            freq[i] = (float)(f / r->factor);
        else
            freq[i] = (float)((1.0 - blend) * f / r->factor + blend * f);
    }
}

/* The pair index at which a wave turns `rotations` times within the original length. */
static double yarn_index(const struct ls_rope_settings *r, double rotations, int dim)
{
    return dim * ls_log64(r->original / (rotations * 2.0 * PI)) / (2.0 * ls_log64(r->theta));
}

static void fill_yarn(float *freq, const struct ls_rope_settings *r, int dim)
{
    double low = yarn_index(r, r->beta_fast, dim), high = yarn_index(r, r->beta_slow, dim);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < dim - 1 ? high : dim - 1;
    if (low == high)
        high += 0.001;
    for (int i = 0; i < dim / 2; i++) {
        double ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        const double f = plain(r->theta, i, dim);
        freq[i] = (float)(f / r->factor * ramp + f * (1.0 - ramp));
    }
}

static void fill_longrope(float *freq, const struct ls_rope_settings *r, int dim, int context)
{
    const json_t *list = context > r->original ? r->long_factor : r->short_factor;
    for (int i = 0; i < dim / 2; i++)
        freq[i] = (float)(plain(r->theta, i, dim) /
                          json_number_value(json_array_get(list, (size_t)i)));
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * ls_log64(factor) + 1.0;
}

static double attention_factor(const struct ls_rope_settings *r)
{
    if (r->kind != LS_ROPE_YARN && r->kind != LS_ROPE_LONGROPE)
        return 1.0;
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (r->kind == LS_ROPE_LONGROPE)
        return r->factor <= 1.0 ? 1.0 : sqrt(1.0 + ls_log64(r->factor) / ls_log64(r->original));
    if (r->mscale > 0 && r->mscale_all_dim > 0)
        return yarn_mscale(r->factor, r->mscale) / yarn_mscale(r->factor, r->mscale_all_dim);
    return yarn_mscale(r->factor, 1.0);
}

/* Frequencies as if the whole head turned; those behind the share stand still. */
static void fill_proportional(float *freq, const struct ls_rope_settings *r, int dim)
{
    fill_plain(freq, r->theta, dim, r->factor > 0 ? r->factor : 1.0);
    for (int i = (int)(r->partial * dim / 2); i < dim / 2; i++)
        freq[i] = 0;
}

ls_status ls_rope_frequencies(const struct ls_rope_settings *settings, int dim,
                              int max_positions, int context, float *freq, float *factor,
                              struct ls_err *err)
{
    ls_status s = LS_OK;
    switch (settings->kind) {
    case LS_ROPE_DYNAMIC:
        s = fill_dynamic(freq, settings, dim, max_positions, context, err);
        break;
    case LS_ROPE_LLAMA3:
        fill_llama3(freq, settings, dim);
        break;
    case LS_ROPE_YARN:
        fill_yarn(freq, settings, dim);
        break;
    case LS_ROPE_LONGROPE:
        fill_longrope(freq, settings, dim, context);
        break;
    case LS_ROPE_PROPORTIONAL:
        fill_proportional(freq, settings, dim);
        break;
    default:
        fill_plain(freq, settings->theta, dim,
                   settings->kind == LS_ROPE_LINEAR ? settings->factor : 1.0);
    }
    if (s)
        return s;
    *factor = (float)attention_factor(settings);
    for (int i = 0; i < dim / 2; i++)
        if (!isfinite(freq[i]) || freq[i] < 0 || !isfinite(*factor))
            return ls_fail(err, LS_E_FORMAT, "rope settings give the frequency %g for pair %d",
                           (double)freq[i], i);
    return LS_OK;
}

const char *ls_rope_kind_name(enum ls_rope_kind kind)
{
    static const char *const names[LS_N_ROPE_KINDS] = {
        [LS_ROPE_DEFAULT] = "default",
        [LS_ROPE_LINEAR] = "linear",
        [LS_ROPE_DYNAMIC] = "dynamic",
        [LS_ROPE_LLAMA3] = "llama3",
        [LS_ROPE_YARN] = "yarn",
        [LS_ROPE_LONGROPE] = "longrope",
        [LS_ROPE_PROPORTIONAL] = "proportional",
    };
    return names[kind];
}
