#include "bench/machine.h"

#include <ctype.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { TEXT = 4096 };

/* The value of "key<blanks>: value" in /proc/cpuinfo. */
static void cpu_fact(const char *key, char value[TEXT])
{
    char line[TEXT];
    FILE *const f = fopen("/proc/cpuinfo", "re");
    value[0] = 0;
    while (f && !value[0] && fgets(line, sizeof line, f)) {
        char *const colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        snprintf(value, TEXT, "%.*s", TEXT - 1, colon + 1 + (colon[1] == ' '));
        value[strcspn(value, "\n")] = 0;
    }
    if (f)
        fclose(f);
}

/* Only what kernels ask for, in that order. */
static void wanted_flags(char out[TEXT])
{
    static const char *const wanted[] = { "avx2",        "fma",      "f16c",
                                          "avx512f",     "avx512bw", "avx512_bf16",
                                          "avx512_vnni", "avx_vnni", "amx_bf16" };
    char flags[TEXT], padded[TEXT + 2], word[32];
    cpu_fact("flags", flags);
    snprintf(padded, sizeof padded, " %s ", flags);
    out[0] = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        snprintf(word, sizeof word, " %s ", wanted[i]);
        if (!strstr(padded, word))
            continue;
        snprintf(word, sizeof word, "%s%s", out[0] ? " " : "", wanted[i]);
        strcat(out, word);
    }
}

static int usable_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* One line of a file of /sys; empty when it cannot be read. */
static void read_line(const char *path, char text[64])
{
    FILE *const f = fopen(path, "re");
    text[0] = 0;
    if (!f || !fgets(text, 64, f))
        text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    if (f)
        fclose(f);
}

static json_t *caches(void)
{
    json_t *const found = json_object();
    for (int i = 0; found && i < 8; i++) {
        char path[128], level[64], kind[64], size[64], name[160];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        read_line(path, level);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_line(path, kind);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        read_line(path, size);
        if (!level[0])
            break;
        snprintf(name, sizeof name, "L%s%s", level,
                 !strcmp(kind, "Data")          ? "d"
                 : !strcmp(kind, "Instruction") ? "i"
                                                : "");
        json_object_set_new(found, name, json_string(size));
    }
    return found;
}

json_t *ls_machine_json(void)
{
    char model[TEXT], flags[TEXT];
    struct utsname kernel;
    cpu_fact("model name", model);
    wanted_flags(flags);
    if (uname(&kernel))
        kernel.release[0] = 0;
    return json_pack("{s:s, s:s, s:i, s:o, s:s}", "cpu", model, "flags", flags, "cpus",
                     usable_cpus(), "caches", caches(), "kernel", kernel.release);
}

void ls_machine_print(FILE *out)
{
    json_t *const m = ls_machine_json();
    const char *name;
    json_t *size;
    fprintf(out, "%s; %s; %d CPUs;", json_string_value(json_object_get(m, "cpu")),
            json_string_value(json_object_get(m, "flags")), usable_cpus());
    json_object_foreach(json_object_get(m, "caches"), name, size)
        fprintf(out, " %s %s", name, json_string_value(size));
    fprintf(out, "; Linux %s\n", json_string_value(json_object_get(m, "kernel")));
    json_decref(m);
}

double ls_peak_of(const struct ls_peaks *p, const struct ls_kernels *k, enum ls_fmt d,
                  enum ls_fmt weights)
{
    if (d == LS_FMT_BF16 && weights == LS_FMT_BF16 && !strcmp(k->name, "avx512bf16"))
        return p->bf16;
    return strncmp(k->name, "avx512", 6) != 0 ? p->fma256 : p->fma512;
}
