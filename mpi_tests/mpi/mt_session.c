/* Whole runs over MPI against one process: the same tokens, logits and digests, whatever the
 * layout. usage: mt_session DRAWS [SEED] */
#include "base/clock.h"
#include "session_rig.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model {
    const char *name;
    int n_layers, vocab;
};

static const struct model models[] = { { "llama-f32", 5, 320 },  { "mistral", 5, 320 },
                                       { "qwen3", 5, 320 },      { "llama-f16", 4, 320 },
                                       { "llama-bf16", 5, 320 }, { "qwen2-window", 5, 320 } };
enum { N_MODELS = sizeof models / sizeof *models, SCRIPT_SEED = 77 };

static int rank, n_ranks;

/* One cut of n layers into n_ranks ranges, as text. */
static void draw_layers(struct rig_random *r, int n_layers, char *text, size_t size)
{
    int begin = 0;
    size_t at = 0;
    for (int s = 0; s < n_ranks; s++) {
        int left = n_ranks - 1 - s;
        int end = left ? begin + 1 + (int)rig_below(r, (uint32_t)(n_layers - begin - left))
                       : n_layers;
        at += (size_t)snprintf(text + at, size - at, "%s%d-%d", s ? "," : "", begin, end - 1);
        begin = end;
    }
}

static void draw_wish(struct rig_random *r, const struct model *m, struct ls_run_wish *w)
{
    if (rig_below(r, 3))
        draw_layers(r, m->n_layers, w->layers, sizeof w->layers);
    w->threads = 1 + (int32_t)rig_below(r, 2);
    w->budget = 1 + (int32_t)rig_below(r, rig_below(r, 2) ? 8 : 200);
    w->chunk = 1 + (int32_t)rig_below(r, rig_below(r, 2) ? 8 : 100);
    w->window = 1 + (int32_t)rig_below(r, 5);
    w->max_sequences = 1 + (int32_t)rig_below(r, 24);
    w->cpu_path = (int32_t)rig_below(r, LS_N_CPU_PATHS);
    w->placement_seed = rig_below(r, 4) * 1234567u;
}

static void base_wish(struct ls_run_wish *w, const struct model *m)
{
    memset(w, 0, sizeof *w);
    snprintf(w->model, sizeof w->model, "%s/families/%s", LS_FIXTURES, m->name);
    w->cpu_path = LS_CPU_AVX512;
    w->threads = 1;
    w->digests = 1;
}

static ls_status run(enum ls_comm_backend backend, const struct ls_run_wish *wish,
                     struct rig_script *script, struct ls_run_stats *stats, struct ls_err *err)
{
    struct ls_comm *comm = NULL;
    struct ls_session *session = NULL;
    ls_status s = ls_comm_create(&comm, backend, err);
    if (s)
        return s;
    s = ls_session_create(&session, comm, wish, NULL, err);
    if (!s)
        s = ls_session_run(session, script ? &script->client : NULL, err);
    if (!s && ls_session_stats(session, 0)->step_allocs)
        s = ls_fail(err, LS_E_INTERNAL, "rank %d: %" PRIu64 " allocations in steps", rank,
                    ls_session_stats(session, 0)->step_allocs);
    if (!s)
        ls_session_run_stats(session, stats);
    ls_session_destroy(session);
    ls_comm_destroy(comm);
    return s;
}

static void say_wish(const struct ls_run_wish *w, const struct model *m)
{
    printf("%s f32=%d layers=%s threads=%d budget=%d chunk=%d window=%d sequences=%d path=%s "
           "placement=%" PRIu64 ": ",
           m->name, w->f32_activations, w->layers, w->threads, w->budget, w->chunk, w->window,
           w->max_sequences, ls_cpu_path_name((enum ls_cpu_path)w->cpu_path),
           w->placement_seed);
}

/* Rank 0 compares with one process; returns 1 on a difference. */
static int compare(const struct model *m, const struct ls_run_wish *wish, uint64_t order_seed)
{
    static struct rig_script references[N_MODELS][2];
    struct rig_script *ref = &references[m - models][wish->f32_activations], script;
    struct ls_err err = { .status = LS_OK };
    struct ls_run_stats stats = { .steps = 0 };
    ls_status s = LS_OK;
    if (rank == 0 && !ref->sequences) {
        struct ls_run_wish one;
        base_wish(&one, m);
        one.f32_activations = wish->f32_activations;
        rig_script_init(ref, SCRIPT_SEED, 0, m->vocab);
        s = run(LS_COMM_SELF, &one, ref, &stats, &err);
    }
    rig_script_init(&script, SCRIPT_SEED, order_seed, m->vocab);
    if (rank == 0)
        say_wish(wish, m);
    ls_status mine = run(LS_COMM_MPI, wish, rank == 0 ? &script : NULL, &stats, &err);
    s = s ? s : mine;
    const char *differs = s || rank ? "" : rig_script_differs(ref, &script);
    int bad = s || *differs || script.fault[0] || ref->fault[0];
    if (rank == 0)
        printf("%s %s %s%s, %" PRIu64 " steps, %" PRIu64 " at once, %" PRIu64 " blocks\n",
               bad ? "FAILED" : "ok", s ? err.text : "", differs, script.fault, stats.steps,
               stats.max_in_flight, stats.peak_blocks);
    else if (s)
        printf("rank %d: %s\n", rank, err.text);
    fflush(stdout);
    rig_script_finish(&script);
    return bad;
}

/* The draws run under the clock of one test: at most `seconds`, and at least the first two. */
int main(int argc, char **argv)
{
    int provided, n_bad = 0, draws = argc > 1 ? atoi(argv[1]) : 10;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (rank == 0)
        printf("seed %" PRIu64 ", %d ranks\n", seed, n_ranks);
    for (int i = 0; i < draws && !n_bad; i++) {
        struct rig_random r = { .key = seed + (uint64_t)i * 1000 + (uint64_t)n_ranks };
        const struct model *m = &models[rig_below(&r, N_MODELS)];
        while (m->n_layers < n_ranks)
            m = &models[rig_below(&r, N_MODELS)];
        struct ls_run_wish wish;
        base_wish(&wish, m);
        draw_wish(&r, m, &wish);
        wish.f32_activations = rig_below(&r, 4) == 0;
        n_bad += compare(m, &wish, rig_below(&r, 3));
        MPI_Allreduce(MPI_IN_PLACE, &n_bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return n_bad ? 1 : 0;
}
