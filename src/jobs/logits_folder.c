#include "jobs/logits_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Length of the digits at the front, 0 when there are none. */
static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

static bool is_array(const char *name)
{
    const size_t line = digits(name);
    if (!line || name[line] != '-')
        return false;
    const char *choice = name + line + 1;
    const char *end = choice + digits(choice);
    return end > choice && (!strcmp(end, ".npy") || !strcmp(end, ".npy.part"));
}

static bool is_shard(const char *name)
{
    if (strncmp(name, "logits-", 7) || !digits(name + 7))
        return false;
    const char *end = name + 7 + digits(name + 7);
    return !strcmp(end, ".safetensors") || !strcmp(end, ".safetensors.part");
}

static bool is_ours(const char *name)
{
    return is_shard(name) || is_array(name) || !strcmp(name, "index.json") ||
           !strcmp(name, "index.json.part");
}

static bool is_lock_or_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "lock");
}

static ls_status open_folder(DIR **d, const char *folder, struct ls_err *err)
{
    *d = opendir(folder);
    if (*d)
        return LS_OK;
    return ls_fail(err, LS_E_IO, "cannot read logits folder %s: %s", folder, strerror(errno));
}

ls_status ls_logits_folder_check(const char *folder, struct ls_err *err)
{
    DIR *d;
    ls_status status = open_folder(&d, folder, err);
    if (status)
        return status;
    for (struct dirent *e; !status && (e = readdir(d));)
        if (!is_lock_or_dots(e->d_name) && !is_ours(e->d_name))
            status = ls_fail(err, LS_E_REFUSED,
                             "logits folder %s holds %s, which is no logits file of ours; "
                             "give an empty folder",
                             folder, e->d_name);
    closedir(d);
    return status;
}

ls_status ls_logits_folder_clear(const char *folder, struct ls_err *err)
{
    DIR *d;
    ls_status status = open_folder(&d, folder, err);
    if (status)
        return status;
    for (struct dirent *e; !status && (e = readdir(d));)
        if (is_ours(e->d_name) && unlinkat(dirfd(d), e->d_name, 0))
            status = ls_fail(err, ls_io_status(errno), "cannot remove %s/%s: %s", folder,
                             e->d_name, strerror(errno));
    closedir(d);
    return status;
}
