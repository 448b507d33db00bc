#include "app/sweep_result.h"

#include "parity/external.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

bool ls_sweep_has_phase(const struct ls_sweep_run *run, size_t arm, enum ls_phase phase)
{
    const struct ls_sweep *const sweep = run->sweep;
    if (phase == LS_PHASE_FORCED)
        return sweep->mode != LS_SWEEP_FREE;
    if (sweep->arms[arm].dump)
        return false;
    return arm == 0 || sweep->mode != LS_SWEEP_FORCED; /* the reference says what is forced */
}

bool ls_sweep_has_logits(const struct ls_sweep_run *run, size_t arm, enum ls_phase phase)
{
    return ls_sweep_has_phase(run, arm, phase) &&
           (phase == LS_PHASE_FORCED || run->sweep->mode != LS_SWEEP_FORCED);
}

/* --- failures --------------------------------------------------------------------------------
 */

static bool has_letter(const char *line)
{
    for (; *line; line++)
        if (isalpha((unsigned char)*line))
            return true;
    return false;
}

/* The line of a log that says what went wrong: the first of ours that is no warning, else the
 * first one with a letter: launchers draw rules above and below theirs. */
static void find_line(char out[LS_ERR_TEXT], const char *log)
{
    char line[LS_ERR_TEXT];
    FILE *const f = fopen(log, "re");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        const bool ours = !strncmp(line, "lockstep: ", 10);
        line[strcspn(line, "\r\n")] = 0;
        if (ours && !strncmp(line + 10, "warning: ", 9))
            continue;
        if (ours || (!out[0] && has_letter(line)))
            snprintf(out, LS_ERR_TEXT, "%s", line);
        if (ours)
            break;
    }
    if (f)
        fclose(f);
}

/* text with every `from` replaced by `to`, in the run's arena. */
static const char *replace(struct ls_sweep_run *run, const char *text, const char *from,
                           const char *to)
{
    char out[2 * LS_ERR_TEXT];
    size_t n = 0;
    while (*text && n < sizeof out - 1) {
        if (strncmp(text, from, strlen(from)) != 0) {
            out[n++] = *text++;
            continue;
        }
        n += (size_t)snprintf(out + n, sizeof out - n, "%s", to);
        n = n < sizeof out ? n : sizeof out - 1;
        text += strlen(from);
    }
    const char *const copy = ls_arena_text(&run->arena, out, n);
    return copy ? copy : "no memory for the reason";
}

static const char *reason_of(struct ls_sweep_run *run, const char *place, const char *attempt,
                             const char *text)
{
    char whole[64];
    snprintf(whole, sizeof whole, "{output}/%s", place);
    const char *const moved = attempt ? replace(run, text, attempt, whole) : text;
    return replace(run, moved, run->folder.path, "{output}");
}

const char *ls_sweep_place(char out[LS_SWEEP_PLACE], size_t arm, enum ls_phase phase)
{
    snprintf(out, LS_SWEEP_PLACE, "arms/%03zu/%s", arm, ls_phase_name(phase));
    return out;
}

const char *ls_sweep_reason(struct ls_sweep_run *run, const char *place, const char *attempt,
                            int status)
{
    char log[LS_SWEEP_PATH + 16], line[LS_ERR_TEXT], text[LS_ERR_TEXT + 64];
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0 || code == 10) /* error rows are results */
        return NULL;
    snprintf(log, sizeof log, "%s/log.txt", attempt);
    find_line(line, log);
    const char *const said = !strncmp(line, "lockstep: ", 10) ? line + 10 : line;
    if (code >= 0)
        snprintf(text, sizeof text, "exit code %d%s%s", code, *said ? ": " : "", said);
    else
        snprintf(text, sizeof text, "ended by signal %d%s%s",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0, *said ? ": " : "", said);
    return reason_of(run, place, attempt, text);
}

/* --- logits ----------------------------------------------------------------------------------
 */

