#include "app/sweep_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *ls_sweep_file(const struct ls_sweep_folder *f, char out[LS_SWEEP_PATH],
                          const char *fmt, ...)
{
    va_list ap;
    const int n = snprintf(out, LS_SWEEP_PATH, "%s/", f->path);
    va_start(ap, fmt);
    vsnprintf(out + n, LS_SWEEP_PATH - (size_t)n, fmt, ap);
    va_end(ap);
    return out;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

void ls_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static ls_status fail_io(const char *path, const char *what, struct ls_err *err)
{
    const int error = errno;
    return ls_fail(err, ls_io_status(error), "%s: cannot be %s: %s", path, what,
                   strerror(error));
}

ls_status ls_write_whole(const char *path, const char *text, size_t n, struct ls_err *err)
{
    char part[LS_SWEEP_PATH + 8];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *const out = fopen(part, "we");
    if (!out)
        return fail_io(part, "written", err);
    const bool written = fwrite(text, 1, n, out) == n && !fflush(out) && !fsync(fileno(out));
    const int error = errno;
    if (fclose(out) || !written) {
        errno = written ? errno : error;
        return fail_io(part, "written", err);
    }
    return rename(part, path) ? fail_io(path, "written", err) : LS_OK;
}

ls_status ls_write_json(const char *path, const json_t *json, struct ls_err *err)
{
    char *const text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    if (!text)
        return ls_fail(err, LS_E_MEMORY, "%s: no memory to write it", path);
    const size_t n = strlen(text);
    text[n] = '\n'; /* in the place of the zero */
    const ls_status s = ls_write_whole(path, text, n + 1, err);
    free(text);
    return s;
}

static ls_status make_folder(const char *path, struct ls_err *err)
{
    return mkdir(path, 0777) && errno != EEXIST ? fail_io(path, "made", err) : LS_OK;
}

/* Every part of the path that is missing. */
static ls_status make_path(const char *path, struct ls_err *err)
{
    char part[LS_SWEEP_PATH];
    ls_status s = LS_OK;
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); !s && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        s = make_folder(part, err);
        *slash = '/';
    }
    return s ? s : make_folder(part, err);
}

static const char *const folders[] = { "results", "logits", "arms", "locate", "attempts" };
static const char *const files[] = { "sweep.json",   "forced.jsonl", "report.json",
                                     "timings.json", "junit.xml",    "report.html" };
enum {
    N_FOLDERS = sizeof folders / sizeof folders[0],
    N_FILES = sizeof files / sizeof files[0]
};

static void clear(const struct ls_sweep_folder *f)
{
    char path[LS_SWEEP_PATH];
    for (int i = 0; i < N_FOLDERS; i++)
        ls_remove_tree(ls_sweep_file(f, path, "%s", folders[i]));
    for (int i = 0; i < N_FILES; i++)
        unlink(ls_sweep_file(f, path, "%s", files[i]));
}

/* The name of the first part in which two identities differ, or NULL. */
static const char *find_difference(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        if (!json_equal(value, json_object_get(b, key)))
            return key;
    }
    return json_object_size(a) == json_object_size(b) ? NULL : "format";
}

static ls_status check_identity(const struct ls_sweep_folder *f, const json_t *identity,
                                struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    json_error_t problem;
    ls_sweep_file(f, path, "sweep.json");
    if (access(path, F_OK)) {
        if (!access(ls_sweep_file(f, path, "results"), F_OK))
            return ls_fail(err, LS_E_REFUSED, "%s holds something that no sweep has made",
                           f->path);
        return ls_write_json(ls_sweep_file(f, path, "sweep.json"), identity, err);
    }
    json_t *const there = json_load_file(path, 0, &problem);
    const char *const key = there ? find_difference(identity, there) : "format";
    const ls_status s =
        key ? ls_fail(err, LS_E_REFUSED,
                      "%s holds another sweep: '%s' has changed; --fresh starts over, "
                      "another --output keeps both",
                      f->path, key)
            : LS_OK;
    json_decref(there);
    return s;
}

ls_status ls_sweep_folder_open(struct ls_sweep_folder *f, const char *path,
                               const json_t *identity, bool fresh, struct ls_err *err)
{
    char at[LS_SWEEP_PATH];
    *f = (struct ls_sweep_folder){ .path = "" };
    if (strlen(path) >= sizeof f->path)
        return ls_fail(err, LS_E_USAGE, "--output: longer than %zu bytes", sizeof f->path - 1);
    snprintf(f->path, sizeof f->path, "%s", path);
    ls_status s = make_path(path, err);
    if (!s)
        s = ls_lock_take(&f->lock, path, path, err);
    if (s)
        return s;
    if (fresh)
        clear(f);
    s = check_identity(f, identity, err);
    if (!s)
        ls_remove_tree(ls_sweep_file(f, at, "attempts"));
    for (int i = 0; !s && i < N_FOLDERS; i++)
        s = make_folder(ls_sweep_file(f, at, "%s", folders[i]), err);
    if (s)
        ls_sweep_folder_close(f);
    return s;
}

void ls_sweep_folder_close(struct ls_sweep_folder *f)
{
    ls_lock_release(&f->lock);
}

ls_status ls_sweep_attempt(const struct ls_sweep_folder *f, char out[LS_SWEEP_PATH],
                           struct ls_err *err)
{
    ls_sweep_file(f, out, "attempts/XXXXXX");
    return mkdtemp(out) ? LS_OK : fail_io(out, "made", err);
}
