/* lockstep: finds the command, parses its words, and ends the process. */
#include "app/app.h"
#include "app/launch.h"
#include "comm/comm.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_FOR_RANK_0_S = 60 };

static int (*const commands[LS_N_CMDS])(struct ls_app *app) = {
    [LS_CMD_RUN] = ls_cmd_run,           [LS_CMD_SCORE] = ls_cmd_run,
    [LS_CMD_RENDER] = ls_cmd_render,     [LS_CMD_PLAN] = ls_cmd_plan,
    [LS_CMD_INSPECT] = ls_cmd_inspect,   [LS_CMD_COMPARE] = ls_cmd_compare,
    [LS_CMD_EXPORT] = ls_cmd_export,     [LS_CMD_PARITY] = ls_cmd_parity,
    [LS_CMD_SHOW] = ls_cmd_show,         [LS_CMD_BENCH] = ls_cmd_bench,
    [LS_CMD_KEYGEN] = ls_cmd_keygen,     [LS_CMD_STATUS] = ls_cmd_status,
    [LS_CMD_SELFTEST] = ls_cmd_selftest, [LS_CMD_VERSION] = ls_cmd_version,
    [LS_CMD_VERIFY] = ls_cmd_verify,     [LS_CMD_REPORT] = ls_cmd_report,
};

/* Commands in which ranks above 0 have a part. */
static bool is_for_all_ranks(int (*command)(struct ls_app *app))
{
    return command == ls_cmd_run || command == ls_cmd_bench;
}

static int help(const struct ls_app *app, int command)
{
    if (app->rank == 0)
        ls_options_help(&ls_table, command, stdout);
    return LS_EXIT_GOOD;
}

/* Of the words, before MPI. Rank 0 speaks for all that have the same ones. */
static int fail(struct ls_app *app, const struct ls_err *err)
{
    char host[64] = "unknown";
    if (app->rank == 0 || !ls_launch_failed_alone())
        return ls_app_fail(app, LS_EXIT_USAGE, err);
    gethostname(host, sizeof host - 1);
    fprintf(stderr, "lockstep: rank %d on %s: %s\n", app->rank, host, err->text);
    app->failed_alone = true;
    return LS_EXIT_USAGE;
}

static int help_on(struct ls_app *app, const char *name)
{
    struct ls_err err;
    const int command = ls_options_command(&ls_table, name, &err);
    return command < 0 ? fail(app, &err) : help(app, command);
}

/* The words that are not commands; -1 when `word` is none of them. */
static int run_word(struct ls_app *app, const char *word, const char *next)
{
    if (!strcmp(word, "-h") || !strcmp(word, "--help") || !strcmp(word, "help"))
        return next ? help_on(app, next) : help(app, -1);
    if (!strcmp(word, "--version"))
        return ls_cmd_version(app);
    if (strcmp(word, "--man"))
        return -1;
    if (app->rank == 0)
        ls_options_man(&ls_table, stdout);
    return LS_EXIT_GOOD;
}

/* No words at all: rank 0 shows the whole help. */
static int run_nothing(struct ls_app *app)
{
    struct ls_err err;
    if (app->rank != 0) {
        ls_fail(&err, LS_E_USAGE, "no command");
        return fail(app, &err);
    }
    ls_options_help(&ls_table, -1, stderr);
    return LS_EXIT_USAGE;
}

static int run_command(struct ls_app *app, int argc, char **argv)
{
    struct ls_err err;
    const int command = ls_options_command(&ls_table, argv[0], &err);
    if (command < 0)
        return fail(app, &err);
    if (ls_options_want_help(argc - 1, argv + 1))
        return help(app, command);
    ls_options_init(&app->options, &ls_table, command);
    int code;
    if (ls_options_parse(&app->options, argc - 1, argv + 1, &err))
        code = fail(app, &err);
    else if (app->rank == 0 || is_for_all_ranks(commands[command]))
        code = commands[command](app);
    else
        code = LS_EXIT_GOOD;
    if (!app->abandoned)
        ls_options_finish(&app->options);
    return code;
}

static int run_words(struct ls_app *app, int argc, char **argv)
{
    if (argc < 1)
        return run_nothing(app);
    const int code = run_word(app, argv[0], argc > 1 ? argv[1] : NULL);
    return code < 0 ? run_command(app, argc, argv) : code;
}

/* What was printed must have arrived: a full disk is a failure. */
static int flush_output(const struct ls_app *app, int code)
{
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    ls_app_warn(app, "standard output cannot be written");
    return code == LS_EXIT_GOOD ? LS_EXIT_FAILED : code;
}

/* After a failure in which a peer did not come to the common end, MPI is still up: the launcher
 * must hear of it now and not when somebody notices. */
static void end_peers(const struct ls_app *app, int code)
{
    int up = 0, down = 0, size = 1;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (!up && app->rank == 0 && code != LS_EXIT_GOOD)
        ls_launch_let_others_end();
    if (!up || down)
        return;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2)
        return;
    if (app->rank != 0 && code == LS_EXIT_GOOD) {
        /* rank 0 may still be writing rows, and ends all ranks when that is done: by a signal
         */
        if (sleep(WAIT_FOR_RANK_0_S))
            return;
        code = LS_EXIT_FAILED;
        fprintf(stderr, "lockstep: rank %d: rank 0 has not ended after %d s\n", app->rank,
                WAIT_FOR_RANK_0_S);
    }
    MPI_Abort(MPI_COMM_WORLD, code);
}

int main(int argc, char **argv)
{
    struct ls_app app = { .rank = ls_launch_rank(),
                          .mpi = ls_launch_is_mpi(),
                          .launched = ls_comm_launcher_ranks(),
                          .argc = argc,
                          .argv = argv };
    /* a closed pipe or a file that may not grow is an error of that write, not of the job */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    const int code = flush_output(&app, run_words(&app, argc - 1, argv + 1));
    end_peers(&app, code);
    return app.rank == 0 || app.failed_alone ? code : LS_EXIT_GOOD;
}