static ls_status open_mapped(struct ls_dump **out, const struct ls_sweep_run *run,
                             const struct ls_arm *arm, struct ls_err *err)
{
    struct ls_external external;
    const struct ls_passages *const truth = &run->truth.forced;
    if (!arm->mapping)
        return ls_dump_open(out, arm->dump, err);
    ls_status s = ls_external_read(&external, arm->mapping, err);
    if (s)
        return s;
    const char **const ids = malloc((truth->n + 1) * sizeof *ids);
    uint64_t *const numbers = malloc((truth->n + 1) * sizeof *numbers);
    for (size_t i = 0; ids && numbers && i < truth->n; i++) {
        ids[i] = truth->list[i].name;
        numbers[i] = truth->list[i].number;
    }
    s = ids && numbers
            ? ls_external_open(out, &external, arm->dump, ids, numbers, truth->n, err)
            : ls_fail(err, LS_E_MEMORY, "no memory for the names of a dump");
    free(ids);
    free(numbers);
    ls_external_finish(&external);
    return s;
}

/* Of a finished reference (attempt NULL), or of an attempt. */
static ls_status open_logits(struct ls_dump **out, const struct ls_sweep_run *run, size_t arm,
                             enum ls_phase phase, const char *attempt, struct ls_err *err)
{
    char path[LS_SWEEP_PATH + 16];
    if (run->sweep->arms[arm].dump)
        return open_mapped(out, run, &run->sweep->arms[arm], err);
    if (attempt)
        snprintf(path, sizeof path, "%s/logits", attempt);
    else
        ls_sweep_file(&run->folder, path, "logits/000-%s", ls_phase_name(phase));
    return ls_dump_open(out, path, err);
}

static json_t *token_text(void *arg, int32_t id)
{
    struct ls_err err;
    struct ls_bytes text = { 0 };
    const struct ls_tokenizer *const tokenizer = arg;
    json_t *json = NULL;
    if (tokenizer && !ls_tokenizer_token_text(tokenizer, id, &text, &err))
        json = json_stringn(text.n ? (const char *)text.data : "", text.n);
    ls_bytes_finish(&text);
    return json ? json : json_null();
}

struct taking {
    struct ls_sweep_run *run;
    size_t arm;
    enum ls_phase phase;
    const char *attempt;
    bool own_fault; /* a failure is the sweep's and not the arm's */
};

static ls_status open_store(struct taking *t, struct ls_store_writer **store,
                            struct ls_dump *reference, struct ls_err *err)
{
    struct ls_sweep_run *const run = t->run;
    char path[LS_SWEEP_PATH], base[32];
    unsigned char *const digest = run->digests[t->phase];
    ls_status s = LS_OK;
    if (!run->has_digest[t->phase])
        s = ls_dump_digest(reference, digest, err);
    if (s)
        return s;
    run->has_digest[t->phase] = true;
    snprintf(base, sizeof base, "000-%s", ls_phase_name(t->phase));
    ls_sweep_file(&run->folder, path, "logits/%03zu-%s.diff", t->arm, ls_phase_name(t->phase));
    s = ls_store_create(store, path, base, digest, err);
    t->own_fault = s != LS_OK;
    return s;
}

static ls_status compare(struct taking *t, const struct ls_passages *rows, json_t **comparison,
                         struct ls_err *err)
{
    struct ls_sweep_run *const run = t->run;
    struct ls_dump *reference = NULL, *arm = NULL;
    struct ls_arm_result *const result = calloc(1, sizeof *result);
    struct ls_store_writer *store = NULL;
    const bool keep = t->arm && t->attempt && !run->sweep->arms[0].dump;
    ls_status s = result ? open_logits(&arm, run, t->arm, t->phase, t->attempt, err)
                         : ls_fail(err, LS_E_MEMORY, "no memory for a comparison");
    if (!s)
        s = open_logits(&reference, run, 0, t->phase, t->arm ? NULL : t->attempt, err);
    if (!s && keep)
        s = open_store(t, &store, reference, err);
    const struct ls_arm_input in = {
        .reference = reference,
        .arm = arm,
        .truth = t->phase == LS_PHASE_FREE ? &run->truth.free_run : &run->truth.forced,
        .rows = rows,
        .free_run = t->phase == LS_PHASE_FREE,
        .store = store,
    };
    if (!s)
        s = ls_arm_compare(result, &in, err);
    if (!s && keep) {
        s = ls_store_close(store, err);
        store = NULL;
        t->own_fault = s != LS_OK;
    }
    if (!s) {
        *comparison = ls_report_comparison(result, reference, token_text, run->truth.tokenizer);
        if (!*comparison)
            s = ls_fail(err, LS_E_MEMORY, "no memory for a comparison");
    }
    ls_store_abandon(store);
    ls_dump_close(arm);
    ls_dump_close(reference);
    if (result)
        ls_arm_result_finish(result);
    free(result);
    return s;
}

