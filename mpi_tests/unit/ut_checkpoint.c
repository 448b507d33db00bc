/* Checkpoint folders: every kind of damage is found when the folder is opened, and its one line
 * names the file and, where there is one, the tensor. */
#include "model_rig.h"

#include "tensor/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX       "model.safetensors.index.json"
#define SHARD1      "model-00001-of-00003.safetensors"
#define SHARD2      "model-00002-of-00003.safetensors"
#define SHARD3      "model-00003-of-00003.safetensors"
#define ENTRY(name) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void expect_refused(const struct rig_folder *f, ls_status status, const char *says,
                           const char *file, const char *tensor)
{
    struct ls_err err = { 0 };
    struct ls_checkpoint *c = NULL;
    rig_expect(ls_checkpoint_open(&c, f->path, &err), &err, status, says, file, tensor, f->path,
               NULL);
    assert_null(c);
    assert_null(strchr(err.text, '\n'));
}

static void put_tensor(const struct rig_folder *f, const char *file, const char *header)
{
    struct rig_bytes b = rig_image(header, 8);
    rig_put(f, file, b.bytes, b.size);
    free(b.bytes);
}

static struct ls_checkpoint *open_good(const char *path)
{
    struct ls_err err = { 0 };
    struct ls_checkpoint *c = NULL;
    if (ls_checkpoint_open(&c, path, &err))
        fail_msg("%s", err.text);
    return c;
}

static void good_folders(void **state)
{
    (void)state;
    struct rig_folder f;
    rig_copy_fixture(&f, "llama-sharded");
    /* Files of other kinds do not matter. */
    rig_put_text(&f, "pytorch_model.bin", "x");
    rig_put_text(&f, "notes.txt", "x");
    struct ls_checkpoint *c = open_good(f.path);
    const struct ls_tensor *t = ls_checkpoint_find(c, "lm_head.weight");
    assert_non_null(t);
    assert_string_equal(ls_checkpoint_file_of(c, t), SHARD3);
    assert_string_equal(ls_checkpoint_list(c), INDEX);
    assert_int_equal(ls_checkpoint_n_tensors(c), 5 * 9 + 3);
    for (size_t i = 1; i < ls_checkpoint_n_tensors(c); i++)
        assert_true(
            strcmp(ls_checkpoint_tensor(c, i - 1)->name, ls_checkpoint_tensor(c, i)->name) < 0);
    assert_null(ls_checkpoint_find(c, "lm_head"));
    ls_checkpoint_close(c);
    ls_checkpoint_close(NULL);
    rig_folder_remove(&f);
}

/* The index may put everything into one file of any name, model.safetensors included. */
static void index_is_the_truth(void **state)
{
    (void)state;
    struct rig_folder f;
    rig_folder_make(&f);
    put_tensor(&f, "model.safetensors", "{" ENTRY("w") "}");
    rig_put_text(&f, INDEX, "{\"weight_map\":{\"w\":\"model.safetensors\"}}");
    ls_checkpoint_close(open_good(f.path));
    put_tensor(&f, "other.safetensors", "{" ENTRY("w") "}");
    expect_refused(&f, LS_E_FORMAT, "stray", "other.safetensors", INDEX);
    rig_put_text(&f, INDEX, "{\"weight_map\":{\"w\":\"other.safetensors\"}}");
    expect_refused(&f, LS_E_FORMAT, "stray", "model.safetensors", INDEX);
    rig_folder_remove(&f);
}

