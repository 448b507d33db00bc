#include "app/predict.h"

#include "app/model_folder.h"
#include "app/plan_view.h"
#include "app/wish.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "model/weights.h"
#include "pipeline/machine.h"

#include <inttypes.h>
#include <string.h>

/* Of rank 0 for a row of logits, beside choosing a token: looking for NaN, text, journal. */
enum { ROW_US = 4 };

/* What the layers of each rank cost, in units of those that were measured. */
static ls_status find_work(double **out, const struct ls_prediction *p,
                           const struct ls_predict_terms *t, struct ls_err *err)
{
    void *memory = NULL;
    const uint64_t head = ls_weights_head_bytes(t->arch, t->ckpt);
    ls_status s = ls_alloc(&memory, (uint64_t)p->n_ranks * sizeof **out, "work of ranks", err);
    if (s)
        return s;
    double *const work = memory;
    for (int r = 0; r < p->n_ranks; r++) {
        const struct ls_stage_plan *const sp = &t->plan->stages[r];
        const uint64_t layers = sp->weights_bytes - (ls_plan_is_last(t->plan, r) ? head : 0);
        work[r] = (double)layers / (double)p->pace.unit_bytes * p->pace.n_threads / sp->threads;
    }
    *out = work;
    return LS_OK;
}

/* Ranks of one machine may have more threads than it has cores. Of a host that is not this one
 * nothing but its cores' share is known, and that is what its threads are. */
static double core_share(const struct ls_predict_terms *t, int n_ranks)
{
    uint64_t mask[LS_CPU_WORDS];
    const int cpus = ls_machine_cpus(mask), quota = ls_machine_cpu_quota();
    const int cores = quota > 0 && quota < cpus ? quota : cpus;
    int n_threads = 0;
    if (ls_options_is_set(t->options, LS_OPT_NODES))
        return 1;
    for (int r = 0; r < n_ranks; r++)
        n_threads += t->plan->stages[r].threads;
    return n_threads > cores && cores > 0 ? (double)cores / n_threads : 1;
}

static ls_status rehearse(struct ls_prediction *p, const struct ls_predict_terms *t,
                          struct ls_err *err)
{
    double *work = NULL;
    const struct ls_plan *const plan = t->plan;
    ls_status s = ls_pace_measure(&p->pace, t->arch, t->ckpt, t->wish->cpu_path,
                                  plan->stages[0].threads, t->wish->digests, err);
    if (!s)
        s = find_work(&work, p, t, err);
    if (s)
        return s;
    const struct ls_rehearsal_config config = { .plan = plan,
                                                .arch = t->arch,
                                                .sequences = p->requests.sequences,
                                                .n = p->requests.n,
                                                .prefix_reuse = t->wish->prefix_reuse,
                                                .pace = &p->pace,
                                                .work = work,
                                                .share = core_share(t, p->n_ranks),
                                                .row_us = ROW_US + p->requests.pick_us };
    s = ls_rehearse(&p->run, &config, err);
    ls_free(work);
    return s;
}

/* The requests as a run would read them. The tokenizer stays with rank 0 during a run. */
static ls_status read_requests(struct ls_prediction *p, const struct ls_predict_terms *t,
                               struct ls_err *err)
{
    struct ls_tokenizer *tokenizer = NULL;
    struct ls_job_config config;
    const uint64_t before = ls_machine_use().now_bytes;
    ls_job_config_of(&config, t->options, "");
    config.chat = t->chat;
    ls_status s = ls_model_tokenizer(&tokenizer, t->wish->model, err);
    const uint64_t after = ls_machine_use().now_bytes;
    p->tokenizer_bytes = after > before ? after - before : 0;
    if (!s)
        s = ls_ahead_read(&p->requests, &config, t->arch, tokenizer, err);
    ls_tokenizer_destroy(tokenizer);
    return s;
}

/* Ranks load beside each other, each what its own copy holds. */
static double load_seconds(const struct ls_prediction *p)
{
    uint64_t most = 0;
    for (int r = 0; r < p->n_ranks; r++)
        most = p->ranks[r].weights_bytes > most ? p->ranks[r].weights_bytes : most;
    return (double)most / p->pace.load_bytes_per_us * 1e-6;
}

