#include "app/plan_view.h"

#include <inttypes.h>

const char *ls_size_text(uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    static char texts[8][32];
    static int next;
    char *const text = texts[next++ & 7];
    double x = (double)bytes;
    int unit = 0;
    while (x >= 1024 && unit < 4) {
        x /= 1024;
        unit++;
    }
    snprintf(text, sizeof texts[0], unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return text;
}

const char *ls_fmt_text(enum ls_fmt fmt)
{
    static const char *const names[LS_N_FMT] = {
        [LS_FMT_F32] = "f32", [LS_FMT_F16] = "f16", [LS_FMT_BF16] = "bf16"
    };
    return (unsigned)fmt < LS_N_FMT ? names[fmt] : "?";
}

/* Weights that lie in another rank's copy are in brackets, and not in the total. */
static void print_rank(const struct ls_plan *plan, int rank, FILE *out)
{
    const struct ls_stage_plan *const p = &plan->stages[rank];
    const bool own = p->weights_rank == rank;
    char layers[32], weights[48];
    snprintf(layers, sizeof layers, "%d-%d", p->first_layer, p->last_layer - 1);
    snprintf(weights, sizeof weights, own ? "%s" : "(%s)", ls_size_text(p->weights_bytes));
    fprintf(out, "%5d %7d %5d  %-9s %7d %11s %11s %11s %11s %11s\n", rank,
            rank / plan->n_stages, ls_plan_stage_of(plan, rank), layers, p->threads, weights,
            ls_size_text(p->kv_bytes), ls_size_text(p->scratch_bytes),
            ls_size_text(p->link_bytes),
            ls_size_text((own ? p->weights_bytes : 0) + p->kv_bytes + ls_stage_work_bytes(p)));
}

void ls_plan_print(const struct ls_plan *plan, const struct ls_arch *arch, FILE *out)
{
    fprintf(out, "%s: %d layers, hidden %d, vocabulary %d, activations %s, context %d\n\n",
            arch->family, arch->n_layers, arch->hidden, arch->vocab, ls_fmt_text(arch->dtype),
            arch->context);
    fprintf(out, "%5s %7s %5s  %-9s %7s %11s %11s %11s %11s %11s\n", "rank", "replica", "stage",
            "layers", "threads", "weights", "KV cache", "scratch", "links", "total");
    for (int r = 0; r < ls_plan_n_ranks(plan); r++)
        print_rank(plan, r, out);
    fprintf(out,
            "\nsteps of at most %d tokens, %d of one prompt; %d steps in flight; "
            "%" PRIu32 " sequences; %" PRIu32 " KV blocks of %d positions%s\n",
            plan->budget, plan->chunk, plan->window, plan->limits.n_slots,
            plan->limits.n_blocks, LS_KV_BLOCK,
            plan->n_replicas > 1 ? "; all of it for each replica" : "");
}

static json_t *rank_to_json(const struct ls_plan *plan, int rank)
{
    const struct ls_stage_plan *const p = &plan->stages[rank];
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "rank", rank,
                     "replica", rank / (int)plan->n_stages, "stage",
                     ls_plan_stage_of(plan, rank), "weights_rank", (int)p->weights_rank,
                     "first_layer", (int)p->first_layer, "last_layer", (int)p->last_layer - 1,
                     "threads", (int)p->threads, "weights_bytes", (json_int_t)p->weights_bytes,
                     "kv_bytes", (json_int_t)p->kv_bytes, "scratch_bytes",
                     (json_int_t)p->scratch_bytes, "link_bytes", (json_int_t)p->link_bytes);
}

json_t *ls_plan_to_json(const struct ls_plan *plan, const struct ls_arch *arch)
{
    json_t *const stages = json_array();
    for (int r = 0; stages && r < ls_plan_n_ranks(plan); r++)
        if (json_array_append_new(stages, rank_to_json(plan, r))) {
            json_decref(stages);
            return NULL;
        }
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:i, s:s, s:i, s:o}", "n_stages",
                     (int)plan->n_stages, "n_replicas", (int)plan->n_replicas, "budget",
                     (int)plan->budget, "chunk", (int)plan->chunk, "window", (int)plan->window,
                     "max_sequences", (json_int_t)plan->limits.n_slots, "kv_blocks",
                     (json_int_t)plan->limits.n_blocks, "context", arch->context, "activations",
                     ls_fmt_text(arch->dtype), "n_layers", arch->n_layers, "stages", stages);
}
