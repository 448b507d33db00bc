/* Runs that do not end well: every rank returns in time, and rank 0 has the one line that says
 * why. usage: mt_session_ends WHAT. The stage's functions are replaced at link time, so that
 * one rank can be made to fail in any phase. */
#include "base/clock.h"
#include "model/pass.h"
#include "session_rig.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_S = 10, VOCAB = 320 };

/* What is to go wrong, and what is expected of it. */
struct ending {
    const char *name;
    int bad_rank;       /* where; -1: the last one */
    ls_status status;   /* on rank 0 */
    const char *text;   /* part of rank 0's message; "" means an empty message */
    const char *second; /* another part, or NULL */
};

static const struct ending endings[] = {
    { "client", 0, LS_E_IO, "the client's disk is full", NULL },
    { "step-first", 0, LS_E_COMPUTE, "no more steps", "step 5" },
    { "step-last", -1, LS_E_COMPUTE, "no more steps", "step 5" },
    { "load-first", 0, LS_E_MEMORY, "no room for this stage", NULL },
    { "load-last", -1, LS_E_MEMORY, "no room for this stage", "rank 2 on " },
    { "folder", -1, LS_E_FORMAT, "model.safetensors", "rank 2 on " },
    { "other-model", -1, LS_E_REFUSED, "sees another checkpoint", "rank 2 on " },
    { "silent", -1, LS_E_LINK, "no sign of life", "rank 2 on " },
    { "step-abandon", -1, LS_E_COMPUTE, "no more steps", "step 5" },
    { "drain", 0, LS_E_DRAINED, "stopped on request", NULL },
    { "cancel", 0, LS_E_DRAINED, "", NULL },
    { "unused", 0, LS_E_DRAINED, "", NULL },
    { "ranks", 0, LS_E_REFUSED, "ranks but the model has only 5 layers", NULL },
    { "stages", 0, LS_E_REFUSED, "every rank is one stage", NULL },
    { "layers", 0, LS_E_USAGE, "layers \"0-9\"", NULL },
    { "context", 0, LS_E_MEMORY, "raise kv-memory to at least", NULL },
    { "no-model", 0, LS_E_IO, "config.json", NULL },
};

static int rank, n_ranks, steps_run, steps_given_up;
static const struct ending *ending;

static bool is_here(const char *what)
{
    int bad = ending->bad_rank < 0 ? n_ranks - 1 : ending->bad_rank;
    return rank == bad && !strncmp(ending->name, what, strlen(what));
}

ls_status __real_ls_stage_run(struct ls_stage *stage, struct ls_step *step,
                              const void *hidden_in, void *hidden_out, struct ls_err *err);
ls_status __wrap_ls_stage_run(struct ls_stage *stage, struct ls_step *step,
                              const void *hidden_in, void *hidden_out, struct ls_err *err);
void __real_ls_rows_find_nan(struct ls_forward *f, struct ls_part p, int layer);
void __wrap_ls_rows_find_nan(struct ls_forward *f, struct ls_part p, int layer);
ls_status __real_ls_stage_create(struct ls_stage **out, const struct ls_stage_config *config,
                                 struct ls_err *err);
ls_status __wrap_ls_stage_create(struct ls_stage **out, const struct ls_stage_config *config,
                                 struct ls_err *err);

ls_status __wrap_ls_stage_run(struct ls_stage *stage, struct ls_step *step,
                              const void *hidden_in, void *hidden_out, struct ls_err *err)
{
    if (++steps_run == 6 && is_here("step-abandon"))
        usleep(700000); /* by then rank 0 is in a later step */
    if (steps_run == 6 && is_here("step"))
        return ls_fail(err, LS_E_COMPUTE, "no more steps");
    if (steps_run == 6 && is_here("silent"))
        sleep(5);
    ls_status s = __real_ls_stage_run(stage, step, hidden_in, hidden_out, err);
    steps_given_up += s == LS_E_DRAINED;
    return s;
}

/* Rank 0 is in the middle of a long step when the last rank fails. */
void __wrap_ls_rows_find_nan(struct ls_forward *f, struct ls_part p, int layer)
{
    if (rank == 0 && n_ranks > 1 && steps_run >= 7 && !strcmp(ending->name, "step-abandon"))
        sleep(1);
    __real_ls_rows_find_nan(f, p, layer);
}

ls_status __wrap_ls_stage_create(struct ls_stage **out, const struct ls_stage_config *config,
                                 struct ls_err *err)
{
    if (is_here("load"))
        return ls_fail(err, LS_E_MEMORY, "no room for this stage");
    return __real_ls_stage_create(out, config, err);
}

/* --- checkpoints of which one rank sees another one
 * ------------------------------------------- */

