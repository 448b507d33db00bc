#include "pipeline/machine.h"

#include "base/size.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind `key` at a line's beginning ("" is the first line), in units as written. */
static bool read_value(const char *path, const char *key, uint64_t *value)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    char line[256];
    bool found = false;
    size_t n = strlen(key);
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, n) != 0)
            continue;
        char *end;
        const char *at = line + n + strspn(line + n, " \t:");
        *value = strtoull(at, &end, 10);
        found = end != at;
        if (!found)
            break;
    }
    fclose(f);
    return found;
}

/* This process's path in the hierarchy of `controller` ("" is version 2), "" when unknown. */
static void group_path(const char *controller, char path[PATH_MAX])
{
    path[0] = '\0';
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return;
    char line[PATH_MAX + 64];
    while (!path[0] && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *where = list ? strchr(list + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = '\0';
        bool match = *controller ? strstr(list + 1, controller) != NULL : list[1] == '\0';
        if (match)
            snprintf(path, PATH_MAX, "%s", where);
    }
    fclose(f);
}

/* Calls look for the group and each of its parents up to the root. A container often sees its
 * own group as the root while /proc names the host's path: parents that do not exist are
 * skipped. */
static void each_group(const char *root, const char *controller,
                       void (*look)(const char *dir, uint64_t *least), uint64_t *least)
{
    char path[PATH_MAX], dir[PATH_MAX + 64];
    group_path(controller, path);
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", root, path);
        look(dir, least);
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static bool read_in(const char *dir, const char *file, const char *key, uint64_t *value)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return read_value(path, key, value);
}

/* File pages that the kernel would drop under pressure do not count as used. */
static void take_memory(uint64_t limit, uint64_t used, uint64_t cache, uint64_t *least)
{
    used = used > cache ? used - cache : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *least)
        *least = left;
}

static void look_memory2(const char *dir, uint64_t *least)
{
    uint64_t limit, used, cache = 0;
    if (!read_in(dir, "memory.max", "", &limit) || !read_in(dir, "memory.current", "", &used))
        return;
    read_in(dir, "memory.stat", "inactive_file ", &cache);
    take_memory(limit, used, cache, least);
}

static void look_memory1(const char *dir, uint64_t *least)
{
    uint64_t limit, used, cache = 0;
    if (!read_in(dir, "memory.limit_in_bytes", "", &limit) ||
        !read_in(dir, "memory.usage_in_bytes", "", &used))
        return;
    read_in(dir, "memory.stat", "total_inactive_file ", &cache);
    take_memory(limit, used, cache, least);
}

/* A number among a Slurm job's variables; 0: there is none. */
static uint64_t slurm_value(const char *name)
{
    const char *text = getenv(name);
    if (!text || *text < '0' || *text > '9')
        return 0;
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    return *end ? 0 : value;
}

/* Slurm counts in MiB, and 0 stands for all of the node. */
static uint64_t slurm_memory(void)
{
    uint64_t mib = slurm_value("SLURM_MEM_PER_NODE");
    if (!mib)
        mib = ls_min_u64(slurm_value("SLURM_MEM_PER_CPU"), UINT32_MAX) *
              ls_min_u64(slurm_value("SLURM_CPUS_ON_NODE"), UINT16_MAX);
    return mib && mib <= UINT64_MAX >> 20 ? mib << 20 : UINT64_MAX;
}

uint64_t ls_machine_memory(void)
{
    uint64_t least = UINT64_MAX, kib;
    if (read_value("/proc/meminfo", "MemAvailable:", &kib))
        least = kib * 1024;
    each_group("/sys/fs/cgroup", "", look_memory2, &least);
    each_group("/sys/fs/cgroup/memory", "memory", look_memory1, &least);
    least = ls_min_u64(least, slurm_memory());
    if (least == UINT64_MAX)
        return 0;
    return least ? least : 1;
}

struct ls_machine_use ls_machine_use(void)
{
    struct ls_machine_use use = { .now_bytes = 0 };
    uint64_t kib;
    if (read_value("/proc/self/status", "VmRSS:", &kib))
        use.now_bytes = kib * 1024;
    if (read_value("/proc/self/status", "VmHWM:", &kib))
        use.peak_bytes = kib * 1024;
    return use;
}

static void take_quota(uint64_t quota, uint64_t period, uint64_t *least)
{
    if (period == 0 || quota == 0)
        return;
    uint64_t cores = quota / period + (quota % period != 0);
    if (cores < *least)
        *least = cores;
}

static void look_quota2(const char *dir, uint64_t *least)
{
    char path[2 * PATH_MAX];
    unsigned long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    if (fscanf(f, "%llu %llu", &quota, &period) == 2)
        take_quota(quota, period, least);
    fclose(f);
}

static void look_quota1(const char *dir, uint64_t *least)
{
    uint64_t quota, period;
    if (read_in(dir, "cpu.cfs_quota_us", "", &quota) && quota <= INT64_MAX &&
        read_in(dir, "cpu.cfs_period_us", "", &period))
        take_quota(quota, period, least);
}

int ls_machine_cpu_quota(void)
{
    uint64_t least = INT_MAX;
    each_group("/sys/fs/cgroup", "", look_quota2, &least);
    each_group("/sys/fs/cgroup/cpu", "cpu", look_quota1, &least);
    uint64_t given = slurm_value("SLURM_CPUS_ON_NODE");
    if (given)
        least = ls_min_u64(least, given);
    return least == INT_MAX ? 0 : (int)least;
}

/* Members of a list like "0-3,8"; a list that cannot be read counts as none. */
static int list_members(const char *list)
{
    long n = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (first < 0 || last < first || last > INT_MAX - 1 || n > INT_MAX / 2)
            return 0;
        n += last - first + 1;
        list = *end == ',' ? end + 1 : end + strlen(end);
    }
    return n > INT_MAX / 2 ? 0 : (int)n;
}

static void look_cpuset(const char *dir, uint64_t *least)
{
    static const char *const files[] = { "cpuset.cpus.effective", "cpuset.effective_cpus" };
    char path[2 * PATH_MAX], line[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        FILE *f = fopen(path, "r");
        int n = f && fgets(line, sizeof line, f) ? list_members(line) : 0;
        if (f)
            fclose(f);
        if (n > 0)
            *least = ls_min_u64(*least, (uint64_t)n);
    }
}

int ls_machine_host_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t least = online > 0 ? (uint64_t)online : INT_MAX;
    each_group("/sys/fs/cgroup", "", look_cpuset, &least);
    each_group("/sys/fs/cgroup/cpuset", "cpuset", look_cpuset, &least);
    uint64_t quota = (uint64_t)ls_machine_cpu_quota();
    if (quota)
        least = ls_min_u64(least, quota);
    return least == INT_MAX ? 0 : (int)least;
}

int ls_machine_cpus(uint64_t mask[LS_CPU_WORDS])
{
    cpu_set_t set;
    int n = 0;
    memset(mask, 0, LS_CPU_WORDS * sizeof *mask);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (int i = 0; i < CPU_SETSIZE && i < 64 * LS_CPU_WORDS; i++)
        if (CPU_ISSET(i, &set)) {
            mask[i / 64] |= 1ull << (i % 64);
            n++;
        }
    return n;
}