ls_status ls_predict(struct ls_prediction *out, const struct ls_predict_terms *t,
                     struct ls_err *err)
{
    void *memory = NULL;
    const char *const input = ls_options_text(t->options, LS_OPT_INPUT);
    *out = (struct ls_prediction){ .n_ranks = ls_plan_n_ranks(t->plan) };
    if (input && strcmp(input, "-") != 0)
        out->input = input;
    ls_status s = ls_alloc(&memory, (uint64_t)out->n_ranks * sizeof *out->ranks,
                           "prediction of memory", err);
    out->ranks = memory;
    if (!s && out->input)
        s = read_requests(out, t, err);
    if (!s && out->input)
        s = rehearse(out, t, err);
    uint64_t table = 0;
    if (!s)
        s = ls_forecast_table(&table, t->arch, t->ckpt, out->requests.sequences,
                              out->requests.n, err);
    if (s)
        return s;
    const struct ls_forecast_terms terms = { .plan = t->plan,
                                             .arch = t->arch,
                                             .ckpt = t->ckpt,
                                             .run = out->input ? &out->run : NULL,
                                             .base_bytes = t->base_bytes,
                                             .tokenizer_bytes = out->tokenizer_bytes,
                                             .table_bytes = table };
    for (int r = 0; r < out->n_ranks; r++)
        ls_forecast_of(&out->ranks[r], &terms, r);
    if (out->input)
        out->load_s = load_seconds(out);
    return LS_OK;
}

void ls_prediction_finish(struct ls_prediction *p)
{
    ls_ahead_finish(&p->requests);
    ls_rehearsal_finish(&p->run);
    ls_free(p->ranks);
    *p = (struct ls_prediction){ .n_ranks = 0 };
}

/* --- as people and programs read it ---------------------------------------------------------
 */

static double efficiency(const struct ls_prediction *p)
{
    double busy = 0;
    for (int r = 0; r < p->n_ranks; r++)
        busy += p->run.busy_s[r];
    return p->run.seconds > 0 ? busy / (p->run.seconds * p->n_ranks) : 0;
}

void ls_prediction_print(const struct ls_prediction *p, FILE *out)
{
    fprintf(out, "\nin memory at most, each process:\n%5s %11s %11s %11s %11s %11s %11s %11s\n",
            "rank", "base", "weights", "embedding", "KV cache", "scratch", "links", "peak");
    for (int r = 0; r < p->n_ranks; r++) {
        const struct ls_forecast *const f = &p->ranks[r];
        fprintf(out, "%5d %11s %11s %11s %11s %11s %11s %11s\n", r, ls_size_text(f->base_bytes),
                ls_size_text(f->weights_bytes), ls_size_text(f->table_bytes),
                ls_size_text(f->kv_bytes), ls_size_text(f->scratch_bytes),
                ls_size_text(f->link_bytes), ls_size_text(f->peak_bytes));
    }
    if (!p->input) {
        fprintf(out, "when all of it is used; --input FILE predicts a run of its requests\n");
        return;
    }
    fprintf(
        out,
        "\n%" PRIu64 " sequences of %s, %" PRIu64 " tokens of prompts, at most %" PRIu64
        " new ones: %" PRIu64 " steps\n"
        "about %.3g s to load and %.3g s to run, ranks computing %.0f %% of the time; at the "
        "pace of this machine, of which layers %d and on were measured with %d thread%s\n",
        p->requests.n, p->input, p->requests.prompt_tokens, p->requests.new_tokens,
        p->run.steps, p->load_s, p->run.seconds, 100 * efficiency(p), p->pace.first_layer,
        p->pace.n_threads, p->pace.n_threads == 1 ? "" : "s");
}

static json_t *rank_to_json(const struct ls_prediction *p, int rank)
{
    const struct ls_forecast *const f = &p->ranks[rank];
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rank", rank, "base_bytes",
                     (json_int_t)f->base_bytes, "weights_bytes", (json_int_t)f->weights_bytes,
                     "table_bytes", (json_int_t)f->table_bytes, "kv_bytes",
                     (json_int_t)f->kv_bytes, "scratch_bytes", (json_int_t)f->scratch_bytes,
                     "link_bytes", (json_int_t)f->link_bytes, "peak_bytes",
                     (json_int_t)f->peak_bytes);
}

json_t *ls_prediction_to_json(const struct ls_prediction *p)
{
    json_t *const ranks = json_array();
    for (int r = 0; ranks && r < p->n_ranks; r++)
        if (json_array_append_new(ranks, rank_to_json(p, r))) {
            json_decref(ranks);
            return NULL;
        }
    if (!p->input)
        return json_pack("{s:o}", "ranks", ranks);
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "ranks", ranks,
                     "sequences", (json_int_t)p->requests.n, "prompt_tokens",
                     (json_int_t)p->requests.prompt_tokens, "new_tokens",
                     (json_int_t)p->requests.new_tokens, "steps", (json_int_t)p->run.steps,
                     "kv_blocks", (json_int_t)p->run.max_blocks, "load_s", p->load_s, "run_s",
                     p->run.seconds, "efficiency", efficiency(p));
}
