/* --logits: what the files hold, read back by the product's own safetensors reader, that their
 * bytes do not depend on order, and what a folder in use or a failed write does. */
#include "job_script.h"

#include "jobs/logits_files.h"
#include "tensor/safetensors.h"

#include <dirent.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ls_tokenizer *tokenizer;
static char folder[256];

static const char requests[] =
    "{\"id\":\"a\",\"tokens\":[261,97,98,99],\"max_tokens\":3}\n"
    "{\"id\":\"bad\"}\n"
    "{\"id\":\"b\",\"tokens\":[[1,2],[3]],\"n\":2,\"max_tokens\":2,\"ignore_eos\":true,"
    "\"temperature\":1}\n"
    "{\"id\":\"nan\",\"tokens\":[262,1,1],\"max_tokens\":2}\n"
    "{\"id\":\"none\",\"tokens\":[5,6],\"max_tokens\":0}\n"
    "{\"id\":\"q\\\"\\u00e9#7\",\"tokens\":[5],\"max_tokens\":1}\n"
    "{\"id\":\"__metadata__\",\"tokens\":[5],\"max_tokens\":1}\n";

static void run(struct script_job *j, enum ls_logits_rows rows, enum ls_logits_format format,
                uint64_t seed, const char *input)
{
    *j = (struct script_job){ .tokenizer = tokenizer,
                              .script = { .seed = seed, .max_running = 1 + (int)(seed % 7) } };
    j->config.logits_dir = rig_in(folder, "logits");
    j->config.logits_rows = rows;
    j->config.logits_format = format;
    if (script_job(j, folder, input, strlen(input)))
        fail_msg("%s", j->err.text);
}

static json_t *read_index(void)
{
    size_t n;
    char *text = rig_slurp(rig_in(folder, "logits/index.json"), &n);
    assert_non_null(text);
    json_t *index = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    assert_non_null(index);
    free(text);
    return index;
}

/* The tensor that an index entry names; *image is to be freed after it was looked at. */
static struct ls_tensor find_tensor(const json_t *entry, struct ls_arena *arena, char **image)
{
    char name[512];
    size_t size, n;
    struct ls_tensor *tensors;
    struct ls_err err = { 0 };
    snprintf(name, sizeof name, "logits/%s", json_string_value(json_object_get(entry, "file")));
    *image = rig_slurp(rig_in(folder, name), &size);
    assert_non_null(*image);
    if (ls_safetensors_parse(*image, size, arena, &tensors, &n, &err))
        fail_msg("%s: %s", name, err.text);
    const char *wanted = json_string_value(json_object_get(entry, "tensor"));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, wanted))
            return tensors[i];
    fail_msg("%s is not in %s", wanted, name);
    return (struct ls_tensor){ 0 };
}

/* An entry's rows are those of positions first.. of these tokens. */
static void holds(const json_t *entry, const int32_t *tokens, uint32_t n_prompt, uint32_t first,
                  uint32_t rows)
{
    struct ls_arena arena;
    char *image;
    assert_int_equal(json_integer_value(json_object_get(entry, "first_position")), first);
    assert_int_equal(json_integer_value(json_object_get(entry, "rows")), rows);
    ls_arena_init(&arena);
    struct ls_tensor t = find_tensor(entry, &arena, &image);
    assert_int_equal(t.dtype, LS_DTYPE_F32);
    assert_int_equal(t.n_dims, 2);
    assert_int_equal(t.dims[0], rows);
    assert_int_equal(t.dims[1], RIG_VOCAB);
    for (uint32_t r = 0; r < rows; r++) {
        float row[RIG_VOCAB];
        script_row(row, tokens, first + r, n_prompt);
        assert_memory_equal(row, t.data + r * sizeof row, sizeof row);
    }
    ls_arena_finish(&arena);
    free(image);
}

static const json_t *choice_of(const json_t *index, const char *id, size_t k)
{
    return json_array_get(json_object_get(json_object_get(index, id), "choices"), k);
}

