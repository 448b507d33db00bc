#include "app/parity_arm.h"

#include "app/child.h"
#include "app/model_folder.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static ls_status choose_kernels(struct ls_parity_arm *arm, struct ls_err *err)
{
    int n_failed;
    const int cpu = arm->wish.cpu;
    if (cpu >= 0 && !ls_kernels_of((enum ls_cpu_path)cpu))
        return ls_fail(err, LS_E_REFUSED, "CPU path %s: this CPU lacks it",
                       ls_cpu_path_name((enum ls_cpu_path)cpu));
    const unsigned saved = ls_fp_enter();
    arm->kernels =
        ls_kernels_choose(cpu < 0 ? LS_CPU_AVX512 : (enum ls_cpu_path)cpu, &n_failed);
    ls_fp_leave(saved);
    return arm->kernels ? LS_OK
                        : ls_fail(err, LS_E_COMPUTE, "no CPU path passes its self-test");
}

static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

ls_status ls_parity_arm_open(struct ls_parity_arm *arm, const struct ls_parity_wish *wish,
                             struct ls_err *err)
{
    const struct ls_arch_wish arch = { .f32_activations = wish->f32, .context = wish->context };
    *arm = (struct ls_parity_arm){ .wish = *wish };
    arm->n_threads = wish->threads ? wish->threads : cores();
    ls_status s = ls_model_folder(arm->folder, sizeof arm->folder, wish->model, err);
    if (!s)
        s = choose_kernels(arm, err);
    if (!s)
        s = ls_replay_model_open(&arm->model, arm->folder, &arch, err);
    return s ? s
             : ls_prompts_read(&arm->prompts, wish->input, arm->folder, &arm->model.arch, err);
}

void ls_parity_arm_finish(struct ls_parity_arm *arm)
{
    ls_prompts_finish(&arm->prompts);
    ls_replay_model_finish(&arm->model);
}

struct ls_probe_config ls_parity_arm_config(const struct ls_parity_arm *arm,
                                            const struct ls_probe_wish *wish,
                                            struct ls_probe_prompt *prompt)
{
    struct ls_probe_config config = { .arch = &arm->model.arch,
                                      .ckpt = arm->model.ckpt,
                                      .kernels = arm->kernels,
                                      .n_threads = arm->n_threads,
                                      .kind = wish->kind,
                                      .layer = wish->layer,
                                      .prompts = arm->prompts.list,
                                      .n_prompts = arm->prompts.n };
    if (wish->kind == LS_PROBE_ROWS)
        return config;
    *prompt = arm->prompts.list[wish->request];
    if (wish->n && wish->n < prompt->n)
        prompt->n = wish->n;
    config.prompts = prompt;
    config.n_prompts = 1;
    return config;
}

/* --- another program -------------------------------------------------------------------------
 */

struct words {
    const char *list[32];
    char text[8][32];
    int n, n_text;
};

static void add(struct words *w, const char *name, const char *value)
{
    w->list[w->n++] = name;
    w->list[w->n++] = value;
}

static void add_number(struct words *w, const char *name, long long value)
{
    char *const text = w->text[w->n_text++];
    snprintf(text, sizeof w->text[0], "%lld", value);
    add(w, name, text);
}

static void spell(struct words *w, const struct ls_parity_arm *arm,
                  const struct ls_probe_wish *wish, const char *path)
{
    w->list[w->n++] = arm->wish.program;
    w->list[w->n++] = "parity";
    add(w, "--tap", path);
    add(w, "--model", arm->folder);
    add(w, "--input", arm->wish.input);
    add(w, "--dtype", arm->wish.f32 ? "f32" : "auto");
    add_number(w, "--threads", arm->n_threads);
    if (arm->wish.cpu >= 0)
        add(w, "--cpu", ls_cpu_path_name((enum ls_cpu_path)arm->wish.cpu));
    if (arm->wish.context)
        add_number(w, "--context", arm->wish.context);
    if (wish->kind != LS_PROBE_ROWS)
        add(w, "--request", arm->prompts.names[wish->request]);
    if (wish->kind == LS_PROBE_OPERATIONS)
        add_number(w, "--tap-layer", wish->layer);
    if (wish->n)
        add_number(w, "--tap-position", (long long)wish->n - 1);
    w->list[w->n] = NULL;
}

/* The last line that the child wrote. */
static void last_words(char *out, size_t size, const char *log)
{
    FILE *const f = fopen(log, "r");
    char line[512];
    snprintf(out, size, "it said nothing");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            snprintf(out, size, "%s", line);
    }
    if (f)
        fclose(f);
}

static ls_status run_child(const struct words *w, const char *log, struct ls_err *err)
{
    pid_t pid;
    int status = 0;
    char said[512];
    const struct ls_child child = { .words = w->list, .log = log };
    const ls_status s = ls_child_start(&pid, &child, err);
    if (s)
        return s;
    while (!ls_child_has_ended(pid, &status))
        usleep(2000);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return LS_OK;
    last_words(said, sizeof said, log);
    if (WIFSIGNALED(status))
        return ls_fail(err, LS_E_COMPUTE, "%.300s was ended by signal %d: %s", w->list[0],
                       WTERMSIG(status), said);
    return ls_fail(err, LS_E_COMPUTE, "%.300s ended with %d, expected 0: %s", w->list[0],
                   WEXITSTATUS(status), said);
}

ls_status ls_parity_arm_probe(void *arg, const struct ls_probe_wish *wish, const char *path,
                              struct ls_err *err)
{
    const struct ls_parity_arm *const arm = arg;
    struct ls_probe_prompt prompt;
    if (arm->wish.program) {
        struct words words = { .n = 0 };
        char log[LS_LOCATE_PATH + 8];
        spell(&words, arm, wish, path);
        snprintf(log, sizeof log, "%s.log", path);
        unlink(log);
        return run_child(&words, log, err);
    }
    const struct ls_probe_config config = ls_parity_arm_config(arm, wish, &prompt);
    return ls_probe_write(path, &config, err);
}
