#include "app/manifest.h"

#include "app/facts.h"
#include "app/plan_view.h"
#include "app/provenance.h"
#include "base/alloc.h"
#include "text/versions.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* jansson's setters return -1 and keep the object when memory is exhausted: counted here. */
struct writer {
    json_t *root;
    int failed;
};

static void put(struct writer *w, json_t *into, const char *key, json_t *value)
{
    w->failed |= json_object_set_new(into, key, value) != 0;
}

static void put_u64(struct writer *w, json_t *into, const char *key, uint64_t value)
{
    char text[24];
    /* JSON readers commonly keep 63 bits; a larger seed is a string. */
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put(w, into, key, value <= INT64_MAX ? json_integer((json_int_t)value) : json_string(text));
}

static void put_seconds(struct writer *w, json_t *into, const char *key, uint64_t begin_us,
                        uint64_t end_us)
{
    put(w, into, key,
        begin_us && end_us >= begin_us ? json_real((double)(end_us - begin_us) / 1e6)
                                       : json_null());
}

/* --- the model -------------------------------------------------------------------------------
 */

static void put_unused(struct writer *w, json_t *model, const struct ls_session *session)
{
    const char *first;
    const size_t n = ls_session_unused(session, &first);
    put_u64(w, model, "unused_tensors", n);
    put(w, model, "first_unused", n ? json_string(first) : json_null());
}

static void put_text(struct writer *w)
{
    struct ls_text_versions v;
    ls_text_versions(&v);
    put(w, w->root, "text",
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "pcre2", v.pcre2, "utf8proc", v.utf8proc,
                  "unicode", "pcre2", v.pcre2_unicode, "utf8proc", v.utf8proc_unicode));
}

static void put_model(struct writer *w, const struct ls_manifest *m)
{
    static const char *const files[] = { "config.json", "generation_config.json",
                                         "tokenizer.json", "tokenizer_config.json" };
    json_t *const model = json_object(), *const digests = json_object();
    char text[LS_DIGEST_TEXT];
    put(w, w->root, "model", model);
    put(w, model, "name", json_string(m->model_name));
    if (m->session) {
        const struct ls_arch *const arch = ls_session_arch(m->session);
        unsigned char digest[32];
        ls_checkpoint_digest(ls_session_checkpoint(m->session), m->wish->check_bytes, digest);
        ls_digest_text(text, digest);
        put(w, model, "family", json_string(arch->family));
        put(w, model, "activations", json_string(ls_fmt_text(arch->dtype)));
        put(w, model, "context", json_integer(arch->context));
        put(w, model, "digest", json_string(text));
        put(w, model, "digest_holds_bytes", json_boolean(m->wish->check_bytes));
        put_unused(w, model, m->session);
    }
    for (int i = 0; i < (int)(sizeof files / sizeof files[0]); i++)
        put(w, digests, files[i],
            ls_file_digest(text, m->wish->model, files[i]) ? json_string(text) : json_null());
    put(w, model, "files", digests);
}

/* --- stages and counters ---------------------------------------------------------------------
 */

static json_t *links_to_json(struct writer *w, const struct ls_link_counts *c)
{
    json_t *const out = json_object(), *const refused = json_object();
    put_u64(w, out, "frames_sealed", c->sealed);
    put_u64(w, out, "frames_opened", c->opened);
    put_u64(w, out, "bytes_sealed", c->sealed_bytes);
    put_u64(w, out, "bytes_opened", c->opened_bytes);
    put_u64(w, out, "rekeys", c->rekeys);
    put_u64(w, out, "crypto_us", c->crypto_us);
    put_u64(w, out, "payload_copies", c->copies);
    put_u64(w, out, "payloads_of_several_frames", c->split);
    put_u64(w, out, "tensors_packed", c->packed);
    put_u64(w, out, "tensors_unpacked", c->unpacked);
    put_u64(w, out, "bytes_before_packing", c->raw_bytes);
    put_u64(w, out, "bytes_after_packing", c->packed_bytes);
    put_u64(w, out, "packing_us", c->pack_us);
    for (int i = 0; i < LS_N_REFUSALS; i++)
        put_u64(w, refused, ls_status_name((ls_status)(LS_E_AUTH + i)), c->refused[i]);
    put(w, out, "refused", refused);
    return out;
}

