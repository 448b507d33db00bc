/* Leaves that are recomputed: the sequence runs again, on one core, by the code of every job.
 */
#include "app/verify.h"

#include "base/philox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 128, RANDOM = 8 };

/* A leaf that is wanted: the position counts over all blocks. */
struct pick {
    uint64_t position;
    int layer;
};

struct plan {
    struct ls_verify *v;
    struct pick *picks; /* [n], ascending */
    size_t n;
    uint64_t n_recomputed;
    uint32_t longest; /* positions of a block */
    struct ls_replay *replay;
    int32_t *tokens; /* [CHUNK] */
};

/* --- which -----------------------------------------------------------------------------------
 */

static ls_status no_leaf(const char *text, struct ls_err *err)
{
    return ls_fail(err, LS_E_USAGE,
                   "--leaf '%.60s': expected line,position,layer as in 3,17,5 or "
                   "3#1,17,logits, of this certificate, with / between several",
                   text);
}

/* "3#1,17,logits": reads one and sets *end behind it; false: it is none. */
static bool read_leaf(const char *text, struct ls_cert_block *want, uint32_t *position,
                      int *layer, int n_layers, const char **end)
{
    char *at;
    *want = (struct ls_cert_block){ .line = strtoull(text, &at, 10) };
    if (at == text || (*at != ',' && *at != '#'))
        return false;
    if (*at == '#') {
        const char *const begin = at + 1;
        want->choice = (uint32_t)strtoul(begin, &at, 10);
        if (at == begin || *at != ',')
            return false;
    }
    const char *begin = at + 1;
    *position = (uint32_t)strtoul(begin, &at, 10);
    if (at == begin || *at != ',')
        return false;
    begin = at + 1;
    *layer = n_layers;
    if (!strncmp(begin, "logits", 6))
        at += 1 + 6;
    else
        *layer = (int)strtol(begin, &at, 10);
    *end = *at == '/' ? at + 1 : at;
    return at != begin && (*at == '/' ? at[1] : !*at) && *layer >= 0 && *layer <= n_layers;
}

static bool find(const struct ls_cert *cert, const struct ls_cert_block *want,
                 uint32_t position, uint64_t *place)
{
    struct ls_cert_block b;
    uint64_t first = 0;
    for (uint64_t at = 0; ls_cert_next_block(cert, &at, &b); first += b.n_positions)
        if (b.line == want->line && b.choice == want->choice) {
            *place = first + position;
            return position < b.n_positions;
        }
    return false;
}

static ls_status take_named(struct plan *p, const char *text, struct ls_err *err)
{
    const struct ls_cert *const cert = &p->v->cert;
    for (const char *at = text, *end; *at; at = end) {
        struct ls_cert_block want;
        uint32_t position;
        struct pick pick;
        if (!read_leaf(at, &want, &position, &pick.layer, cert->head.n_layers, &end) ||
            !find(cert, &want, position, &pick.position))
            return no_leaf(at, err);
        p->picks[p->n++] = pick;
    }
    return p->n ? LS_OK : no_leaf(text, err);
}

static void take_random(struct plan *p, uint64_t n)
{
    const struct ls_cert_head *const h = &p->v->cert.head;
    const uint64_t seed = ls_options_number(p->v->o, LS_OPT_SEED);
    for (uint64_t i = 0; i < n && h->n_positions; i++)
        p->picks[p->n++] =
            (struct pick){ (uint64_t)(ls_philox_uniform(seed, 2 * i) * (double)h->n_positions),
                           (int)(ls_philox_uniform(seed, 2 * i + 1) * (h->n_layers + 1)) };
}

/* Blocks whose leaves are broken are recomputed to their end, so that the leaf has a name. */
static void take_broken(struct plan *p)
{
    struct ls_cert_block b;
    uint64_t first = 0;
    for (uint64_t at = 0; ls_cert_next_block(&p->v->cert, &at, &b); first += b.n_positions) {
        if (b.n_positions > p->longest)
            p->longest = b.n_positions;
        if (b.n_positions && !ls_cert_block_leaves_hold(&p->v->cert, &b))
            p->picks[p->n++] = (struct pick){ first + b.n_positions - 1, 0 };
    }
}

static int compare(const void *a, const void *b)
{
    const struct pick *const x = a, *const y = b;
    return (x->position > y->position) - (x->position < y->position);
}

static ls_status choose(struct plan *p, struct ls_err *err)
{
    void *memory;
    const struct ls_options *const o = p->v->o;
    const char *const named = ls_options_text(o, LS_OPT_LEAF);
    const uint64_t n_random = ls_options_is_set(o, LS_OPT_RANDOM)
                                  ? ls_options_number(o, LS_OPT_RANDOM)
                              : named ? 0
                                      : RANDOM;
    const uint64_t room = n_random + (named ? strlen(named) : 0) + p->v->cert.head.n_blocks;
    ls_status s = ls_alloc(&memory, room * sizeof *p->picks, "leaves to be recomputed", err);
    if (s)
        return s;
    p->picks = memory;
    if (named)
        s = take_named(p, named, err);
    take_random(p, n_random);
    take_broken(p);
    qsort(p->picks, p->n, sizeof *p->picks, compare);
    return s;
}

/* --- recomputing -----------------------------------------------------------------------------
 */