static void rows_and_positions(void **state)
{
    (void)state;
    static const struct {
        enum ls_logits_rows rows;
        uint32_t first, n;
    } cases[] = { { LS_ROWS_ALL, 0, 6 },
                  { LS_ROWS_PROMPT, 0, 4 },
                  { LS_ROWS_GENERATED, 3, 3 },
                  { LS_ROWS_LAST, 3, 1 } };
    const int32_t a[] = { 261, 97, 98, 99, 97, 98, 99 };
    for (size_t i = 0; i < 4; i++) {
        struct script_job j;
        run(&j, cases[i].rows, LS_LOGITS_SAFETENSORS, i, requests);
        json_t *index = read_index();
        assert_int_equal(json_object_size(index), 5);
        holds(json_object_get(index, "a"), a, 4, cases[i].first, cases[i].n);
        assert_null(json_object_get(index, "nan"));
        assert_null(json_object_get(index, "bad"));
        json_decref(index);
    }
}

static void choices_and_names(void **state)
{
    (void)state;
    struct script_job j;
    run(&j, LS_ROWS_ALL, LS_LOGITS_SAFETENSORS, 3, requests);
    json_t *index = read_index(), *row = script_result(folder, 2);
    const json_t *each = json_object_get(json_object_get(row, "lockstep"), "choices");
    static const char *const names[] = { "b", "b#1", "b#2", "b#3" };
    for (size_t k = 0; k < 4; k++) {
        const json_t *entry = choice_of(index, "b", k);
        const json_t *ids = json_object_get(json_array_get(each, k), "token_ids");
        const int32_t first = (int32_t)json_integer_value(json_array_get(ids, 0));
        const int32_t two[] = { 1, 2, first }, one[] = { 3, first };
        assert_string_equal(json_string_value(json_object_get(entry, "tensor")), names[k]);
        if (k < 2)
            holds(entry, two, 2, 0, 3);
        else
            holds(entry, one, 1, 0, 2);
    }
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(index, "__metadata__"), "tensor")),
        "__metadata__#0");
    json_decref(row);
    json_decref(index);
}

/* Names that could be confused stay apart. */
static void names_are_unique(void **state)
{
    (void)state;
    struct script_job j;
    run(&j, LS_ROWS_LAST, LS_LOGITS_SAFETENSORS, 0,
        "{\"id\":\"a\",\"tokens\":[1],\"n\":2,\"max_tokens\":1}\n"
        "{\"id\":\"a#1\",\"tokens\":[2],\"n\":2,\"max_tokens\":1}\n"
        "{\"id\":\"a#1#1\",\"tokens\":[3],\"max_tokens\":1}\n");
    json_t *index = read_index();
    const int32_t two[] = { 2 }, three[] = { 3 };
    holds(json_object_get(index, "a#1"), two, 1, 0, 1);
    holds(json_object_get(index, "a#1#1"), three, 1, 0, 1);
    assert_string_equal(
        json_string_value(json_object_get(choice_of(index, "a#1", 0), "tensor")), "a#1#0");
    json_decref(index);
}

/* Enough tensors to fill a header several times. */
static void several_shards(void **state)
{
    (void)state;
    enum { N = 2000 };
    char *input = malloc(N * 64);
    int at = 0;
    for (int i = 0; i < N; i++)
        at += sprintf(input + at, "{\"id\":\"%d\",\"tokens\":[%d],\"max_tokens\":1}\n", i,
                      i % 256);
    struct script_job j;
    run(&j, LS_ROWS_LAST, LS_LOGITS_SAFETENSORS, 5, input);
    json_t *index = read_index();
    assert_int_equal(json_object_size(index), N);
    for (int i = 0; i < N; i += 97) {
        char id[16];
        const int32_t token = i % 256;
        snprintf(id, sizeof id, "%d", i);
        holds(json_object_get(index, id), &token, 1, 0, 1);
    }
    assert_string_equal(json_string_value(json_object_get(json_object_get(index, "0"), "file")),
                        "logits-00001.safetensors");
    assert_string_not_equal(
        json_string_value(json_object_get(json_object_get(index, "1999"), "file")),
        "logits-00001.safetensors");
    json_decref(index);
    free(input);
}

