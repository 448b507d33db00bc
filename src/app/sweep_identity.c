/* What the results of a sweep depend on. */
#include "app/model_folder.h"
#include "app/sweep_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void hex_of(char out[65], const unsigned char digest[32])
{
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void add_stamp(crypto_generichash_state *hash, const char *name, const struct stat *st)
{
    const int64_t facts[3] = { st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec };
    crypto_generichash_update(hash, (const unsigned char *)name, strlen(name) + 1);
    crypto_generichash_update(hash, (const unsigned char *)facts, sizeof facts);
}

/* Names, sizes and times of the files of a folder, or of one file. A path that is not there has
 * a stamp, too: the arm will fail. */
static json_t *stamp_of(const char *path)
{
    crypto_generichash_state hash;
    unsigned char digest[32];
    char text[65], file[4096 + 256];
    struct dirent **names = NULL;
    struct stat st;
    const int n = scandir(path, &names, NULL, alphasort);
    crypto_generichash_init(&hash, NULL, 0, 32);
    if (n < 0 && !stat(path, &st))
        add_stamp(&hash, "", &st);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%.4095s/%s", path, names[i]->d_name);
        if (!stat(file, &st) && S_ISREG(st.st_mode))
            add_stamp(&hash, names[i]->d_name, &st);
        free(names[i]);
    }
    free(names);
    crypto_generichash_final(&hash, digest, 32);
    hex_of(text, digest);
    return json_string(text);
}

static ls_status digest_of_file(json_t **out, const char *path, struct ls_err *err)
{
    crypto_generichash_state hash;
    unsigned char digest[32], block[65536];
    char text[68] = "b2:";
    size_t n;
    FILE *const f = fopen(path, "re");
    struct stat st;
    if (!f || fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
        const int error = errno;
        if (f)
            fclose(f);
        return ls_fail(err, LS_E_USAGE, "prompts %s: %s", path,
                       f ? "not a file" : strerror(error));
    }
    crypto_generichash_init(&hash, NULL, 0, 32);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        crypto_generichash_update(&hash, block, n);
    const bool failed = ferror(f);
    fclose(f);
    if (failed)
        return ls_fail(err, LS_E_IO, "prompts %s: cannot be read", path);
    crypto_generichash_final(&hash, digest, 32);
    hex_of(text + 3, digest);
    *out = json_string(text);
    return LS_OK;
}

static json_t *settings_json(const struct ls_settings *list)
{
    json_t *const o = json_object();
    for (size_t i = 0; i < list->n; i++)
        json_object_set_new(o, list->list[i].key, json_string(list->list[i].value));
    return o;
}

static json_t *arm_json(const struct ls_arm *arm)
{
    return json_pack("{s:s, s:o, s:o, s:s?, s:s?, s:s?}", "name", arm->name, "options",
                     settings_json(&arm->options), "env", settings_json(&arm->env), "binary",
                     arm->binary, "dump", arm->dump, "mapping", arm->mapping);
}

/* A model is stamped by its folder, "demo" too. */
static void stamp_arm(json_t *models, json_t *programs, json_t *dumps, const struct ls_arm *arm)
{
    struct ls_err err;
    char folder[4096];
    const char *const model = ls_arm_option(arm, "model");
    const char *const others[] = { arm->dump, arm->mapping };
    if (!json_object_get(models, model))
        json_object_set_new(
            models, model,
            stamp_of(ls_model_folder(folder, sizeof folder, model, &err) ? model : folder));
    if (arm->binary && !json_object_get(programs, arm->binary))
        json_object_set_new(programs, arm->binary, stamp_of(arm->binary));
    for (int i = 0; i < 2; i++)
        if (others[i] && !json_object_get(dumps, others[i]))
            json_object_set_new(dumps, others[i], stamp_of(others[i]));
}

ls_status ls_sweep_identity(json_t **out, const struct ls_sweep *sweep, const char *program,
                            struct ls_err *err)
{
    json_t *prompts = NULL;
    const ls_status s = digest_of_file(&prompts, sweep->prompts, err);
    if (s)
        return s;
    json_t *const arms = json_array(), *const models = json_object();
    json_t *const programs = json_object(), *const dumps = json_object();
    json_object_set_new(programs, "", stamp_of(program));
    for (size_t i = 0; i < sweep->n; i++) {
        json_array_append_new(arms, arm_json(&sweep->arms[i]));
        stamp_arm(models, programs, dumps, &sweep->arms[i]);
    }
    *out = json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "format", "lockstep-sweep-1",
                     "name", sweep->name, "mode", sweep->mode, "arms", arms, "prompts", prompts,
                     "models", models, "programs", programs, "dumps", dumps);
    return *out ? LS_OK : ls_fail(err, LS_E_MEMORY, "no memory for what the sweep depends on");
}
