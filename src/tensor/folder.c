#include "tensor/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 65536 };

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n >= k && !strcmp(name + n - k, suffix);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Weight files that other tools read; training leftovers (optimizer.pt, *.pkl) are not meant.
 */
static bool is_other_weights(const char *name)
{
    return ends_with(name, ".gguf") || ends_with(name, ".pth") ||
           (ends_with(name, ".bin") && strstr(name, "model")) || ends_with(name, ".npz");
}

static ls_status note(struct ls_folder *f, const char *name, struct ls_arena *arena,
                      struct ls_err *err)
{
    const bool ours = ends_with(name, ".safetensors"), other = is_other_weights(name);
    f->has_index = f->has_index || !strcmp(name, LS_INDEX_FILE);
    if (!ours && !other)
        return LS_OK;
    const char *copy = ls_arena_text(arena, name, strlen(name));
    if (!copy)
        return ls_fail(err, LS_E_MEMORY, "out of memory for file names");
    if (other && (!f->other || strcmp(copy, f->other) < 0))
        f->other = copy;
    if (!ours)
        return LS_OK;
    if (f->n_safetensors == MAX_FILES)
        return ls_fail(err, LS_E_FORMAT, "more than %d .safetensors files", MAX_FILES);
    f->safetensors[f->n_safetensors++] = copy;
    return LS_OK;
}

ls_status ls_folder_list(struct ls_folder *folder, const char *dir, struct ls_arena *arena,
                         struct ls_err *err)
{
    struct ls_folder f = { 0 };
    ls_status s = LS_OK;
    const struct dirent *entry;
    f.safetensors = ls_arena_take(arena, MAX_FILES * sizeof *f.safetensors);
    if (!f.safetensors)
        return ls_fail(err, LS_E_MEMORY, "out of memory for file names");
    DIR *d = opendir(dir);
    if (!d)
        return ls_fail(err, LS_E_IO, "cannot list the folder: %s", strerror(errno));
    while (!s && (errno = 0, entry = readdir(d)))
        s = note(&f, entry->d_name, arena, err);
    if (!s && errno)
        s = ls_fail(err, LS_E_IO, "cannot list the folder: %s", strerror(errno));
    closedir(d);
    if (s)
        return s;
    qsort(f.safetensors, (size_t)f.n_safetensors, sizeof *f.safetensors, by_name);
    *folder = f;
    return LS_OK;
}

ls_status ls_folder_check_strays(const struct ls_folder *folder, const char *const *names,
                                 int n, struct ls_err *err)
{
    for (int i = 0; i < folder->n_safetensors; i++) {
        const char *file = folder->safetensors[i];
        if (!bsearch(&file, names, (size_t)n, sizeof *names, by_name))
            return ls_fail(err, LS_E_FORMAT,
                           "%s: stray file, %s; remove it or move it out of the folder", file,
                           folder->has_index ? LS_INDEX_FILE " does not name it"
                                             : "the weights are in " LS_WEIGHTS_FILE);
    }
    return LS_OK;
}

ls_status ls_folder_check_weights(const struct ls_folder *folder, struct ls_err *err)
{
    static const char model[] = LS_WEIGHTS_FILE;
    const char *key = model;
    if (folder->has_index ||
        bsearch(&key, folder->safetensors, (size_t)folder->n_safetensors, sizeof key, by_name))
        return LS_OK;
    if (folder->n_safetensors)
        return ls_fail(err, LS_E_IO,
                       LS_WEIGHTS_FILE " and " LS_INDEX_FILE
                                       " are both missing, but there is %s",
                       folder->safetensors[0]);
    if (folder->other)
        return ls_fail(
            err, LS_E_IO,
            "no " LS_WEIGHTS_FILE " and no " LS_INDEX_FILE
            ": the weights in %s are in a format that is not read; save the model with "
            "save_pretrained(..., safe_serialization=True)",
            folder->other);
    return ls_fail(err, LS_E_IO,
                   "no " LS_WEIGHTS_FILE " and no " LS_INDEX_FILE " in the folder");
}
