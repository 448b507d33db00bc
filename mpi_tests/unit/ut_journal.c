/* The journal: records come back as they went in, a torn or changed one ends it, a failed write
 * leaves whole records; and jobs that were stopped anywhere end in the bytes of one that was
 * not. */
#include "job_script.h"

#include "base/philox.h"
#include "jobs/identity.h"
#include "jobs/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_ROWS = 50 };

static struct ls_tokenizer *tokenizer;
static char folder[256];

/* --- records ---------------------------------------------------------------------------------
 */

static struct ls_row_record record_of(uint32_t i)
{
    struct ls_row_record rec = { .line = i + 1,
                                 .prompt_tokens = 3 * (uint64_t)i,
                                 .generated_tokens = i,
                                 .is_error = i % 7 == 3,
                                 .has_id = i % 2 == 0,
                                 .n_row = 10 + i * i * 3,
                                 .n_places = i % 3,
                                 .n_id = i % 5 };
    memset(rec.line_digest, (int)i, sizeof rec.line_digest);
    memset(rec.logits_digest, (int)i + 1, sizeof rec.logits_digest);
    if (rec.has_id)
        memset(rec.id_digest, (int)i + 2, sizeof rec.id_digest);
    return rec;
}

static void put(struct ls_journal *j, uint32_t i, uint64_t *off)
{
    char row[10 + N_ROWS * N_ROWS * 3];
    struct ls_place places[3] = { { i, 1 }, { i + 1, 2 } };
    const struct ls_row_record rec = record_of(i);
    memset(row, 'a' + (int)(i % 26), rec.n_row);
    assert_int_equal(ls_journal_put_row(j, &rec, row, places, "abcdef", off, NULL), LS_OK);
}

static void check(struct ls_journal *j, uint32_t i, uint64_t off)
{
    struct ls_row_record got, want = record_of(i);
    struct ls_out buffer = { 0 };
    const unsigned char *payload;
    assert_int_equal(ls_journal_get(j, off, &got, &buffer, &payload, NULL), LS_OK);
    assert_int_equal(got.line, want.line);
    assert_int_equal(got.prompt_tokens, want.prompt_tokens);
    assert_int_equal(got.generated_tokens, want.generated_tokens);
    assert_int_equal(got.is_error, want.is_error);
    assert_int_equal(got.has_id, want.has_id);
    assert_int_equal(got.n_row, want.n_row);
    assert_memory_equal(got.line_digest, want.line_digest, 32);
    assert_memory_equal(got.logits_digest, want.logits_digest, 32);
    assert_memory_equal(got.id_digest, want.id_digest, LS_ID_BYTES);
    for (uint32_t b = 0; b < want.n_row; b++)
        assert_int_equal(payload[LS_ROW_FIXED_BYTES + b], 'a' + i % 26);
    const unsigned char *at = payload + LS_ROW_FIXED_BYTES + want.n_row;
    for (uint32_t p = 0; p < want.n_places; p++) {
        struct ls_place place;
        ls_place_get(&place, at + p * LS_PLACE_BYTES);
        assert_int_equal(place.rows, i + p);
        assert_int_equal(place.first_row, 1 + p);
    }
    assert_memory_equal(at + want.n_places * LS_PLACE_BYTES, "abcdef", want.n_id);
    ls_out_finish(&buffer);
}

struct seen {
    uint64_t off[N_ROWS];
    uint32_t n;
    bool identity;
};

static ls_status see(void *arg, uint64_t off, const struct ls_row_record *row, const char *text,
                     size_t n, struct ls_err *err)
{
    (void)err;
    struct seen *s = arg;
    if (!row) {
        assert_int_equal(n, 4);
        assert_memory_equal(text, "{id}", 4);
        s->identity = true;
        return LS_OK;
    }
    assert_true(s->identity && s->n < N_ROWS);
    assert_int_equal(row->line, s->n + 1);
    s->off[s->n++] = off;
    return LS_OK;
}