static void broken_shards(void **state)
{
    (void)state;
    struct rig_folder f;
    char path[4096];

    rig_copy_fixture(&f, "llama-sharded");
    struct rig_bytes shard = rig_get(&f, SHARD2);
    rig_remove(&f, SHARD2);
    expect_refused(&f, LS_E_IO, "No such file", SHARD2, "'model.layers.");
    rig_put(&f, SHARD2, shard.bytes, shard.size - 1);
    expect_refused(&f, LS_E_FORMAT, "truncated", SHARD2, "'model.layers.");
    rig_put(&f, SHARD2, shard.bytes, 100);
    expect_refused(&f, LS_E_FORMAT, "truncated", SHARD2, "");
    rig_put(&f, SHARD2, "", 0);
    expect_refused(&f, LS_E_FORMAT, "0 bytes", SHARD2, "");
    rig_put(&f, SHARD2, "\0\0\0\0\0\0\0\x80{}", 10);
    expect_refused(&f, LS_E_FORMAT, "9223372036854775808", SHARD2, "");
    rig_remove(&f, SHARD2);
    rig_path(&f, SHARD2, path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(&f, LS_E_IO, "not a regular file", SHARD2, "");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(&f, LS_E_IO, "not a regular file", SHARD2, "");
    rig_remove(&f, SHARD2);
    assert_int_equal(symlink("nowhere", path), 0);
    expect_refused(&f, LS_E_IO, "No such file", SHARD2, "");
    rig_remove(&f, SHARD2);
    rig_put(&f, SHARD2, shard.bytes, shard.size);
    ls_checkpoint_close(open_good(f.path));
    /* root reads everything, so the refusal shows only to others */
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid())
        expect_refused(&f, LS_E_IO, "Permission denied", SHARD2, "");
    free(shard.bytes);
    rig_folder_remove(&f);
}

static void index_and_shards_differ(void **state)
{
    (void)state;
    static const char move[] = "\"lm_head.weight\": \"" SHARD3 "\"";
    struct rig_folder f;
    rig_copy_fixture(&f, "llama-sharded");
    struct rig_bytes index = rig_get(&f, INDEX);

    rig_replace(&f, INDEX, move, "\"lm_head.weight\": \"" SHARD1 "\"");
    expect_refused(&f, LS_E_FORMAT, SHARD1, SHARD3, "'lm_head.weight'");
    rig_put(&f, INDEX, index.bytes, index.size);
    rig_replace(&f, INDEX, move, "\"lm_tail.weight\": \"" SHARD3 "\"");
    expect_refused(&f, LS_E_FORMAT, "not in " INDEX, SHARD3, "'lm_head.weight'");
    rig_put(&f, INDEX, index.bytes, index.size);
    rig_replace(&f, INDEX, move, "\"lm_head.weight\": \"" SHARD3 "\", \"new\": \"" SHARD1 "\"");
    expect_refused(&f, LS_E_FORMAT, "is missing", SHARD1, "'new'");
    rig_put(&f, INDEX, index.bytes, index.size);
    rig_replace(&f, INDEX, move,
                "\"lm_head.weight\": \"" SHARD3 "\", \"lm_head.weight\": \"x\"");
    expect_refused(&f, LS_E_FORMAT, "uplicate", INDEX, "lm_head.weight");
    rig_put(&f, INDEX, index.bytes, index.size);
    put_tensor(&f, "stale.safetensors", "{" ENTRY("w") "}");
    expect_refused(&f, LS_E_FORMAT, "stray", "stale.safetensors", "");
    rig_remove(&f, "stale.safetensors");
    /* A stale tensor inside a named shard. */
    rig_replace(&f, SHARD3, "{\"",
                "{\"old\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":"
                "[0,0]},\"");
    expect_refused(&f, LS_E_FORMAT, "not in " INDEX, SHARD3, "'old'");
    free(index.bytes);
    rig_folder_remove(&f);
}

static void hostile_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says, *tensor;
    } cases[] = {
        { "{\"weight_map\":{\"w\":\"../w.safetensors\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\"/w.safetensors\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\"a\\\\w.safetensors\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\"\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\"..\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\".safetensors\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":\"pytorch_model.bin\"}}", "plain name", "'w'" },
        { "{\"weight_map\":{\"w\":7}}", "not a file name", "'w'" },
        { "{\"weight_map\":{}}", "names no tensor", "" },
        { "{\"weight_map\":[]}", "no weight_map", "" },
        { "{}", "no weight_map", "" },
        { "[]", "no weight_map", "" },
        { "", "not valid JSON", "" },
        { "{\"weight_map\":", "not valid JSON", "" },
    };
    struct rig_folder f;
    rig_folder_make(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_put_text(&f, INDEX, cases[i].text);
        expect_refused(&f, LS_E_FORMAT, cases[i].says, INDEX, cases[i].tensor);
    }
    rig_remove(&f, INDEX);
    char path[4096];
    rig_path(&f, INDEX, path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(&f, LS_E_IO, "not a regular file", INDEX, "");
    rig_folder_remove(&f);
}