/* The leaves of positions [first, first + n), against those of the replay's last run. */
static bool compare_leaves(struct plan *p, const struct ls_cert_block *b, uint32_t first,
                           uint32_t n)
{
    const struct ls_cert *const cert = &p->v->cert;
    const unsigned char *const have = ls_replay_leaves(p->replay);
    for (uint32_t i = 0; i < n; i++)
        for (int l = 0; l <= cert->head.n_layers; l++) {
            const uint64_t at = (uint64_t)l * n + i;
            p->n_recomputed++;
            if (!memcmp(have + at * LS_LEAF, ls_cert_leaf(cert, b, first + i, l), LS_LEAF))
                continue;
            if (l == cert->head.n_layers)
                ls_verify_found(p->v,
                                "leaf of line %" PRIu64 ", choice %u, position %u, logits",
                                b->line, b->choice, first + i);
            else
                ls_verify_found(p->v,
                                "leaf of line %" PRIu64 ", choice %u, position %u, layer %d",
                                b->line, b->choice, first + i, l);
            return false;
        }
    return true;
}

static bool read_tokens(struct plan *p, const struct ls_cert_block *b, uint32_t first,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        p->tokens[i] = ls_cert_token(b, first + i);
        if (p->tokens[i] >= 0 && p->tokens[i] < p->v->model.arch.vocab)
            continue;
        ls_verify_found(p->v,
                        "certificate: line %" PRIu64 ", choice %u, position %u: token %d, the "
                        "vocabulary has %d",
                        b->line, b->choice, first + i, p->tokens[i], p->v->model.arch.vocab);
        return false;
    }
    return true;
}

/* Up to position `last`, or to the first leaf that differs. */
static ls_status recompute(struct plan *p, const struct ls_cert_block *b, uint32_t last,
                           struct ls_err *err)
{
    ls_replay_restart(p->replay);
    for (uint32_t first = 0, n; first <= last; first += n) {
        n = last + 1 - first > CHUNK ? CHUNK : last + 1 - first;
        if (!read_tokens(p, b, first, n))
            return LS_OK;
        const struct ls_replay_row row = { .count = n, .tokens = p->tokens };
        const ls_status s = ls_replay_run(p->replay, &row, 1, NULL, NULL, err);
        if (s)
            return s;
        ls_replay_logits(p->replay, NULL);
        if (!compare_leaves(p, b, first, n))
            return LS_OK;
    }
    return LS_OK;
}

static ls_status recompute_all(struct plan *p, struct ls_err *err)
{
    struct ls_cert_block b;
    uint64_t begin = 0;
    size_t i = 0;
    ls_status s = LS_OK;
    for (uint64_t at = 0; !s && i < p->n && ls_cert_next_block(&p->v->cert, &at, &b);
         begin += b.n_positions) {
        const size_t before = i;
        while (i < p->n && p->picks[i].position < begin + b.n_positions)
            i++;
        if (i > before)
            s = recompute(p, &b, (uint32_t)(p->picks[i - 1].position - begin), err);
    }
    return s;
}

static ls_status load(struct plan *p, struct ls_err *err)
{
    void *tokens;
    int n_failed;
    const struct ls_options *const o = p->v->o;
    const enum ls_cpu_path path = ls_options_is_set(o, LS_OPT_CPU)
                                      ? (enum ls_cpu_path)ls_options_number(o, LS_OPT_CPU)
                                      : (enum ls_cpu_path)(LS_N_CPU_PATHS - 1);
    const unsigned saved = ls_fp_enter();
    const struct ls_kernels *const kernels = ls_kernels_choose(path, &n_failed);
    ls_fp_leave(saved);
    if (!kernels)
        return ls_fail(err, LS_E_COMPUTE,
                       "no kernels: the self-test of every path up to %s "
                       "fails on this CPU",
                       ls_cpu_path_name(path));
    const struct ls_replay_config config = { .arch = &p->v->model.arch,
                                             .ckpt = p->v->model.ckpt,
                                             .kernels = kernels,
                                             .last_layer = p->v->model.arch.n_layers,
                                             .n_threads = 1,
                                             .n_sequences = 1,
                                             .positions = p->longest,
                                             .max_tokens = CHUNK,
                                             .leaves = true };
    ls_status s = ls_alloc(&tokens, CHUNK * sizeof *p->tokens, "tokens", err);
    p->tokens = tokens;
    return s ? s : ls_replay_create(&p->replay, &config, err);
}

/* A model of another shape has no leaves to compare. */
static bool is_comparable(const struct plan *p)
{
    const struct ls_cert_head *const h = &p->v->cert.head;
    const struct ls_arch *const arch = &p->v->model.arch;
    return arch->n_layers == h->n_layers && arch->vocab == h->vocab &&
           p->longest <= (uint32_t)arch->context;
}

ls_status ls_verify_leaves(struct ls_verify *v, struct ls_err *err)
{
    struct plan p = { .v = v };
    const uint64_t before = v->n_found;
    ls_status s = choose(&p, err);
    const bool comparable = is_comparable(&p);
    if (!s && p.n && comparable)
        s = load(&p, err);
    if (!s && p.n && comparable)
        s = recompute_all(&p, err);
    if (!s && !comparable)
        ls_verify_found(v, "leaves: the model is of another size, none can be recomputed");
    if (!s)
        printf("leaves       %zu asked for, %" PRIu64 " recomputed: %s\n", p.n, p.n_recomputed,
               v->n_found == before ? "equal" : "DIFFERENT");
    ls_replay_destroy(p.replay);
    ls_free(p.tokens);
    ls_free(p.picks);
    return s;
}