static void npy_files(void **state)
{
    (void)state;
    struct script_job j;
    run(&j, LS_ROWS_ALL, LS_LOGITS_NPY, 2, requests);
    json_t *index = read_index();
    const json_t *entry = json_object_get(index, "a");
    const int32_t a[] = { 261, 97, 98, 99, 97, 98, 99 };
    size_t n;
    assert_string_equal(json_string_value(json_object_get(entry, "file")), "00000001-0.npy");
    assert_true(json_is_null(json_object_get(entry, "tensor")));
    char *text = rig_slurp(rig_in(folder, "logits/00000001-0.npy"), &n);
    assert_int_equal(n, LS_NPY_HEADER + 6 * RIG_VOCAB * 4);
    assert_memory_equal(text,
                        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (6, 264), }",
                        10 + 60);
    assert_int_equal(text[LS_NPY_HEADER - 1], '\n');
    for (uint32_t r = 0; r < 6; r++) {
        float row[RIG_VOCAB];
        script_row(row, a, r, 4);
        assert_memory_equal(row, text + LS_NPY_HEADER + r * sizeof row, sizeof row);
    }
    free(text);
    json_decref(index);
}

/* Digest of every file of the folder, by name. */
static void folder_digest(unsigned char digest[32], int *n_files)
{
    struct dirent **names;
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 32);
    int n = scandir(rig_in(folder, "logits"), &names, NULL, alphasort);
    *n_files = n - 2;
    for (int i = 0; i < n; i++) {
        char path[512];
        size_t size;
        snprintf(path, sizeof path, "logits/%s", names[i]->d_name);
        char *text = names[i]->d_name[0] == '.' ? NULL : rig_slurp(rig_in(folder, path), &size);
        if (text) {
            crypto_generichash_update(&state, (unsigned char *)path, strlen(path));
            crypto_generichash_update(&state, (unsigned char *)text, size);
        }
        free(text);
        free(names[i]);
    }
    free(names);
    crypto_generichash_final(&state, digest, 32);
}

static void same_bytes_in_any_order(void **state)
{
    (void)state;
    unsigned char first[32], digest[32];
    int n;
    for (int format = 0; format < 2; format++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct script_job j;
            run(&j, LS_ROWS_ALL, (enum ls_logits_format)format, seed, requests);
            folder_digest(seed ? digest : first, &n);
            /* the other format's files, the spool and the lock are gone */
            assert_int_equal(n, format == LS_LOGITS_NPY ? 8 + 1 : 1 + 1);
            if (seed)
                assert_memory_equal(digest, first, 32);
        }
}

static void other_files_are_left_alone(void **state)
{
    (void)state;
    struct ls_job *job;
    struct ls_err err = { 0 };
    const char *dir = rig_in(folder, "mine");
    assert_int_equal(mkdir(dir, 0777), 0);
    rig_write(rig_in(folder, "mine/model.safetensors"), "x", 1);
    rig_write(rig_in(folder, "in.jsonl"), "{}\n", 3);
    const struct ls_job_config config = { .input = rig_in(folder, "in.jsonl"),
                                          .output = rig_in(folder, "out.jsonl"),
                                          .fresh = true,
                                          .logits_dir = dir };
    assert_int_equal(ls_job_create(&job, &config, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "model.safetensors"));
}

static void folder_in_use(void **state)
{
    (void)state;
    struct ls_job *job, *other;
    struct ls_err err = { 0 };
    rig_write(rig_in(folder, "in.jsonl"), "{}\n", 3);
    struct ls_job_config config = { .input = rig_in(folder, "in.jsonl"),
                                    .output = rig_in(folder, "one.jsonl"),
                                    .logits_dir = rig_in(folder, "shared") };
    assert_int_equal(ls_job_create(&job, &config, &err), LS_OK);
    config.output = rig_in(folder, "two.jsonl");
    assert_int_equal(ls_job_create(&other, &config, &err), LS_E_REFUSED);
    assert_non_null(strstr(err.text, "logits folder"));
    ls_job_destroy(job);
    assert_int_not_equal(access(rig_in(folder, "shared"), F_OK), 0);
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
        cmocka_unit_test(rows_and_positions),
        cmocka_unit_test(choices_and_names),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(several_shards),
        cmocka_unit_test(npy_files),
        cmocka_unit_test(same_bytes_in_any_order),
        cmocka_unit_test(other_files_are_left_alone),
        cmocka_unit_test(folder_in_use),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
