#include "model/forward.h"

#include "base/mutant.h"
#include "model/pass.h"

#include <string.h>
#include <time.h>

/* --- one run ---------------------------------------------------------------------------------
 */

static struct ls_pass pass_of(const struct ls_forward *f, int l)
{
    int local = l - f->cfg.first_layer;
    int decides = LS_MUTANT(LOCAL_LAYER) ? local : l;
    return (struct ls_pass){
        .global = l,
        .layer = &f->cfg.arch->layers[decides],
        .w = &f->weights->layers[local],
        .kv = &f->s.kv[f->cfg.arch->layers[l].kv_source - f->cfg.first_layer]
    };
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The time since the last lap goes to `phase`. */
static void lap(struct ls_forward *f, struct ls_part p, enum ls_forward_phase phase)
{
    if (!f->cfg.times || p.member != 0)
        return;
    uint64_t now = now_ns();
    f->cfg.times->ns[phase] += now - f->lap_ns;
    f->lap_ns = now;
}

static void start_laps(struct ls_forward *f, struct ls_part p)
{
    if (f->cfg.times && p.member == 0)
        f->lap_ns = now_ns();
}

/* The end of a phase that others' phases wait for. */
static void meet(struct ls_forward *f, struct ls_part p, enum ls_forward_phase phase)
{
    ls_team_barrier(f->team);
    lap(f, p, phase);
}

static void tap_hidden(const struct ls_forward *f, struct ls_part p, enum ls_op op,
                       const struct ls_pass *pass, float *base)
{
    ls_tap_rows(f, p, op, pass->global, (struct ls_grid){ base, f->s.ld_hidden },
                f->cfg.arch->hidden);
}

static void tap_qkv(const struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    const struct ls_grid q = { f->s.q, f->s.ld_q }, k = { f->s.k, f->s.ld_kv };
    const struct ls_grid v = { f->s.v, f->s.ld_kv };
    ls_tap_rows(f, p, LS_OP_Q, pass->global, q, pass->w->q.n);
    if (pass->w->k.n)
        ls_tap_rows(f, p, LS_OP_K, pass->global, k, pass->w->k.n);
    if (pass->w->v.n)
        ls_tap_rows(f, p, LS_OP_V, pass->global, v, pass->w->v.n);
}

static void tap_attention(const struct ls_forward *f, struct ls_part p,
                          const struct ls_pass *pass)
{
    ls_tap_scores(f, p, pass);
    ls_tap_rows(f, p, LS_OP_ATTENTION, pass->global, (struct ls_grid){ f->s.o, f->s.ld_q },
                pass->layer->n_heads * pass->layer->head_dim);
}

/* A branch joins the residual stream. `out` is the branch's last operation; its norm and the
 * sum follow it. */
static void join(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass,
                 const float *norm, enum ls_op out)
{
    tap_hidden(f, p, out, pass, f->s.acc);
    ls_rows_join(f, p, norm);
    if (norm)
        tap_hidden(f, p, out + 1, pass, f->s.acc);
    tap_hidden(f, p, out + 2, pass, f->s.h);
}

/* Between barriers each phase reads what others wrote before and writes only its own part. Rows
 * have one owner throughout, so two phases over rows need no barrier between them. Nor does the
 * end of a parallel block's attention before its feed-forward: that reads x and writes gate and
 * up, which no member is still using. */
static void run_attention(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    ls_rows_norm(f, p, pass->w->attn_norm);
    if (pass->w->attn_norm)
        tap_hidden(f, p, LS_OP_ATTN_NORM, pass, f->s.x);
    meet(f, p, LS_PHASE_ROWS);
    ls_phase_qkv(f, p, pass);
    meet(f, p, LS_PHASE_QKV);
    tap_qkv(f, p, pass);
    ls_phase_cache(f, p, pass);
    meet(f, p, LS_PHASE_CACHE);
    ls_phase_attention(f, p, pass);
    meet(f, p, LS_PHASE_ATTENTION);
    tap_attention(f, p, pass);
    ls_phase_attn_out(f, p, pass);
    if (f->cfg.arch->residual != LS_RES_PARALLEL) {
        meet(f, p, LS_PHASE_ATTN_OUT);
        join(f, p, pass, pass->w->post_attn_norm, LS_OP_ATTN_OUT);
        ls_rows_norm(f, p, pass->w->ffn_norm);
        if (pass->w->ffn_norm)
            tap_hidden(f, p, LS_OP_FFN_NORM, pass, f->s.x);
        meet(f, p, LS_PHASE_ROWS);
    } else if (f->cfg.tap) {
        meet(f, p, LS_PHASE_ATTN_OUT);
        join(f, p, pass, NULL, LS_OP_ATTN_OUT);
    } else {
        lap(f, p, LS_PHASE_ATTN_OUT);
    }
}

static void run_layer(struct ls_forward *f, struct ls_part p, const struct ls_pass *pass)
{
    run_attention(f, p, pass);
    if (pass->layer->ffn == LS_FFN_EXPERTS) {
        ls_experts_run(f, p, pass);
        lap(f, p, LS_PHASE_EXPERTS);
    } else {
        ls_phase_ffn_in(f, p, pass);
        meet(f, p, LS_PHASE_FFN_IN);
        ls_phase_ffn_out(f, p, pass);
        meet(f, p, LS_PHASE_FFN_OUT);
    }
    join(f, p, pass, pass->w->post_ffn_norm, LS_OP_FFN_OUT);
    if (f->cfg.arch->per_layer_width) {
        ls_per_layer_run(f, p, pass);
        join(f, p, pass, pass->w->post_per_layer_norm, LS_OP_PER_LAYER_OUT);
    }
    ls_rows_scale(f, p, pass->w->layer_scalar);
    tap_hidden(f, p, LS_OP_HIDDEN, pass, f->s.h);
    ls_rows_find_nan(f, p, pass->global);
}

static struct ls_part part_of(int member, int n_members, uint32_t n_rows)
{
    uint64_t begin, end;
    ls_team_share(n_rows, member, n_members, &begin, &end);
    return (struct ls_part){ member, n_members, (uint32_t)begin, (uint32_t)end };
}

/* The caller's code sees the caller's floating-point state. */
static bool progress(const struct ls_forward *f, unsigned *saved)
{
    ls_fp_leave(*saved);
    bool goes_on = f->cfg.progress(f->cfg.progress_arg);
    *saved = ls_fp_enter();
    return goes_on;
}

/* All members see the same answer: it is not written again before the next layer's barriers. */
static bool goes_on(struct ls_forward *f, int member, unsigned *saved)
{
    if (!f->cfg.progress)
        return true;
    if (member == 0)
        f->given_up = !progress(f, saved);
    ls_team_barrier(f->team);
    return !f->given_up;
}

static void run_job(void *arg, int member, int n_members)
{
    struct ls_forward *f = arg;
    struct ls_part p = part_of(member, n_members, f->io.n_tokens);
    unsigned saved = ls_fp_enter();
    bool whole = true;
    start_laps(f, p);
    ls_rows_load(f, p);
    if (f->cfg.first_layer == 0 && f->cfg.arch->per_layer_width)
        ls_per_layer_make(f, p);
    ls_rope_fill(f, p);
    for (int l = f->cfg.first_layer; whole && l < f->cfg.last_layer; l++) {
        const struct ls_pass pass = pass_of(f, l);
        run_layer(f, p, &pass);
        whole = goes_on(f, member, &saved);
    }
    if (whole)
        ls_rows_store(f, p);
    lap(f, p, LS_PHASE_ROWS);
    ls_fp_leave(saved);
}

static int32_t first_nan(const struct ls_forward *f, const struct ls_span *span)
{
    int32_t first = -1;
    for (uint32_t t = span->token; t < span->token + span->count; t++) {
        int32_t l = f->s.nan_layer[t];
        if (l >= 0 && (first < 0 || l < first))
            first = l;
    }
    return first;
}

bool ls_forward_run(struct ls_forward *f, const struct ls_forward_io *io)
{
    f->io = *io;
    for (uint32_t i = 0; i < io->n_spans; i++)
        for (uint32_t t = 0; t < io->spans[i].count; t++)
            f->s.span_of[io->spans[i].token + t] = i;
    f->given_up = false;
    ls_team_run(f->team, run_job, f);
    for (uint32_t i = 0; !f->given_up && i < io->n_spans; i++)
        io->span_nan_layer[i] = first_nan(f, &io->spans[i]);
    return !f->given_up;
}

/* --- logits ----------------------------------------------------------------------------------
 */

static void logits_job(void *arg, int member, int n_members)
{
    struct ls_forward *f = arg;
    struct ls_part p = part_of(member, n_members, f->wanted.n_rows);
    unsigned saved = ls_fp_enter();
    start_laps(f, p);
    ls_rows_final_norm(f, p);
    ls_team_barrier(f->team);
    ls_phase_head(f, p);
    if (f->cfg.times)
        meet(f, p, LS_PHASE_HEAD);
    ls_fp_leave(saved);
}

void ls_forward_logits(struct ls_forward *f, const struct ls_logits_io *io)
{
    if (io->n_rows == 0)
        return;
    f->wanted = *io;
    ls_team_run(f->team, logits_job, f);
}

const float *ls_forward_logits_row(const struct ls_forward *f, uint32_t i)
{
    return f->s.logits + i * f->s.ld_vocab;
}

/* --- creation --------------------------------------------------------------------------------
 */

static void check_job(void *arg, int member, int n_members)
{
    struct ls_forward *f = arg;
    (void)n_members;
    unsigned saved = ls_fp_enter();
    f->s.flushing[member] = ls_fp_is_flushing();
    ls_fp_leave(saved);
}

static ls_status check_members(struct ls_forward *f, struct ls_err *err)
{
    int n = ls_team_size(f->team);
    ls_team_run(f->team, check_job, f);
    for (int m = 0; m < n; m++)
        if (!f->s.flushing[m])
            return ls_fail(err, LS_E_COMPUTE,
                           "thread %d of %d does not flush denormals: a product of two small "
                           "numbers is not zero",
                           m, n);
    return LS_OK;
}

uint64_t ls_forward_bytes(const struct ls_forward_config *config, int n_threads)
{
    struct ls_forward *f;
    struct ls_scratch s;
    struct ls_carve counted = { .base = NULL };
    return ls_scratch_place(&f, &s, &counted, config, n_threads);
}

uint64_t ls_forward_used_bytes(const struct ls_forward_config *config, int n_threads,
                               uint32_t n_tokens, uint32_t n_logit_rows)
{
    struct ls_forward *f;
    struct ls_scratch s;
    uint64_t ends[LS_CARVE_ENDS], used_ends[LS_CARVE_ENDS], used = 0, next = 0;
    struct ls_carve all = { .ends = ends }, some = { .ends = used_ends };
    struct ls_forward_config smaller = *config;
    smaller.max_tokens = n_tokens;
    smaller.max_logit_rows = n_logit_rows;
    const uint64_t bytes = ls_scratch_place(&f, &s, &all, config, n_threads);
    ls_scratch_place(&f, &s, &some, &smaller, n_threads);
    for (int i = 0; i < all.n; i++) {
        const uint64_t begin = i ? ends[i - 1] : 0;
        const uint64_t size = used_ends[i] - (i ? used_ends[i - 1] : 0);
        used += ls_alloc_resident(bytes, begin, begin + size, &next);
    }
    return used;
}

ls_status ls_forward_create(struct ls_forward **out, const struct ls_forward_config *config,
                            const struct ls_weights *weights, const struct ls_kv_layer *kv,
                            struct ls_team *team, struct ls_err *err)
{
    int n_threads = ls_team_size(team);
    void *block;
    ls_status st =
        ls_alloc(&block, ls_forward_bytes(config, n_threads), "scratch of the forward", err);
    if (st)
        return st;
    struct ls_forward *f;
    struct ls_scratch s = { .ld_hidden = 0 };
    struct ls_carve carve = { .base = block };
    ls_scratch_place(&f, &s, &carve, config, n_threads);
    *f = (struct ls_forward){ .cfg = *config, .weights = weights, .team = team, .s = s };
    memcpy(s.kv, kv, (size_t)(config->last_layer - config->first_layer) * sizeof *kv);
    st = check_members(f, err);
    if (st) {
        ls_forward_destroy(f);
        return st;
    }
    *out = f;
    return LS_OK;
}

void ls_forward_destroy(struct ls_forward *f)
{
    ls_free(f); /* the forward is the first array of its block */
}