static json_t *rank_to_json(struct writer *w, const struct ls_manifest *m, int rank)
{
    const struct ls_plan *const plan = ls_session_plan(m->session);
    const struct ls_stage_plan *const p = &plan->stages[rank];
    const struct ls_stage_stats *const s = ls_session_stats(m->session, rank);
    json_t *const out = json_object();
    put(w, out, "rank", json_integer(rank));
    put(w, out, "replica", json_integer(rank / plan->n_stages));
    put(w, out, "stage", json_integer(ls_plan_stage_of(plan, rank)));
    put(w, out, "host", json_string(s->host));
    put(w, out, "first_layer", json_integer(p->first_layer));
    put(w, out, "last_layer", json_integer(p->last_layer - 1));
    put(w, out, "threads", json_integer(s->threads));
    put(w, out, "kernels", json_string(s->kernels));
    put(w, out, "selftest_fallbacks", json_integer(s->kernels_failed));
    put_u64(w, out, "weights_bytes", s->counts.weights_bytes);
    put_u64(w, out, "shared_weights_bytes", s->counts.shared_bytes);
    put(w, out, "weights_rank", json_integer(p->weights_rank));
    put_u64(w, out, "kv_bytes", s->counts.kv_bytes);
    put_u64(w, out, "scratch_bytes", s->counts.scratch_bytes);
    put_u64(w, out, "link_bytes", s->links.buffer_bytes);
    put_u64(w, out, "resident_bytes", s->counts.resident_bytes);
    put_u64(w, out, "peak_bytes", s->peak_bytes);
    put_u64(w, out, "steps", s->counts.steps);
    put_u64(w, out, "tokens", s->counts.tokens);
    put_u64(w, out, "logits_rows", s->counts.logits_rows);
    put_u64(w, out, "compute_us", s->compute_us);
    put_u64(w, out, "compute_prompt_us", s->prompt_us);
    put_u64(w, out, "wait_us", s->wait_us);
    put_u64(w, out, "send_us", s->send_us);
    put_u64(w, out, "frames_sent", s->frames_sent);
    put_u64(w, out, "frames_received", s->frames_received);
    put_u64(w, out, "bytes_sent", s->bytes_sent);
    put_u64(w, out, "bytes_received", s->bytes_received);
    put_u64(w, out, "step_allocations", s->step_allocs);
    put(w, out, "links", links_to_json(w, &s->links));
    return out;
}

/* What part of the run the ranks computed, beside M / (M + S - 1): what a pipeline of S equal
 * stages that is only filled and emptied would reach over the M steps of the run. */
static void put_efficiency(struct writer *w, const struct ls_manifest *m)
{
    const int n_stages = ls_session_plan(m->session)->n_stages;
    const double run_us = (double)(m->end_us - m->ready_us);
    double computed = 0, ideal = 0;
    for (int r = 0; r < m->n_ranks; r++) {
        const struct ls_stage_stats *const s = ls_session_stats(m->session, r);
        const double steps = (double)s->counts.steps;
        computed += (double)s->compute_us / run_us / m->n_ranks;
        ideal += steps > 0 ? steps / (steps + n_stages - 1) / m->n_ranks : 0;
    }
    const bool known = m->ready_us && m->end_us > m->ready_us;
    put(w, w->root, "pipeline",
        known ? json_pack("{s:f, s:f}", "efficiency", computed, "ideal", ideal) : json_null());
}

static void put_stages(struct writer *w, const struct ls_manifest *m)
{
    json_t *const stages = json_array();
    struct ls_run_stats run;
    put(w, w->root, "plan",
        ls_plan_to_json(ls_session_plan(m->session), ls_session_arch(m->session)));
    if (!m->ran)
        return;
    for (int s = 0; s < m->n_ranks; s++)
        w->failed |= json_array_append_new(stages, rank_to_json(w, m, s)) != 0;
    put(w, w->root, "stages", stages);
    put_efficiency(w, m);
    ls_session_run_stats(m->session, &run);
    put_u64(w, w->root, "steps", run.steps);
    put_u64(w, w->root, "tokens", run.tokens);
    put_u64(w, w->root, "sequences", run.sequences);
    put_u64(w, w->root, "max_steps_in_flight", run.max_in_flight);
    put_u64(w, w->root, "peak_kv_blocks", run.peak_blocks);
    put_u64(w, w->root, "reused_kv_blocks", run.reused_blocks);
    put_u64(w, w->root, "coordinator_us", run.coordinator_us);
}

/* What went between ranks, and under what. Nothing here helps to find a key. */
static void put_link(struct writer *w, const struct ls_manifest *m)
{
    const struct ls_link_terms *const t = m->session ? ls_session_terms(m->session) : NULL;
    char run_id[2 * LS_RUN_ID + 1];
    if (!t)
        return;
    sodium_bin2hex(run_id, sizeof run_id, t->run_id, LS_RUN_ID);
    put(w, w->root, "run_id", json_string(run_id));
    put(w, w->root, "link", json_string(ls_level_name(t->level)));
    put(w, w->root, "suite", json_string(ls_suite_name(t->suite)));
    put(w, w->root, "secret", json_string(ls_secret_origin_name(t->origin)));
    put(w, w->root, "one_host", json_boolean(t->one_host));
}

