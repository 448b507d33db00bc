#include "app/model_folder.h"

#include "base/alloc.h"
#include "tensor/checkpoint.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TOKENIZER_BYTES = 1 << 30 };

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* folder "/" name; false when it does not fit. */
static bool join(char *path, size_t size, const char *folder, const char *name)
{
    const int n = snprintf(path, size, "%s/%s", folder, name);
    return n >= 0 && (size_t)n < size;
}

static bool is_there(const char *folder, const char *name)
{
    char path[4096];
    return join(path, sizeof path, folder, name) && !access(path, F_OK);
}

/* In a build folder the program lies one below the sources; installed, in bin beside share. */
static bool demo_folder(char *path, size_t size)
{
    static const char *const beside[] = { "../configs/demo", "../share/lockstep/demo",
                                          "configs/demo" };
    char program[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        *strrchr(program, '/') = 0;
        for (int i = 0; i < 3; i++)
            if (join(path, size, program, beside[i]) && is_there(path, "config.json"))
                return true;
    }
    return join(path, size, LS_SOURCE_DIR, "configs/demo") && is_there(path, "config.json");
}

ls_status ls_model_folder(char *path, size_t size, const char *name, struct ls_err *err)
{
    if (!strcmp(name, "demo"))
        return demo_folder(path, size)
                   ? LS_OK
                   : ls_fail(err, LS_E_USAGE,
                             "--model demo: the demo model is not beside this program");
    if (strlen(name) >= size)
        return ls_fail(err, LS_E_USAGE, "--model: the path is longer than %zu bytes", size - 1);
    if (access(name, F_OK))
        return ls_fail(err, LS_E_USAGE, "--model %s: %s", name, strerror(errno));
    if (!is_folder(name))
        return ls_fail(err, LS_E_USAGE,
                       "--model %s: not a folder; a checkpoint is a folder with config.json",
                       name);
    if (!is_there(name, "config.json"))
        return ls_fail(err, LS_E_USAGE, "--model %s: no config.json in this folder", name);
    snprintf(path, size, "%s", name);
    return LS_OK;
}

void ls_model_name(char *name, size_t size, const char *model)
{
    size_t end = strlen(model);
    while (end > 1 && model[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && model[begin - 1] != '/')
        begin--;
    snprintf(name, size, "%.*s", (int)(end - begin), model + begin);
}

/* *text is NULL when there is no such file. */
static ls_status read_optional(char **text, size_t *n, const char *folder, const char *name,
                               struct ls_err *err)
{
    char path[4096];
    *text = NULL;
    *n = 0;
    if (!is_there(folder, name))
        return LS_OK;
    if (!join(path, sizeof path, folder, name))
        return ls_fail(err, LS_E_USAGE, "%s: the path is too long", name);
    return ls_file_read(path, MAX_TOKENIZER_BYTES, text, n, err);
}

ls_status ls_model_tokenizer(struct ls_tokenizer **out, const char *folder, struct ls_err *err)
{
    char *json = NULL, *config = NULL;
    size_t n_json, n_config = 0;
    *out = NULL;
    ls_status s = read_optional(&json, &n_json, folder, "tokenizer.json", err);
    if (!s && json)
        s = read_optional(&config, &n_config, folder, "tokenizer_config.json", err);
    if (!s && json)
        s = ls_tokenizer_create(out, json, n_json, config, n_config, err);
    ls_free(json);
    ls_free(config);
    return s;
}
