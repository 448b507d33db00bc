#include "kernels/ref/ref.h"

#include "kernels/ref/scalar.h"

/* The score of key `j` for one query head. */
static float score(const struct ls_attn *a, const float *q, int j)
{
    int slot = j % LS_KV_BLOCK;
    const char *block = a->k_pool + a->blocks[j / LS_KV_BLOCK] * a->block_stride;
    size_t tile_bytes = ls_packed_bytes(a->d, LS_TILE, (size_t)a->k_dim);
    const char *tile = block + (size_t)(slot / LS_TILE) * tile_bytes;
    float s = ls_ref_dot(a->d, q, tile, slot % LS_TILE, a->k_dim) * a->scale;
    return a->softcap != 0.0f ? a->softcap * tanh32(s / a->softcap) : s;
}

static float value(const struct ls_attn *a, int j, int i)
{
    const char *block = a->v_pool + a->blocks[j / LS_KV_BLOCK] * a->block_stride;
    size_t at = (size_t)(j % LS_KV_BLOCK) * (size_t)a->v_dim + (size_t)i;
    return element_at(a->d, block, at);
}

/* sum_j p_j v[j][i] over the visible keys [begin, end): plain ascending order, cut into panels
 * at absolute multiples of 256 positions. p[0] belongs to key `begin`. */
static float weighted_value(const struct ls_attn *a, const float *p, int begin, int end, int i)
{
    float total = 0.0f;
    for (int j = begin; j < end;) {
        int panel_end = (j / LS_PANEL + 1) * LS_PANEL;
        bool first = j == begin;
        float o = 0.0f;
        for (; j < end && j < panel_end; j++)
            o = fma32(p[j - begin], value(a, j, i), o);
        total = first ? o : total + o;
    }
    return total;
}

/* Scores to probabilities without their denominator, which is returned. */
static float softmax(float *p, int begin, int end, const float *sink)
{
    float lane[LS_SUM_LANES] = { 0 };
    float m = p[0];
    for (int j = begin; j < end; j++)
        m = max32(m, p[j - begin]);
    if (sink)
        m = max32(m, *sink);
    for (int j = begin; j < end; j++) {
        p[j - begin] = exp32(p[j - begin] - m);
        lane[j % LS_SUM_LANES] += p[j - begin];
    }
    float l = sum_of_lanes(lane);
    return sink ? l + exp32(*sink - m) : l;
}

void ls_ref_attention(const struct ls_attn *a, float *scratch)
{
    for (int i = 0; i < a->n_queries; i++)
        for (int g = 0; g < a->n_group; g++) {
            const float *q = a->q + (size_t)i * a->ldq + (size_t)g * (size_t)a->k_dim;
            float *o = a->o + (size_t)i * a->ldo + (size_t)g * (size_t)a->v_dim;
            int begin = a->first_visible[i], end = a->first_pos + i + 1;
            for (int j = begin; j < end; j++)
                scratch[j - begin] = score(a, q, j);
            float l = softmax(scratch, begin, end, a->sinks ? a->sinks + g : NULL);
            for (int d = 0; d < a->v_dim; d++)
                o[d] = rounded(weighted_value(a, scratch, begin, end, d) / l, a->d);
        }
}

void ls_ref_kv_store(void *k_block, void *v_block, const float *k, const float *v, int slot,
                     int k_dim, int v_dim, enum ls_fmt d)
{
    size_t tile_bytes = ls_packed_bytes(d, LS_TILE, (size_t)k_dim);
    char *tile = (char *)k_block + (size_t)(slot / LS_TILE) * tile_bytes;
    size_t lane = (size_t)(slot % LS_TILE);
    for (int i = 0; i < k_dim + k_dim % 2; i++) { /* an odd end is completed by a zero */
        size_t pair = (size_t)(i / 2) * 2 * LS_TILE, odd = i % 2;
        size_t at = d == LS_FMT_BF16 ? pair + 2 * lane + odd : pair + odd * LS_TILE + lane;
        set_element(d, tile, at, i < k_dim ? k[i] : 0.0f);
    }
    for (int i = 0; i < v_dim; i++)
        set_element(d, v_block, (size_t)slot * (size_t)v_dim + (size_t)i, v[i]);
}
