#include "stage_rig.h"

#include "base/philox.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint32_t rig_below(struct rig_random *r, uint32_t n)
{
    return (uint32_t)(ls_philox_uniform(r->key, r->index++) * n);
}

static void must(ls_status status, const struct ls_err *err)
{
    if (status)
        fail_msg("%s: %s", ls_status_name(status), err->text);
}

static void *must_alloc(uint64_t bytes)
{
    struct ls_err err;
    void *p;
    must(ls_alloc(&p, bytes, "test buffer", &err), &err);
    return p;
}

/* --- a fixture -------------------------------------------------------------------------------
 */

static void path_of(char path[4096], const char *folder, const char *fixture, const char *end)
{
    snprintf(path, 4096, "%s/%s/%s%s", LS_FIXTURES, folder, fixture, end);
}

bool rig_has(const char *fixture)
{
    char path[4096];
    struct stat st;
    path_of(path, "reference", fixture, ".safetensors");
    return stat(path, &st) == 0;
}

void rig_open(struct rig_model *m, const char *fixture, bool f32, int context)
{
    char path[4096];
    path_of(path, "families", fixture, "");
    rig_open_folder(m, path, f32, context);
}

void rig_open_folder(struct rig_model *m, const char *path, bool f32, int context)
{
    const struct ls_arch_wish wish = { .f32_activations = f32, .context = context };
    struct ls_err err;
    size_t n_ignored;
    ls_arena_init(&m->arena);
    must(ls_arch_load(&m->arch, path, &wish, &m->arena, &err), &err);
    must(ls_checkpoint_open(&m->ckpt, path, &err), &err);
    must(ls_weights_check(&m->arch, m->ckpt, &n_ignored, NULL, &err), &err);
}

void rig_close(struct rig_model *m)
{
    ls_checkpoint_close(m->ckpt);
    ls_arena_finish(&m->arena);
}

void rig_reference_open(struct rig_reference *ref, const char *fixture)
{
    struct ls_err err;
    char path[4096];
    size_t n;
    path_of(path, "reference", fixture, ".safetensors");
    ls_arena_init(&ref->arena);
    must(ls_file_read(path, 64u << 20, &ref->image, &n, &err), &err);
    must(ls_safetensors_parse(ref->image, n, &ref->arena, &ref->tensors, &ref->n_tensors, &err),
         &err);
}

void rig_reference_close(struct rig_reference *ref)
{
    ls_arena_finish(&ref->arena);
    ls_free(ref->image);
}

static const struct ls_tensor *find(const struct rig_reference *ref, const char *what, int i)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%d", what, i);
    for (size_t t = 0; t < ref->n_tensors; t++)
        if (!strcmp(ref->tensors[t].name, name))
            return &ref->tensors[t];
    fail_msg("the reference has no tensor %s", name);
    return NULL;
}

/* A reference file's header need not be a multiple of four bytes long. */
static const void *aligned(const struct rig_reference *ref, const struct ls_tensor *t)
{
    if ((uintptr_t)t->data % 4 == 0)
        return t->data;
    void *copy = ls_arena_take((struct ls_arena *)(uintptr_t)&ref->arena, t->bytes);
    assert_non_null(copy);
    memcpy(copy, t->data, t->bytes);
    return copy;
}

const int32_t *rig_ids(const struct rig_reference *ref, int i, uint32_t *n)
{
    const struct ls_tensor *t = find(ref, "ids", i);
    assert_int_equal(t->dtype, LS_DTYPE_I32);
    *n = (uint32_t)t->dims[0];
    return aligned(ref, t);
}

const int32_t *rig_greedy(const struct rig_reference *ref, int i)
{
    const struct ls_tensor *t = find(ref, "greedy", i);
    assert_true(t->dtype == LS_DTYPE_I32 && t->dims[0] == RIG_GREEDY);
    return aligned(ref, t);
}

const float *rig_logits(const struct rig_reference *ref, const char *what, int i)
{
    const struct ls_tensor *t = find(ref, what, i);
    assert_int_equal(t->dtype, LS_DTYPE_F32);
    return aligned(ref, t);
}

/* --- a chain of stages -----------------------------------------------------------------------
 */

struct ls_step_limits rig_limits(const struct rig_model *m, uint32_t tokens, uint32_t slots)
{
    uint32_t context = (uint32_t)m->arch.context;
    uint32_t blocks = (uint32_t)ls_ceil_div(context, LS_KV_BLOCK);
    return (struct ls_step_limits){ .max_rows = slots,
                                    .max_events = 4 * slots + slots * blocks,
                                    .max_tokens = tokens,
                                    .n_slots = slots,
                                    .n_blocks = slots * blocks,
                                    .max_blocks_per_slot = blocks,
                                    .context = context };
}

struct rig_layout rig_plain(const struct rig_model *m, uint32_t tokens)
{
    int n_failed = 0;
    struct rig_layout layout = { .n_stages = 1,
                                 .cuts = { 0, m->arch.n_layers },
                                 .n_threads = 1,
                                 .kernels = ls_kernels_choose(LS_CPU_AVX512, &n_failed),
                                 .limits = rig_limits(m, tokens, 1),
                                 .max_logit_rows = tokens };
    assert_non_null(layout.kernels);
    return layout;
}