static void make_journal(uint64_t off[N_ROWS])
{
    struct ls_journal j;
    assert_int_equal(ls_journal_create(&j, folder, "{id}", 4, NULL), LS_OK);
    for (uint32_t i = 0; i < N_ROWS; i++) {
        put(&j, i, &off[i]);
        if (i % 9 == 8)
            assert_int_equal(ls_journal_commit(&j, NULL), LS_OK);
        check(&j, i, off[i]);
        check(&j, i / 2, off[i / 2]);
    }
    assert_int_equal(ls_journal_commit(&j, NULL), LS_OK);
    assert_int_equal(ls_journal_pending(&j), 0);
    ls_journal_close(&j);
}

static uint32_t scan(uint64_t *torn, ls_status expected)
{
    struct ls_journal j;
    struct seen s = { .n = 0 };
    bool there;
    assert_int_equal(ls_journal_open(&j, folder, true, &there, NULL), LS_OK);
    assert_true(there);
    assert_int_equal(ls_journal_scan(&j, see, &s, torn, NULL), expected);
    for (uint32_t i = 0; i < s.n; i++)
        check(&j, i, s.off[i]);
    ls_journal_close(&j);
    return s.n;
}

static void records_come_back(void **state)
{
    (void)state;
    uint64_t off[N_ROWS], torn = 9;
    make_journal(off);
    assert_int_equal(scan(&torn, LS_OK), N_ROWS);
    assert_int_equal(torn, 0);
    struct ls_journal j;
    bool there;
    assert_int_equal(ls_journal_open(&j, "/nowhere", true, &there, NULL), LS_OK);
    assert_false(there);
}

/* Cut at every kind of place: what is whole stays. */
static void torn_tails(void **state)
{
    (void)state;
    uint64_t off[N_ROWS], torn;
    size_t n;
    make_journal(off);
    char *path = strdup(rig_in(folder, "journal")), *whole = rig_slurp(path, &n);
    for (uint64_t k = 0; k < 300; k++) {
        const uint64_t at = 1 + (uint64_t)(ls_philox_uniform(5, k) * (double)(n - 1));
        uint32_t expected = 0;
        while (expected < N_ROWS && (expected + 1 < N_ROWS ? off[expected + 1] : n) <= at)
            expected++;
        rig_write(path, whole, at);
        const bool nothing = at < off[0];
        assert_int_equal(scan(&torn, nothing ? LS_E_REFUSED : LS_OK), nothing ? 0 : expected);
        if (!nothing)
            assert_int_equal(torn,
                             at - (expected ? expected < N_ROWS ? off[expected] : n : off[0]));
    }
    free(whole);
    free(path);
}

/* A changed byte ends the journal in front of its record. */
static void changed_bytes(void **state)
{
    (void)state;
    uint64_t off[N_ROWS], torn;
    size_t n;
    make_journal(off);
    char *path = strdup(rig_in(folder, "journal")), *whole = rig_slurp(path, &n);
    for (uint64_t k = 0; k < 300; k++) {
        const uint64_t at = off[0] + (uint64_t)(ls_philox_uniform(6, k) * (double)(n - off[0]));
        uint32_t expected = 0;
        while (expected + 1 < N_ROWS && off[expected + 1] <= at)
            expected++;
        whole[at] = (char)(whole[at] ^ (1 << k % 8));
        rig_write(path, whole, n);
        assert_int_equal(scan(&torn, LS_OK), expected);
        assert_int_equal(torn, n - off[expected]);
        whole[at] = (char)(whole[at] ^ (1 << k % 8));
    }
    free(whole);
    free(path);
}

/* A group that does not fit leaves the groups before it. */
static void disk_full(void **state)
{
    (void)state;
    enum { LIMIT = 20000 };
    pid_t child = fork();
    if (child == 0) {
        struct ls_journal j;
        uint64_t off, good = 0;
        const struct rlimit limit = { .rlim_cur = LIMIT, .rlim_max = LIMIT };
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (ls_journal_create(&j, folder, "{id}", 4, NULL))
            _exit(1);
        for (uint32_t i = 0; i < N_ROWS && !j.failed; i++) {
            put(&j, i, &off);
            good = ls_journal_commit(&j, NULL) ? good : i + 1;
        }
        _exit(j.failed && good < N_ROWS && good > 5 ? (int)good : 1);
    }
    int how;
    uint64_t torn;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) > 5);
    assert_int_equal(scan(&torn, LS_OK), WEXITSTATUS(how));
    assert_int_equal(torn, 0);
}

