#include "app/nodes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 512 };

/* "64G" in bytes; K, M, G, T mean powers of 1024. */
static bool read_memory(const char *word, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    if (*word < '0' || *word > '9')
        return false;
    errno = 0;
    *bytes = strtoull(word, &end, 10);
    const char *const unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno || (*end && (!unit || end[1])) || *bytes > UINT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    return *bytes > 0;
}

static bool read_count(const char *word, int max, int *n)
{
    char *end;
    if (*word < '0' || *word > '9')
        return false;
    const long value = strtol(word, &end, 10);
    *n = value >= 1 && value <= max && !*end ? (int)value : 0;
    return *n > 0;
}

/* One node's ranks, behind those that are there. */
static ls_status take_node(char *const word[5], int n_words, struct ls_rank_report *reports,
                           int *n_ranks, struct ls_err *err)
{
    uint64_t memory = 0;
    int cores = 0, ranks = 1;
    if (n_words < 3 || n_words > 4)
        return ls_fail(err, LS_E_USAGE, "%d words, expected: name memory cores [ranks]",
                       n_words);
    if (strlen(word[0]) >= LS_MAX_HOST)
        return ls_fail(err, LS_E_USAGE, "a name of over %d bytes", LS_MAX_HOST - 1);
    if (!read_memory(word[1], &memory))
        return ls_fail(err, LS_E_USAGE, "memory '%s', expected a size as in 512M or 64G",
                       word[1]);
    if (!read_count(word[2], LS_MAX_THREADS, &cores))
        return ls_fail(err, LS_E_USAGE, "cores '%s', expected 1 to %d", word[2],
                       LS_MAX_THREADS);
    if (n_words == 4 && !read_count(word[3], LS_MAX_STAGES - *n_ranks, &ranks))
        return ls_fail(err, LS_E_USAGE, "ranks '%s', expected 1 to %d, all nodes together",
                       word[3], LS_MAX_STAGES);
    if (ranks > LS_MAX_STAGES - *n_ranks)
        return ls_fail(err, LS_E_USAGE, "more than %d ranks, all nodes together",
                       LS_MAX_STAGES);
    for (int i = 0; i < ranks; i++) {
        struct ls_rank_report *const r = &reports[(*n_ranks)++];
        *r = (struct ls_rank_report){ .cores = cores / ranks > 0 ? cores / ranks : 1,
                                      .memory_bytes = memory / (uint64_t)ranks };
        snprintf(r->host, sizeof r->host, "%s", word[0]);
    }
    return LS_OK;
}

static ls_status take_line(char *line, struct ls_rank_report *reports, int *n_ranks,
                           struct ls_err *err)
{
    char *word[5] = { NULL }, *rest = NULL;
    int n = 0;
    line[strcspn(line, "#\n")] = 0;
    for (char *w = strtok_r(line, " \t\r", &rest); w && n < 5;
         w = strtok_r(NULL, " \t\r", &rest))
        word[n++] = w;
    return n ? take_node(word, n, reports, n_ranks, err) : LS_OK;
}

/* One line of a file that may hold anything. */
static ls_status check_line(const char *line, bool last, struct ls_err *err)
{
    const size_t n = strlen(line);
    if (n > 0 && (line[n - 1] == '\n' || (last && n < MAX_LINE - 1)))
        return LS_OK;
    if (n == MAX_LINE - 1)
        return ls_fail(err, LS_E_USAGE, "a line of over %d bytes", MAX_LINE - 2);
    return ls_fail(err, LS_E_USAGE, "a zero byte, expected text");
}

ls_status ls_nodes_read(struct ls_rank_report *reports, int *n_ranks, const char *path,
                        struct ls_err *err)
{
    char line[MAX_LINE];
    ls_status s = LS_OK;
    FILE *const f = fopen(path, "r");
    if (!f)
        return ls_fail(err, LS_E_USAGE, "--nodes %s: %s", path, strerror(errno));
    *n_ranks = 0;
    for (int number = 1; !s && fgets(line, sizeof line, f); number++) {
        s = check_line(line, feof(f), err);
        if (!s)
            s = take_line(line, reports, n_ranks, err);
        if (s)
            ls_fail_prefix(err, "--nodes %s:%d", path, number);
    }
    if (!s && ferror(f))
        s = ls_fail(err, LS_E_USAGE, "--nodes %s: %s", path, strerror(errno));
    fclose(f);
    if (!s && *n_ranks == 0)
        s = ls_fail(err, LS_E_USAGE, "--nodes %s: no node", path);
    return s;
}