void rig_chain_open(struct rig_chain *c, const struct rig_model *m,
                    const struct rig_layout *layout)
{
    struct ls_err err;
    *c = (struct rig_chain){ .model = m,
                             .limits = layout->limits,
                             .n_stages = layout->n_stages,
                             .max_logit_rows = layout->max_logit_rows };
    memcpy(c->cuts, layout->cuts, sizeof c->cuts);
    for (int s = 0; s < c->n_stages; s++) {
        const struct ls_stage_config config = { .arch = &m->arch,
                                                .ckpt = m->ckpt,
                                                .kernels = layout->kernels,
                                                .first_layer = c->cuts[s],
                                                .last_layer = c->cuts[s + 1],
                                                .n_threads = layout->n_threads,
                                                .limits = layout->limits,
                                                .max_logit_rows = layout->max_logit_rows,
                                                .tap = layout->tap };
        must(ls_stage_create(&c->stages[s], &config, &err), &err);
    }
    must(ls_step_init(&c->step, &c->limits, 1, &err), &err);
    must(ls_step_init(&c->seen, &c->limits, 0, &err), &err);
    uint64_t row = (uint64_t)ls_inbound_width(&m->arch, 0) * ls_fmt_bytes(m->arch.dtype);
    c->bytes = must_alloc(ls_step_max_bytes(&c->limits));
    c->hidden[0] = must_alloc(row * c->limits.max_tokens);
    c->hidden[1] = must_alloc(row * c->limits.max_tokens);
    c->logits = must_alloc((uint64_t)c->limits.max_tokens * (uint64_t)m->arch.vocab * 4);
}

void rig_chain_close(struct rig_chain *c)
{
    for (int s = 0; s < c->n_stages; s++)
        ls_stage_destroy(c->stages[s]);
    ls_step_finish(&c->step);
    ls_step_finish(&c->seen);
    ls_free(c->bytes);
    ls_free(c->hidden[0]);
    ls_free(c->hidden[1]);
    ls_free(c->logits);
}

static void collect(struct rig_chain *c, struct ls_step *step, float *out)
{
    struct ls_stage *last = c->stages[c->n_stages - 1];
    uint32_t n = ls_step_n_logits(step);
    for (uint32_t begin = 0; begin < n;) {
        uint32_t end = n - begin > c->max_logit_rows ? begin + c->max_logit_rows : n;
        ls_stage_logits(last, step, begin, end, out);
        out += (size_t)ls_step_n_sent(step, begin, end) * (size_t)c->model->arch.vocab;
        begin = end;
    }
}

void rig_chain_run(struct rig_chain *c, float *out)
{
    struct ls_err err;
    struct ls_step *step = &c->step;
    for (int s = 0; s < c->n_stages; s++) {
        bool last = s == c->n_stages - 1;
        must(ls_stage_run(c->stages[s], step, s ? c->hidden[s % 2] : NULL,
                          last ? NULL : c->hidden[(s + 1) % 2], &err),
             &err);
        if (!last) {
            ls_step_encode(step, c->bytes);
            must(ls_step_decode(&c->seen, c->bytes, ls_step_bytes(step), &c->limits, &err),
                 &err);
            step = &c->seen;
        }
    }
    collect(c, step, out);
}

/* --- sequences through a chain ---------------------------------------------------------------
 */

/* The player's own tables of what is free. */
struct player {
    struct rig_chain *chain;
    struct rig_play *play;
    unsigned char *block_used; /* [n_blocks] */
    unsigned char slot_used[RIG_MAX_SEQUENCES];
    int rows_of[RIG_MAX_SEQUENCES]; /* sequence of each row of the step */
};

static uint32_t take_free(unsigned char *used, uint32_t n, struct rig_random *random)
{
    uint32_t i = random ? rig_below(random, n) : 0;
    for (uint32_t tried = 0; used[i]; tried++) {
        assert_true(tried < n);
        i = (i + 1) % n;
    }
    used[i] = 1;
    return i;
}

static void add_event(struct player *p, uint32_t kind, uint32_t slot, uint32_t value)
{
    struct ls_step *step = &p->chain->step;
    assert_true(step->n_events < p->chain->limits.max_events);
    step->events[step->n_events++] = (struct ls_step_event){ kind, slot, value };
}

static void free_blocks(struct player *p, struct rig_sequence *seq, uint32_t first,
                        uint32_t end, const uint32_t *ids)
{
    (void)seq;
    for (uint32_t b = first; b < end; b++)
        p->block_used[ids[b]] = 0;
}

/* Block ids of each sequence, by the player's own account. */
static uint32_t block_ids[RIG_MAX_SEQUENCES][4096];

