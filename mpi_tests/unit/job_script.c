#include "job_script.h"

#include "base/philox.h"

#include <jansson.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 2 * RIG_CONTEXT + 2, MAX_RUNNING = 64 };

void script_row(float row[RIG_VOCAB], const int32_t *tokens, uint32_t pos, uint32_t n_prompt)
{
    uint64_t h = 1469598103934665603u;
    for (uint32_t i = 0; i <= pos; i++)
        h = (h ^ (uint64_t)(uint32_t)tokens[i]) * 1099511628211u;
    for (int t = 0; t < RIG_VOCAB; t++)
        row[t] = (float)(ls_philox_uniform(h, (uint64_t)t) * 10 - 5);
    if (tokens[0] == RIG_SPECIAL && pos + 1 >= n_prompt) {
        const uint32_t at = pos + 2 - n_prompt;
        row[at < n_prompt ? tokens[at] : RIG_EOS] = 12;
    }
    if (tokens[0] == RIG_NAN && pos == (uint32_t)tokens[1])
        row[5] = NAN;
}

struct sequence {
    struct ls_sequence seq;
    int32_t tokens[MAX_TOKENS];
    uint32_t pos; /* next to be computed */
    uint64_t n_digested;
    crypto_generichash_state digest;
    bool running;
};

static void start(struct sequence *q, const struct ls_sequence *seq)
{
    q->seq = *seq;
    assert_true(seq->n_prompt >= 1 && seq->n_prompt + seq->max_new <= RIG_CONTEXT + 1);
    assert_true(seq->n_send <= seq->n_prompt && seq->n_digest <= seq->n_prompt);
    assert_true(seq->n_send >= 1 || !seq->max_new);
    memcpy(q->tokens, seq->tokens, seq->n_prompt * sizeof(int32_t));
    q->pos = 0;
    q->n_digested = 0;
    q->running = true;
    crypto_generichash_init(&q->digest, NULL, 0, 32);
}

static ls_status end(struct sequence *q, const struct ls_client *client, struct ls_err *err)
{
    unsigned char digest[32];
    crypto_generichash_final(&q->digest, digest, sizeof digest);
    q->running = false;
    return client->done(client->arg, q->seq.id, digest, q->n_digested, err);
}

/* A pipeline reports the layer with the step, which may hold later positions of a prompt too:
 * `early` positions before the first NaN. */
static int32_t nan_layer(const struct sequence *q, uint32_t pos, uint32_t early)
{
    if (q->tokens[0] != RIG_NAN)
        return -1;
    const uint32_t at = (uint32_t)q->tokens[1];
    return pos + (at < q->seq.n_prompt ? early : 0) >= at ? q->tokens[2] - 1 : -1;
}

/* One position. */
static ls_status step(struct sequence *q, const struct ls_client *client, uint32_t early,
                      struct ls_err *err)
{
    float row[RIG_VOCAB];
    const uint32_t n = q->seq.n_prompt, pos = q->pos++;
    const bool in_prompt = pos < n;
    script_row(row, q->tokens, pos, n);
    if (in_prompt ? pos + q->seq.n_digest >= n : q->seq.digest_generated) {
        crypto_generichash_update(&q->digest, (unsigned char *)row, sizeof row);
        q->n_digested++;
    }
    if (in_prompt && pos + q->seq.n_send < n)
        return LS_OK;
    const int32_t layer = nan_layer(q, pos, early);
    const struct ls_logits logits = { .pos = pos, .row = row, .nan_layer = layer };
    enum ls_verdict verdict = LS_GO_ON;
    int32_t token = -1;
    ls_status status = client->logits(client->arg, q->seq.id, &logits, &verdict, &token, err);
    if (status)
        return status;
    if (verdict == LS_FINISH)
        return end(q, client, err);
    if (pos + 1 < n)
        return LS_OK;
    assert_true(token >= 0 && token < RIG_VOCAB && pos + 1 < MAX_TOKENS);
    q->tokens[pos + 1] = token;
    return LS_OK;
}

static uint64_t running(const struct sequence *all, int n)
{
    uint64_t count = 0;
    for (int i = 0; i < n; i++)
        count += all[i].running;
    return count;
}

static ls_status admit(struct script *s, struct sequence *all, const struct ls_client *client,
                       enum ls_next *what)
{
    struct ls_sequence seq = { 0 };
    int at = 0;
    while (all[at].running)
        at++;
    s->n_calls++;
    ls_status status = client->next(client->arg, &seq, what, &s->err);
    if (!status && *what == LS_NEXT_SEQUENCE)
        start(&all[at], &seq);
    return status;
}

ls_status script_run(struct script *s, const struct ls_client *client)
{
    static struct sequence all[MAX_RUNNING];
    uint64_t draws = 0, steps = 0;
    enum ls_next what = LS_NEXT_LATER;
    ls_status status = LS_OK;
    memset(all, 0, sizeof all);
    assert_true(s->max_running >= 1 && s->max_running <= MAX_RUNNING);
    while (!status) {
        bool drain;
        const uint64_t n = running(all, s->max_running);
        s->most_running = n > s->most_running ? n : s->most_running;
        if (what == LS_NEXT_END && !n)
            return LS_OK;
        /* a client that wants to wait must have something to wait for */
        const bool can_admit = what != LS_NEXT_END && n < (uint64_t)s->max_running;
        if (can_admit && (!n || ls_philox_uniform(s->seed, draws++) < 0.3)) {
            status = admit(s, all, client, &what);
            if (!status && !n)
                assert_true(what != LS_NEXT_LATER);
            continue;
        }
        int i = (int)(ls_philox_uniform(s->seed, draws++) * s->max_running);
        if (s->stop_after && steps++ == s->stop_after)
            return ls_fail(&s->err, LS_E_DRAINED, "stopped by the script");
        if (all[i].running)
            status = step(&all[i], client, (uint32_t)(s->seed % 4), &s->err);
        if (!status)
            status = client->tick(client->arg, n, &drain, &s->err);
    }
    return status;
}

ls_status script_job(struct script_job *j, const char *folder, const void *input, size_t n)
{
    struct ls_job *job;
    struct ls_arch arch;
    struct ls_err second = { 0 };
    rig_arch(&arch);
    if (!j->config.input) {
        rig_write(rig_in(folder, "in.jsonl"), input, n);
        j->config.input = rig_in(folder, "in.jsonl");
    }
    if (!j->config.output)
        j->config.output = rig_in(folder, "out.jsonl");
    j->config.fresh = !j->resume;
    j->config.progress = LS_PROGRESS_NONE;
    j->config.model_name = "tiny";
    if (!j->script.max_running)
        j->script.max_running = 1;
    ls_status status = ls_job_create(&job, &j->config, &j->err);
    if (status)
        return status;
    status = ls_job_bind(job, &arch, j->tokenizer, &j->err);
    if (!status) {
        status = script_run(&j->script, ls_job_client(job));
        j->err = j->script.err;
    }
    ls_status last = ls_job_finish(job, &j->counts, status ? &second : &j->err);
    ls_job_digest(job, j->digest);
    ls_job_destroy(job);
    return status ? status : last;
}

struct json_t *script_result(const char *folder, size_t i)
{
    size_t n;
    char *text = rig_slurp(rig_in(folder, "out.jsonl"), &n), *line = text;
    assert_non_null(text);
    for (; i && line; i--) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    assert_non_null(line);
    json_error_t why;
    json_t *row = json_loadb(line, strcspn(line, "\n"), JSON_REJECT_DUPLICATES, &why);
    if (!row)
        fail_msg("%s in %.200s", why.text, line);
    free(text);
    return row;
}
