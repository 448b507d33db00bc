#include "pipeline/report.h"

#include "pipeline/bytes.h"
#include "wire/frame.h"

#include <sodium.h>
#include <stdio.h>

enum { DIGEST = 32 };

/* Version, wire version, and the bytes of the running executable: two builds may differ in what
 * they send, so they do not run together. */
static void program_digest(unsigned char digest[DIGEST])
{
    static const char version[] = "lockstep " LS_VERSION;
    const unsigned char wire = LS_FRAME_VERSION;
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, DIGEST);
    crypto_generichash_update(&state, (const unsigned char *)version, sizeof version);
    crypto_generichash_update(&state, &wire, 1);
    FILE *f = fopen("/proc/self/exe", "rb");
    unsigned char chunk[16384];
    size_t n;
    while (f && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
        crypto_generichash_update(&state, chunk, n);
    if (f)
        fclose(f);
    crypto_generichash_final(&state, digest, DIGEST);
}

void ls_view_look(struct ls_rank_view *view, const char *host, const struct ls_checkpoint *ckpt,
                  int check_bytes)
{
    struct ls_rank_report *r = &view->report;
    snprintf(r->host, sizeof r->host, "%.*s", LS_MAX_HOST - 1, host);
    r->cores = ls_machine_cpus(view->cpus);
    view->cpu_quota = ls_machine_cpu_quota();
    view->host_cpus = ls_machine_host_cpus();
    r->memory_bytes = ls_machine_memory();
    ls_checkpoint_digest(ckpt, check_bytes, r->checkpoint_digest);
    program_digest(r->program_digest);
}

size_t ls_view_encode(const struct ls_rank_view *view, unsigned char out[LS_VIEW_BYTES])
{
    const struct ls_rank_report *report = &view->report;
    struct ls_writer w = { .at = out, .left = LS_VIEW_BYTES };
    ls_put_u32(&w, view->status);
    ls_put_text(&w, view->text);
    ls_put_text(&w, report->host);
    ls_put_i32(&w, report->cores);
    ls_put_i32(&w, view->cpu_quota);
    ls_put_i32(&w, view->host_cpus);
    ls_put_u64(&w, report->memory_bytes);
    ls_put_u32(&w, view->pid);
    ls_put_i32(&w, view->weights_fd);
    for (int i = 0; i < LS_CPU_WORDS; i++)
        ls_put_u64(&w, view->cpus[i]);
    ls_put_bytes(&w, report->checkpoint_digest, DIGEST);
    ls_put_bytes(&w, report->program_digest, DIGEST);
    return LS_VIEW_BYTES - w.left;
}

ls_status ls_view_decode(struct ls_rank_view *view, const unsigned char *bytes, size_t n,
                         struct ls_err *err)
{
    struct ls_rank_report *report = &view->report;
    struct ls_reader r = { .at = bytes, .left = n };
    uint32_t status = ls_get_u32(&r);
    ls_get_text(&r, view->text, sizeof view->text);
    ls_get_text(&r, report->host, sizeof report->host);
    report->cores = ls_get_i32(&r);
    view->cpu_quota = ls_get_i32(&r);
    view->host_cpus = ls_get_i32(&r);
    report->memory_bytes = ls_get_u64(&r);
    view->pid = ls_get_u32(&r);
    view->weights_fd = ls_get_i32(&r);
    for (int i = 0; i < LS_CPU_WORDS; i++)
        view->cpus[i] = ls_get_u64(&r);
    ls_get_bytes(&r, report->checkpoint_digest, DIGEST);
    ls_get_bytes(&r, report->program_digest, DIGEST);
    if (!ls_reader_done(&r) || status >= LS_N_STATUS || view->cpu_quota < 0 ||
        view->host_cpus < 0)
        return ls_fail(err, LS_E_SHAPE, "a vote that cannot be read (%zu bytes)", n);
    view->status = (ls_status)status;
    return LS_OK;
}

ls_status ls_views_agree(const struct ls_rank_view *views, int n_ranks, struct ls_err *err)
{
    const struct ls_rank_report *first = &views[0].report;
    for (int r = 1; r < n_ranks; r++) {
        const struct ls_rank_report *other = &views[r].report;
        if (memcmp(other->program_digest, first->program_digest, DIGEST) != 0)
            return ls_fail(err, LS_E_REFUSED,
                           "rank %d on %s runs another build of lockstep than rank 0 on %s", r,
                           other->host, first->host);
        if (memcmp(other->checkpoint_digest, first->checkpoint_digest, DIGEST) != 0)
            return ls_fail(err, LS_E_REFUSED,
                           "rank %d on %s sees another checkpoint than rank 0 on %s: names, "
                           "shapes, dtypes or sizes differ",
                           r, other->host, first->host);
    }
    return LS_OK;
}

/* CPUs that are in `mask` alone count whole, shared ones by the number of ranks that share. */
static int32_t share_cpus(const struct ls_rank_view *views, int n_ranks, int rank)
{
    const struct ls_rank_view *mine = &views[rank];
    double cores = 0;
    for (int i = 0; i < 64 * LS_CPU_WORDS; i++) {
        if (!(mine->cpus[i / 64] >> (i % 64) & 1))
            continue;
        int sharing = 0;
        for (int r = 0; r < n_ranks; r++)
            sharing += !strcmp(views[r].report.host, mine->report.host) &&
                       (views[r].cpus[i / 64] >> (i % 64) & 1);
        cores += 1.0 / sharing;
    }
    return (int32_t)(cores + 1e-9);
}

void ls_views_share(const struct ls_rank_view *views, int n_ranks,
                    struct ls_rank_report *reports)
{
    for (int r = 0; r < n_ranks; r++) {
        int on_host = 0;
        for (int q = 0; q < n_ranks; q++)
            on_host += !strcmp(views[q].report.host, views[r].report.host);
        reports[r] = views[r].report;
        reports[r].memory_bytes /= (uint64_t)on_host;
        int32_t cores = share_cpus(views, n_ranks, r), quota = views[r].cpu_quota / on_host;
        if (views[r].cpu_quota > 0 && quota < cores)
            cores = quota;
        reports[r].cores = cores < 1 ? 1 : cores > LS_MAX_THREADS ? LS_MAX_THREADS : cores;
    }
}