static void trim_behind(struct player *p, struct rig_sequence *seq, int i)
{
    if (!p->play->window || seq->done + 1 < p->play->window)
        return;
    uint32_t live = (seq->done + 1 - p->play->window) / LS_KV_BLOCK * LS_KV_BLOCK;
    if (live <= seq->live_first)
        return;
    free_blocks(p, seq, seq->live_first / LS_KV_BLOCK, live / LS_KV_BLOCK, block_ids[i]);
    add_event(p, LS_EVENT_TRIM, seq->slot, live);
    seq->live_first = live;
}

static void add_row(struct player *p, int i, uint32_t count)
{
    struct rig_sequence *seq = &p->play->sequences[i];
    struct ls_step *step = &p->chain->step;
    if (!seq->open) {
        seq->slot = take_free(p->slot_used, p->chain->limits.n_slots, p->play->random);
        seq->open = true;
        add_event(p, LS_EVENT_OPEN, seq->slot, 0);
    }
    trim_behind(p, seq, i);
    while (seq->n_blocks * LS_KV_BLOCK < seq->done + count) {
        uint32_t id = take_free(p->block_used, p->chain->limits.n_blocks, p->play->random);
        block_ids[i][seq->n_blocks++] = id;
        add_event(p, LS_EVENT_ASSIGN, seq->slot, id);
    }
    p->rows_of[step->n_rows] = i;
    step->rows[step->n_rows++] = (struct ls_step_row){ .slot = seq->slot,
                                                       .first_pos = seq->done,
                                                       .count = count,
                                                       .n_send = count,
                                                       .n_digest = count,
                                                       .nan_layer = LS_NO_LAYER };
    memcpy(step->tokens + step->n_tokens, seq->ids + seq->done, count * sizeof *seq->ids);
    step->n_tokens += count;
}

static void close_finished(struct player *p)
{
    for (int i = 0; i < p->play->n_sequences; i++) {
        struct rig_sequence *seq = &p->play->sequences[i];
        if (!seq->open || seq->closed || seq->done < seq->n)
            continue;
        free_blocks(p, seq, seq->live_first / LS_KV_BLOCK, seq->n_blocks, block_ids[i]);
        p->slot_used[seq->slot] = 0;
        add_event(p, LS_EVENT_CLOSE, seq->slot, 0);
        seq->closed = true;
    }
}

/* One row of a random sequence, when it has tokens left and is not in the step yet. */
static void maybe_add(struct player *p, int i)
{
    const struct rig_sequence *seq = &p->play->sequences[i];
    struct ls_step *step = &p->chain->step;
    struct rig_random *random = p->play->random;
    uint32_t left = seq->n - seq->done, room = p->chain->limits.max_tokens - step->n_tokens;
    uint32_t slots = 0;
    for (uint32_t s = 0; s < p->chain->limits.n_slots; s++)
        slots += !p->slot_used[s];
    if (!left || !room || step->n_rows == p->chain->limits.max_rows || (!seq->open && !slots))
        return;
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (p->rows_of[r] == i)
            return;
    uint32_t count = random ? 1 + rig_below(random, p->play->max_chunk) : left;
    count = (uint32_t)ls_min_u64(count, ls_min_u64(left, room));
    add_row(p, i, count);
}

static void deliver(struct player *p)
{
    const struct ls_step *step = &p->chain->step;
    size_t vocab = (size_t)p->chain->model->arch.vocab;
    const float *from = p->chain->logits;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        struct rig_sequence *seq = &p->play->sequences[p->rows_of[r]];
        size_t n = step->rows[r].count * vocab;
        memcpy(seq->logits + seq->done * vocab, from, n * sizeof *from);
        from += n;
        seq->done += step->rows[r].count;
        ls_stage_digest(p->chain->stages[p->chain->n_stages - 1], seq->slot, seq->digest);
    }
}

static bool unfinished(const struct rig_play *play)
{
    for (int i = 0; i < play->n_sequences; i++)
        if (play->sequences[i].done < play->sequences[i].n)
            return true;
    return false;
}

void rig_play(struct rig_chain *c, struct rig_play *play)
{
    struct player p = { .chain = c, .play = play };
    p.block_used = must_alloc(c->limits.n_blocks);
    for (play->steps = play->allocs = 0; unfinished(play);) {
        c->step.n_rows = c->step.n_events = c->step.n_tokens = 0;
        close_finished(&p);
        while (c->step.n_rows == 0)
            for (int i = 0; i < play->n_sequences; i++)
                if (!play->random || rig_below(play->random, 3))
                    maybe_add(&p, i);
        uint64_t before = ls_alloc_count();
        rig_chain_run(c, c->logits);
        play->allocs += play->steps++ ? ls_alloc_count() - before : 0;
        deliver(&p);
    }
    ls_free(p.block_used);
}

void rig_plain_run(const struct rig_model *m, const int32_t *ids, uint32_t n, float *logits,
                   unsigned char digest[32])
{
    const struct rig_layout layout = rig_plain(m, n);
    struct rig_chain chain;
    struct rig_sequence seq = { .ids = ids, .n = n, .logits = logits };
    struct rig_play play = { .sequences = &seq, .n_sequences = 1 };
    rig_chain_open(&chain, m, &layout);
    rig_play(&chain, &play);
    rig_chain_close(&chain);
    memcpy(digest, seq.digest, 32);
}