/* How many, and the first ones. */
static void put_placement(struct writer *w, const struct ls_manifest *m)
{
    const struct ls_placement *const p = ls_session_placement(m->session);
    json_t *const texts = json_array();
    for (int i = 0; i < p->n_warnings && i < LS_PLACEMENT_KEPT; i++)
        w->failed |= json_array_append_new(texts, json_string(p->texts[i])) != 0;
    put(w, w->root, "placement_warnings", json_integer(p->n_warnings));
    put(w, w->root, "placement", texts);
}

static void put_job(struct writer *w, const struct ls_manifest *m)
{
    const struct ls_job_counts *const c = m->counts;
    if (!c)
        return;
    put_u64(w, w->root, "rows", c->rows);
    put_u64(w, w->root, "error_rows", c->error_rows);
    put_u64(w, w->root, "resumed_rows", c->resumed_rows);
    put_u64(w, w->root, "prompt_tokens", c->prompt_tokens);
    put_u64(w, w->root, "generated_tokens", c->generated_tokens);
    put_u64(w, w->root, "bytes_written", c->bytes_written);
    put(w, w->root, "digest", json_string(m->digest));
}

static void fill(struct writer *w, const struct ls_manifest *m)
{
    json_t *const times = json_object();
    const char *const certificate = ls_options_text(&m->app->options, LS_OPT_CERTIFICATE);
    put(w, w->root, "program", json_string("lockstep"));
    put(w, w->root, "version", json_string(LS_VERSION));
    put(w, w->root, "made_by", ls_provenance_json(m->app));
    put(w, w->root, "profile", json_string("exact-1"));
    put_model(w, m);
    put_text(w);
    put_u64(w, w->root, "seed", m->seed);
    put_u64(w, w->root, "placement_seed", m->wish->placement_seed);
    put(w, w->root, "ranks", json_integer(m->n_ranks));
    put(w, w->root, "backend", json_string(m->backend));
    put_link(w, m);
    put(w, w->root, "packing", json_string(ls_pack_name((enum ls_pack)m->wish->pack)));
    if (m->session) {
        put_placement(w, m);
        put_stages(w, m);
    }
    put_job(w, m);
    put(w, w->root, "certificate", certificate ? json_string(certificate) : json_null());
    put_seconds(w, times, "start_s", m->start_us, m->ready_us);
    put_seconds(w, times, "run_s", m->ready_us, m->end_us);
    put_seconds(w, times, "total_s", m->start_us, m->end_us);
    put(w, w->root, "times", times);
    put(w, w->root, "error", m->error ? json_string(m->error) : json_null());
    put(w, w->root, "exit_code", json_integer(m->exit_code));
    put(w, w->root, "complete", json_boolean(m->complete));
}

/* --- the file --------------------------------------------------------------------------------
 */

static ls_status write_all(const char *path, const char *text, struct ls_err *err)
{
    size_t n = strlen(text);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    while (fd >= 0 && n > 0) {
        const ssize_t written = write(fd, text, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            break;
        text += written;
        n -= (size_t)written;
    }
    const bool good = fd >= 0 && n == 0 && !fsync(fd);
    const ls_status s =
        good ? LS_OK
             : ls_fail(err, ls_io_status(errno), "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return s;
}

/* The rename itself must survive a crash. */
static void sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static ls_status replace(const char *folder, const char *text, struct ls_err *err)
{
    char path[4096 + 64], part[4096 + 64];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    snprintf(part, sizeof part, "%s/manifest.json.part", folder);
    ls_status s = write_all(part, text, err);
    if (!s && rename(part, path))
        s = ls_fail(err, ls_io_status(errno), "cannot rename %s: %s", part, strerror(errno));
    if (s)
        unlink(part);
    else
        sync_folder(folder);
    return s;
}

ls_status ls_manifest_write(const struct ls_manifest *m, const char *folder, struct ls_err *err)
{
    struct writer w = { .root = json_object() };
    char *text = NULL;
    if (w.root) {
        fill(&w, m);
        text = w.failed ? NULL : json_dumps(w.root, JSON_INDENT(2));
    }
    const ls_status s = text ? replace(folder, text, err)
                             : ls_fail(err, LS_E_MEMORY, "no memory for the manifest");
    free(text);
    json_decref(w.root);
    return s;
}

void ls_manifest_remove(const char *folder)
{
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    unlink(path);
}
