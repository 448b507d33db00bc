#include "base/fault.h"

#ifdef LS_MUTANTS
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum kind { NONE, KILL, STOP, ABORT, EXIT, DISK, MALLOC, ERROR, MARK, CUT, N_KINDS };

static const char *const kinds[N_KINDS] = {
    [NONE] = "none", [KILL] = "kill",     [STOP] = "stop",   [ABORT] = "abort", [EXIT] = "exit",
    [DISK] = "disk", [MALLOC] = "malloc", [ERROR] = "error", [MARK] = "mark",   [CUT] = "cut",
};
static const char *const phases[LS_N_FAULT_PHASES] = {
    [LS_FAULT_START] = "start",       [LS_FAULT_VOTE] = "vote",
    [LS_FAULT_LOAD] = "load",         [LS_FAULT_PREFILL] = "prefill",
    [LS_FAULT_DECODE] = "decode",     [LS_FAULT_GATHER] = "gather",
    [LS_FAULT_SHUTDOWN] = "shutdown",
};

static struct {
    enum kind kind;
    int rank;
    enum ls_fault_phase phase;
} wanted;
static atomic_bool known, done, no_memory;

static int index_of(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    fprintf(stderr, "unknown word %s in LOCKSTEP_FAULT\n", name);
    _exit(99);
}

static void read_wish(void)
{
    const char *text = getenv("LOCKSTEP_FAULT");
    char kind[16], phase[16];
    known = 1;
    if (!text || !*text)
        return;
    if (sscanf(text, "%15[a-z]:%d:%15[a-z]", kind, &wanted.rank, phase) != 3) {
        fprintf(stderr, "LOCKSTEP_FAULT=%s is not kind:rank:phase\n", text);
        _exit(99);
    }
    wanted.kind = (enum kind)index_of(kinds, N_KINDS, kind);
    wanted.phase = (enum ls_fault_phase)index_of(phases, LS_N_FAULT_PHASES, phase);
}

static void fill_disk(void)
{
    const struct rlimit none = { .rlim_cur = 0, .rlim_max = 0 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
}

static void make_mark(void)
{
    const char *path = getenv("LOCKSTEP_FAULT_FILE");
    int fd = path ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
}

/* Until the test, which cuts the network meanwhile, has taken the mark away. */
static void wait_for_cut(void)
{
    const char *path = getenv("LOCKSTEP_FAULT_FILE");
    make_mark();
    for (int i = 0; i < 10000 && path && !access(path, F_OK); i++)
        usleep(1000);
}

static int happen(void)
{
    switch (wanted.kind) {
    case KILL:
        raise(SIGKILL);
        break;
    case STOP:
        raise(SIGSTOP);
        break;
    case ABORT:
        abort();
    case EXIT:
        _exit(0);
    case DISK:
        fill_disk();
        break;
    case MALLOC:
        no_memory = 1;
        break;
    case MARK:
        make_mark();
        break;
    case CUT:
        wait_for_cut();
        break;
    default:
        break;
    }
    return wanted.kind == ERROR;
}

int ls_fault_at(enum ls_fault_phase phase, int rank)
{
    if (!known)
        read_wish();
    if (wanted.kind == NONE || phase != wanted.phase || rank != wanted.rank)
        return 0;
    if (atomic_exchange(&done, 1))
        return 0;
    return happen();
}

int ls_fault_of_memory(void)
{
    return no_memory;
}
#else
extern int ls_fault_unused; /* an empty translation unit is not ISO C */
#endif
