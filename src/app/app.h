/* The program around the modules: one file per command, and what the commands share.
 *
 * Layer: app, the top. Only here is anything printed for the user, and only by rank 0; only
 * here does a status become an exit code. A command gets its words already parsed; every rank
 * that the launcher started comes here, but only `run` and `score`, which are one, and `bench
 * link` do anything on ranks above 0. */
#ifndef LS_APP_APP_H
#define LS_APP_APP_H

#include "app/table.h"

/* Exit codes of rank 0 (docs/formats.md); the other ranks end with 0. */
enum ls_exit {
    LS_EXIT_GOOD = 0,
    LS_EXIT_USAGE = 2,
    LS_EXIT_REFUSED = 3,
    LS_EXIT_FAILED = 4,
    LS_EXIT_DIFFERENT = 10,   /* error rows, or compared sets that differ */
    LS_EXIT_ARMS_FAILED = 11, /* parity */
    LS_EXIT_DRAINED = 75,
};

struct ls_app {
    struct ls_options options;
    int rank;          /* of this process, by the launcher's word */
    bool mpi;          /* a launcher started this process */
    int launched;      /* ranks that the launcher started; 0: none, or unknown */
    bool quiet;        /* what is left to be said has been said by another rank */
    bool end_now;      /* a rank is lost: the process ends without waiting for anybody */
    bool failed_alone; /* this rank's words are wrong and rank 0's are not: its code counts */
    int argc;          /* the command line, for the record of who made what */
    char **argv;
    bool abandoned; /* a thread that still reads the options is left to the process's end */
};

/* Prints err's line on rank 0 and returns `code`. */
int ls_app_fail(const struct ls_app *app, enum ls_exit code, const struct ls_err *err);
/* A line on standard error, on rank 0. */
void ls_app_warn(const struct ls_app *app, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* That n tensors of a checkpoint are not used; nothing for n = 0. */
void ls_app_warn_of_unused(const struct ls_app *app, size_t n, const char *first);

/* The code for a failure before start-up: usage and files that cannot be opened are
 * LS_EXIT_USAGE, a full disk is LS_EXIT_FAILED, everything else is LS_EXIT_REFUSED. */
enum ls_exit ls_app_code_before_start(ls_status status);

/* Reads --config, if there is one; it wins over defaults only. */
ls_status ls_app_read_config(struct ls_app *app, struct ls_err *err);
/* Rank 0: that, and prints --print-config. *done: there is nothing more to do. */
ls_status ls_app_configure(struct ls_app *app, bool *done, struct ls_err *err);

int ls_cmd_run(struct ls_app *app); /* and score */
int ls_cmd_render(struct ls_app *app);
int ls_cmd_plan(struct ls_app *app);
int ls_cmd_inspect(struct ls_app *app);
int ls_cmd_compare(struct ls_app *app);
int ls_cmd_export(struct ls_app *app);
int ls_cmd_parity(struct ls_app *app);
int ls_cmd_report(struct ls_app *app);
int ls_cmd_show(struct ls_app *app);
int ls_cmd_status(struct ls_app *app);
int ls_cmd_bench(struct ls_app *app);
int ls_cmd_keygen(struct ls_app *app);
int ls_cmd_verify(struct ls_app *app);
int ls_cmd_selftest(struct ls_app *app);
int ls_cmd_version(struct ls_app *app);

/* The plan behind `plan` and `run --dry-run`, configured already. chat: forked. */
struct ls_chat_process;
int ls_plan_command(struct ls_app *app, struct ls_chat_process *chat);

#endif