/* --- identity --------------------------------------------------------------------------------
 */

static void identities(void **state)
{
    (void)state;
    struct ls_identity a = { 0 }, b = { 0 };
    struct ls_err err;
    char *text;
    ls_identity_add(&a, "model", "x");
    ls_identity_add(&a, "seed", "7");
    ls_identity_add(&a, "weight bytes", "w");
    ls_identity_add(&b, "model", "x");
    ls_identity_add(&b, "seed", "7");
    ls_identity_add(&b, "new fact", NULL);
    assert_int_equal(ls_identity_text(&a, &text, NULL), LS_OK);
    assert_int_equal(ls_identity_check(&b, text, strlen(text), "out", &err), LS_OK);
    ls_identity_add(&b, "seed", "8");
    assert_int_equal(ls_identity_check(&b, text, strlen(text), "out", &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "another seed: 7, now 8"));
    ls_identity_add(&b, "seed", "7");
    ls_identity_add(&b, "new fact", "y");
    assert_int_equal(ls_identity_check(&b, text, strlen(text), "out", &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "another new fact: not set, now y"));
    assert_int_equal(ls_identity_check(&b, "[", 1, "out", &err), LS_E_REFUSED);
    free(text);
    ls_identity_finish(&a);
    ls_identity_finish(&b);
}

/* --- jobs ------------------------------------------------------------------------------------
 */

static const char requests[] =
    "{\"id\":\"a\",\"tokens\":[261,97,98,99],\"max_tokens\":3}\n"
    "{\"id\":\"b\",\"tokens\":[[1,2],[3]],\"n\":2,\"max_tokens\":9,\"ignore_eos\":true,"
    "\"temperature\":1}\n"
    "{\"id\":\"bad\"}\n"
    "\n"
    "{\"id\":\"nan\",\"tokens\":[262,1,1],\"max_tokens\":2}\n"
    "{\"id\":\"a\",\"tokens\":[5,6],\"max_tokens\":0}\n"
    "{\"id\":\"c\",\"tokens\":[5],\"max_tokens\":30,\"ignore_eos\":true}\n"
    "{\"id\":\"d\",\"tokens\":[5],\"max_tokens\":1}\n"
    "{\"id\":\"e\",\"tokens\":[6,7],\"max_tokens\":12,\"ignore_eos\":true}";

/* Digest over output, and names and bytes of the logits folder. */
static void result_digest(unsigned char digest[32])
{
    struct dirent **names;
    crypto_generichash_state state;
    size_t size;
    crypto_generichash_init(&state, NULL, 0, 32);
    char *text = rig_slurp(rig_in(folder, "out.jsonl"), &size);
    crypto_generichash_update(&state, (unsigned char *)text, size);
    free(text);
    int n = scandir(rig_in(folder, "logits"), &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "logits/%s", names[i]->d_name);
        text = names[i]->d_name[0] == '.' ? NULL : rig_slurp(rig_in(folder, path), &size);
        if (text) {
            crypto_generichash_update(&state, (unsigned char *)path, strlen(path));
            crypto_generichash_update(&state, (unsigned char *)text, size);
        }
        free(text);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    crypto_generichash_final(&state, digest, 32);
}

static ls_status run(struct script_job *j, int logits, bool resume, uint64_t seed,
                     uint64_t stop_after)
{
    *j = (struct script_job){
        .tokenizer = tokenizer,
        .resume = resume,
        .script = { .seed = seed, .max_running = 1 + (int)(seed % 5), .stop_after = stop_after }
    };
    j->config.digest = LS_DIGEST_ALL;
    j->config.logits_dir = logits ? rig_in(folder, "logits") : NULL;
    j->config.logits_format = logits == 2 ? LS_LOGITS_NPY : LS_LOGITS_SAFETENSORS;
    return script_job(j, folder, requests, strlen(requests));
}

/* Stopped over and over, each time elsewhere and in another order, until it is done; once more
 * when it is done. */