static void nothing_to_read(void **state)
{
    (void)state;
    struct rig_folder f;
    rig_folder_make(&f);
    expect_refused(&f, LS_E_IO, "no model.safetensors", INDEX, "");
    rig_put_text(&f, "training_args.bin", "x");
    expect_refused(&f, LS_E_IO, "in the folder", "", "");
    rig_put_text(&f, "pytorch_model-00001-of-00002.bin", "x");
    expect_refused(&f, LS_E_IO, "not read", "pytorch_model-00001-of-00002.bin", "");
    rig_put_text(&f, "a.gguf", "x");
    expect_refused(&f, LS_E_IO, "not read", "a.gguf", "");
    put_tensor(&f, "model-00001-of-00002.safetensors", "{" ENTRY("w") "}");
    expect_refused(&f, LS_E_IO, "both missing", "model-00001-of-00002.safetensors", "");
    put_tensor(&f, "model.safetensors", "{" ENTRY("w") "}");
    expect_refused(&f, LS_E_FORMAT, "stray", "model-00001-of-00002.safetensors", "");
    rig_remove(&f, "model-00001-of-00002.safetensors");
    ls_checkpoint_close(open_good(f.path));
    rig_put(&f, "model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
    expect_refused(&f, LS_E_FORMAT, "holds no tensor", "model.safetensors", "");
    rig_folder_remove(&f);
    expect_refused(&f, LS_E_IO, "cannot list", "", "");
}

static void digest_of(const struct rig_folder *f, int with_bytes, unsigned char digest[32])
{
    struct ls_checkpoint *c = open_good(f->path);
    ls_checkpoint_digest(c, with_bytes, digest);
    ls_checkpoint_close(c);
}

/* The digest sees tensors, not how they are spread over files. */
static void digests(void **state)
{
    (void)state;
    struct rig_folder f;
    unsigned char first[2][32], now[32];
    rig_folder_make(&f);
    put_tensor(&f, "model.safetensors", "{" ENTRY("w") "}");
    digest_of(&f, 0, first[0]);
    digest_of(&f, 1, first[1]);
    assert_memory_not_equal(first[0], first[1], 32);
    put_tensor(&f, "model.safetensors", "{\"__metadata__\":{\"x\":\"y\"}," ENTRY("w") "}");
    digest_of(&f, 1, now);
    assert_memory_equal(now, first[1], 32);
    rig_remove(&f, "model.safetensors");
    put_tensor(&f, "x.safetensors", "{" ENTRY("w") "}");
    rig_put_text(&f, INDEX, "{\"weight_map\":{\"w\":\"x.safetensors\"}}");
    digest_of(&f, 1, now);
    assert_memory_equal(now, first[1], 32);
    struct rig_bytes b = rig_get(&f, "x.safetensors");
    b.bytes[b.size - 1] ^= 1;
    rig_put(&f, "x.safetensors", b.bytes, b.size);
    free(b.bytes);
    digest_of(&f, 0, now);
    assert_memory_equal(now, first[0], 32);
    digest_of(&f, 1, now);
    assert_memory_not_equal(now, first[1], 32);
    rig_folder_remove(&f);
}

static void files_read_whole(void **state)
{
    (void)state;
    struct rig_folder f;
    struct ls_err err = { 0 };
    char path[4096], *text = NULL;
    size_t n = 0;
    rig_folder_make(&f);
    rig_put_text(&f, "a.json", "12345");
    rig_path(&f, "a.json", path);
    assert_int_equal(ls_file_read(path, 5, &text, &n, &err), LS_OK);
    assert_int_equal(n, 5);
    assert_string_equal(text, "12345");
    ls_free(text);
    rig_expect(ls_file_read(path, 4, &text, &n, &err), &err, LS_E_FORMAT, "a.json", NULL);
    rig_expect(ls_file_read(f.path, 4, &text, &n, &err), &err, LS_E_IO, "regular", NULL);
    rig_folder_remove(&f);
    rig_expect(ls_file_read(path, 4, &text, &n, &err), &err, LS_E_IO, "a.json", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_folders),    cmocka_unit_test(index_is_the_truth),
        cmocka_unit_test(broken_shards),   cmocka_unit_test(index_and_shards_differ),
        cmocka_unit_test(hostile_indexes), cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(digests),         cmocka_unit_test(files_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