static void copy_file(const char *from, const char *to, long keep_bytes)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    if (!in || !out)
        abort();
    for (int c; keep_bytes-- != 0 && (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    fclose(out);
}

static char start_dir[4096];

/* Makes ./model a copy of a fixture and goes to a directory of this rank's own. */
static void own_model(const char *fixture, long keep_bytes, char dir[64])
{
    static const char *const files[] = { "config.json", "generation_config.json",
                                         "model.safetensors" };
    snprintf(dir, 64, "/tmp/mt_session_XXXXXX");
    if (!getcwd(start_dir, sizeof start_dir) || !mkdtemp(dir) || chdir(dir) ||
        mkdir("model", 0700))
        abort();
    for (int i = 0; i < 3; i++) {
        char from[4096], to[64];
        snprintf(from, sizeof from, "%s/families/%s/%s", LS_FIXTURES, fixture, files[i]);
        snprintf(to, sizeof to, "model/%s", files[i]);
        copy_file(from, to, i == 2 ? keep_bytes : -1);
    }
}

static void drop_model(const char *dir)
{
    if (!dir[0] || chdir(dir))
        return;
    unlink("model/config.json");
    unlink("model/generation_config.json");
    unlink("model/model.safetensors");
    rmdir("model");
    if (!chdir(start_dir))
        rmdir(dir);
}

/* --- one run
 * ---------------------------------------------------------------------------------- */

static void make_wish(struct ls_run_wish *w, char dir[64])
{
    memset(w, 0, sizeof *w);
    snprintf(w->model, sizeof w->model, "%s/families/llama-f32", LS_FIXTURES);
    w->threads = 1;
    w->budget = 16;
    w->cpu_path = LS_CPU_REF;
    w->max_sequences = 3;
    w->window = 20;
    w->silence_s = strcmp(ending->name, "silent") ? 0 : 2;
    bool own = !strcmp(ending->name, "folder") || !strcmp(ending->name, "other-model");
    if (own) {
        bool other = is_here("other-model");
        own_model(other ? "llama-bias" : "llama-f32", is_here("folder") ? 100000 : -1, dir);
        snprintf(w->model, sizeof w->model, "model");
    }
    if (!strcmp(ending->name, "stages"))
        w->stages = n_ranks + 1;
    if (!strcmp(ending->name, "layers"))
        snprintf(w->layers, sizeof w->layers, "0-9");
    if (!strcmp(ending->name, "context"))
        w->kv_bytes = 10000;
    if (!strcmp(ending->name, "no-model"))
        snprintf(w->model, sizeof w->model, "/no/such/folder");
}

static ls_status run(struct ls_comm *comm, struct rig_script *script, char dir[64],
                     struct ls_err *err)
{
    struct ls_run_wish wish;
    struct ls_session *session = NULL;
    make_wish(&wish, dir);
    if (rank == 0 && !strcmp(ending->name, "cancel")) {
        ls_session_cancel(comm);
        return ls_fail(err, LS_E_DRAINED, "%s", "");
    }
    ls_status s = ls_session_create(&session, comm, &wish, NULL, err);
    if (!s && rank == 0 && !strcmp(ending->name, "unused"))
        s = ls_fail(err, LS_E_DRAINED, "%s", "");
    if (!s)
        s = ls_session_run(session, rank == 0 ? &script->client : NULL, err);
    ls_session_destroy(session);
    return s;
}

static bool is_expected(ls_status s, const struct ls_err *err)
{
    if (rank > 0)
        return s != LS_OK;
    if (s != ending->status || !strstr(err->text, ending->text))
        return false;
    if (!ending->text[0] && err->text[0])
        return false;
    bool elsewhere = ending->bad_rank < 0 && n_ranks > 1;
    return !elsewhere || !ending->second || strstr(err->text, ending->second);
}

/* All ranks end within the time, and rank 0 says why. */
static int check(void)
{
    struct ls_comm *comm = NULL;
    struct ls_err err = { .status = LS_OK };
    struct rig_script script;
    char dir[64] = "";
    rig_script_init(&script, 5, 0, VOCAB);
    script.fail_at = strcmp(ending->name, "client") ? 0 : 40;
    script.drain_after = strcmp(ending->name, "drain") ? 0 : 3;
    uint64_t begin = ls_now_us();
    ls_status s = ls_comm_create(&comm, LS_COMM_MPI, &err);
    if (!s)
        s = run(comm, &script, dir, &err);
    ls_comm_destroy(comm);
    double seconds = (double)(ls_now_us() - begin) * 1e-6;
    int bad = !is_expected(s, &err) || seconds > MAX_S || script.fault[0];
    if (rank == 0 && n_ranks > 1 && !strcmp(ending->name, "step-abandon"))
        bad |= steps_given_up != 1;
    for (int i = 0; rank == 0 && !strcmp(ending->name, "drain") && i < script.started; i++)
        bad |= script.finished < 3 || script.finished == script.n;
    printf("%s: rank %d: %s after %.2f s: %s: %s %s\n", ending->name, rank,
           bad ? "FAILED" : "ok", seconds, ls_status_name(s), err.text, script.fault);
    fflush(stdout);
    drop_model(dir);
    rig_script_finish(&script);
    return bad;
}

int main(int argc, char **argv)
{
    int provided, bad = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    for (int a = 1; a < argc; a++) {
        ending = NULL;
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
            if (!strcmp(endings[i].name, argv[a]))
                ending = &endings[i];
        if (!ending) {
            fprintf(stderr, "unknown ending %s\n", argv[a]);
            return 2;
        }
        steps_run = steps_given_up = 0;
        bad |= check();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return bad;
}