static void stopped_anywhere(void **state)
{
    (void)state;
    for (int logits = 0; logits < 3; logits++) {
        unsigned char whole[32], digest[32];
        char rows_digest[68];
        struct script_job j;
        assert_int_equal(run(&j, logits, false, 1, 0), LS_OK);
        result_digest(whole);
        memcpy(rows_digest, j.digest, sizeof rows_digest);
        for (uint64_t seed = 0; seed < 8; seed++) {
            ls_status status = run(&j, logits, false, seed, 1 + seed % 17);
            uint64_t n_rows = j.counts.rows;
            for (uint64_t k = 1; status && k < 200; k++) {
                assert_int_equal(status, LS_E_DRAINED);
                status = run(&j, logits, true, seed + k, 3 + (seed * k + k) % 40 + k);
                assert_true(j.counts.rows >= n_rows && j.counts.resumed_rows == n_rows);
                n_rows = j.counts.rows;
            }
            assert_int_equal(status, LS_OK);
            result_digest(digest);
            assert_memory_equal(digest, whole, 32);
            assert_string_equal(j.digest, rows_digest);
            assert_int_equal(j.counts.rows, 9);
            assert_int_equal(run(&j, logits, true, seed, 1), LS_OK);
            result_digest(digest);
            assert_memory_equal(digest, whole, 32);
        }
    }
}

static void resume_refused(const char *input, const char *words)
{
    struct script_job j = { .tokenizer = tokenizer, .resume = true };
    ls_status status = script_job(&j, folder, input, strlen(input));
    if (status != LS_E_REFUSED || !strstr(j.err.text, words))
        fail_msg("%s: %s; expected a refusal with %s", ls_status_name(status), j.err.text,
                 words);
}

static void other_requests(void **state)
{
    (void)state;
    static const char one[] = "{\"id\":\"a\",\"tokens\":[1]}\n", two[] = "{\"tokens\":[2]}\n",
                      three[] = "{\"tokens\":[3]}\n";
    char input[256];
    struct script_job j = { .tokenizer = tokenizer };
    snprintf(input, sizeof input, "%s%s", one, two);
    assert_int_equal(script_job(&j, folder, input, strlen(input)), LS_OK);
    snprintf(input, sizeof input, "%s%s", one, three);
    resume_refused(input, "line 2 of");
    resume_refused(one, "ends after line 1");
    j = (struct script_job){ .tokenizer = tokenizer, .resume = true };
    j.config.seed = 3;
    assert_int_equal(script_job(&j, folder, input, strlen(input)), LS_E_REFUSED);
    assert_non_null(strstr(j.err.text, "another seed: 0, now 3"));
    /* more lines are more work, and an earlier id is still known */
    snprintf(input, sizeof input, "%s%s%s%s", one, two, one, three);
    j = (struct script_job){ .tokenizer = tokenizer, .resume = true };
    assert_int_equal(script_job(&j, folder, input, strlen(input)), LS_OK);
    assert_int_equal(j.counts.rows, 4);
    assert_int_equal(j.counts.resumed_rows, 2);
    assert_int_equal(j.counts.error_rows, 1);
}

/* Files of logits that were lost cannot be made up. */
static void logits_gone(void **state)
{
    (void)state;
    for (int format = 1; format < 3; format++) {
        struct script_job j;
        assert_int_equal(run(&j, format, false, 0, 50), LS_E_DRAINED);
        const char *name =
            format == 2 ? "logits/00000001-0.npy" : "logits/logits-00001.safetensors.part";
        assert_int_equal(truncate(rig_in(folder, name), 100), 0);
        assert_int_equal(run(&j, format, true, 0, 0), LS_E_REFUSED);
        assert_non_null(strstr(j.err.text, "--fresh"));
    }
}

static int make(void **state)
{
    (void)state;
    tokenizer = rig_tokenizer();
    rig_folder_new(folder);
    return sodium_init() < 0;
}
static int drop(void **state)
{
    (void)state;
    ls_tokenizer_destroy(tokenizer);
    rig_folder_drop(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back), cmocka_unit_test(torn_tails),
        cmocka_unit_test(changed_bytes),     cmocka_unit_test(disk_full),
        cmocka_unit_test(identities),        cmocka_unit_test(stopped_anywhere),
        cmocka_unit_test(other_requests),    cmocka_unit_test(logits_gone),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