/* --- what is kept ----------------------------------------------------------------------------
 */

static ls_status move(const char *from, const char *name, const char *to, struct ls_err *err)
{
    char path[LS_SWEEP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", from, name);
    if (!rename(path, to))
        return LS_OK;
    const int error = errno;
    return ls_fail(err, ls_io_status(error), "%s cannot become %s: %s", path, to,
                   strerror(error));
}

static ls_status keep_files(const struct taking *t, struct ls_err *err)
{
    static const char *const from[] = { "rows.jsonl", "rows.jsonl.lockstep/manifest.json",
                                        "log.txt" };
    static const char *const to[] = { "rows.jsonl", "manifest.json", "log.txt" };
    const struct ls_sweep_folder *const f = &t->run->folder;
    char path[LS_SWEEP_PATH];
    mkdir(ls_sweep_file(f, path, "arms/%03zu", t->arm), 0777);
    mkdir(ls_sweep_file(f, path, "arms/%03zu/%s", t->arm, ls_phase_name(t->phase)), 0777);
    ls_status s = LS_OK;
    for (int i = 0; !s && i < 3; i++) {
        ls_sweep_file(f, path, "arms/%03zu/%s/%s", t->arm, ls_phase_name(t->phase), to[i]);
        s = move(t->attempt, from[i], path, err);
    }
    if (!s && !t->arm && ls_sweep_has_logits(t->run, 0, t->phase)) {
        ls_sweep_file(f, path, "logits/000-%s", ls_phase_name(t->phase));
        ls_remove_tree(path);
        s = move(t->attempt, "logits", path, err);
    }
    return s;
}

/* What the manifest of a run says about its time. */
static json_t *facts_of(const char *attempt, double wall_s)
{
    char path[LS_SWEEP_PATH + 64];
    if (!attempt)
        return json_pack("{s:f}", "wall_s", wall_s);
    snprintf(path, sizeof path, "%s/rows.jsonl.lockstep/manifest.json", attempt);
    json_t *const manifest = json_load_file(path, 0, NULL);
    json_t *const facts = json_pack("{s:f, s:O?, s:O?}", "wall_s", wall_s, "times",
                                    json_object_get(manifest, "times"), "tokens",
                                    json_object_get(manifest, "tokens"));
    json_decref(manifest);
    return facts;
}

static void hold(struct ls_sweep_run *run, size_t arm, enum ls_phase phase, json_t *comparison,
                 json_t *facts)
{
    struct ls_outcome *const o = &run->outcomes[arm];
    char path[64];
    json_decref(o->comparison[phase]);
    json_decref(run->facts[phase][arm]);
    o->comparison[phase] = comparison;
    run->facts[phase][arm] = facts;
    if (run->sweep->arms[arm].dump)
        return;
    const int n =
        snprintf(path, sizeof path, "arms/%03zu/%s/manifest.json", arm, ls_phase_name(phase));
    o->manifest[phase] = ls_arena_text(&run->arena, path, (size_t)n);
    if (!comparison)
        return;
    const int k = snprintf(path, sizeof path, "logits/%03zu-%s%s", arm, ls_phase_name(phase),
                           arm ? ".diff" : "");
    o->store[phase] =
        arm && run->sweep->arms[0].dump ? NULL : ls_arena_text(&run->arena, path, (size_t)k);
}

static ls_status record(struct taking *t, json_t *comparison, double wall_s, struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    json_t *const facts = facts_of(t->attempt, wall_s);
    t->own_fault = true;
    ls_status s = facts ? LS_OK : ls_fail(err, LS_E_MEMORY, "no memory for a result");
    if (!s && t->attempt)
        s = keep_files(t, err);
    json_t *const result = json_pack("{s:O?, s:O?}", "comparison", comparison, "facts", facts);
    ls_sweep_file(&t->run->folder, path, "results/%03zu-%s", t->arm, ls_phase_name(t->phase));
    if (!s)
        s = ls_write_json(path, result, err);
    json_decref(result);
    if (!s)
        hold(t->run, t->arm, t->phase, json_incref(comparison), json_incref(facts));
    json_decref(facts);
    return s;
}

/* The prompts' ids are known when the reference has run, or at once when it is a dump. */
static ls_status read_truth(struct taking *t, struct ls_err *err)
{
    char forced[LS_SWEEP_PATH], rows[LS_SWEEP_PATH + 16];
    struct ls_sweep_run *const run = t->run;
    if (run->truth.free_run.n || t->arm)
        return LS_OK;
    if (t->attempt)
        snprintf(rows, sizeof rows, "%s/rows.jsonl", t->attempt);
    else
        ls_sweep_file(&run->folder, rows, "arms/000/free/rows.jsonl");
    ls_sweep_file(&run->folder, forced, "forced.jsonl");
    return ls_sweep_truth_read(&run->truth, run->sweep->prompts,
                               run->sweep->arms[0].dump ? NULL : rows, forced, err);
}

/* Of the reference's forced run, in its attempt or in its place. */
static ls_status read_digests(struct ls_sweep_run *run, const char *attempt, struct ls_err *err)
{
    struct ls_passages rows;
    char path[LS_SWEEP_PATH + 16];
    ls_passages_init(&rows);
    if (attempt)
        snprintf(path, sizeof path, "%s/rows.jsonl", attempt);
    else
        ls_sweep_file(&run->folder, path, "arms/000/forced/rows.jsonl");
    ls_status s = ls_passages_read_rows(&rows, path, err);
    if (!s)
        s = ls_sweep_truth_digests(&run->truth, &rows, err);
    ls_passages_finish(&rows);
    return s;
}

ls_status ls_sweep_take(struct ls_sweep_run *run, size_t arm, enum ls_phase phase,
                        const char *attempt, double wall_s, struct ls_err *err)
{
    struct taking t = { .run = run, .arm = arm, .phase = phase, .attempt = attempt };
    struct ls_passages rows;
    char path[LS_SWEEP_PATH + 16], place[LS_SWEEP_PLACE];
    json_t *comparison = NULL;
    ls_passages_init(&rows);
    ls_status s = read_truth(&t, err);
    snprintf(path, sizeof path, "%s/rows.jsonl", attempt ? attempt : "");
    if (!s && attempt)
        s = ls_passages_read_rows(&rows, path, err);
    if (!s && attempt && !arm && phase == LS_PHASE_FORCED)
        s = read_digests(run, attempt, err);
    if (!s && ls_sweep_has_logits(run, arm, phase))
        s = compare(&t, attempt ? &rows : NULL, &comparison, err);
    if (!s)
        s = record(&t, comparison, wall_s, err);
    json_decref(comparison);
    ls_passages_finish(&rows);
    if (s && arm && !t.own_fault && s != LS_E_MEMORY) {
        run->outcomes[arm].reason =
            reason_of(run, ls_sweep_place(place, arm, phase), attempt, err->text);
        return LS_OK;
    }
    return s;
}

bool ls_sweep_take_recorded(struct ls_sweep_run *run, size_t arm, enum ls_phase phase)
{
    struct ls_err err;
    char path[LS_SWEEP_PATH];
    struct taking t = { .run = run, .arm = arm, .phase = phase };
    ls_sweep_file(&run->folder, path, "results/%03zu-%s", arm, ls_phase_name(phase));
    json_t *const result = json_load_file(path, 0, NULL);
    if (!result)
        return false;
    json_t *const comparison = json_object_get(result, "comparison");
    ls_status s = read_truth(&t, &err);
    if (!s && !arm && phase == LS_PHASE_FORCED && !run->sweep->arms[0].dump)
        s = read_digests(run, NULL, &err);
    if (s) {
        json_decref(result);
        return false;
    }
    hold(run, arm, phase, json_is_object(comparison) ? json_incref(comparison) : NULL,
         json_incref(json_object_get(result, "facts")));
    json_decref(result);
    return true;
}
