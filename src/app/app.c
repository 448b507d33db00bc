#include "app/app.h"

#include <stdarg.h>
#include <stdio.h>

int ls_app_fail(const struct ls_app *app, enum ls_exit code, const struct ls_err *err)
{
    ls_app_warn(app, "%s", err->text);
    return code;
}

void ls_app_warn(const struct ls_app *app, const char *fmt, ...)
{
    char text[LS_ERR_TEXT];
    va_list ap;
    if (app->rank != 0 || app->quiet)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "lockstep: %s\n", text);
}

void ls_app_warn_of_unused(const struct ls_app *app, size_t n, const char *first)
{
    if (n == 1)
        ls_app_warn(app,
                    "warning: a tensor of the checkpoint has no part in this config.json: "
                    "'%.200s'",
                    first);
    else if (n)
        ls_app_warn(app,
                    "warning: %zu tensors of the checkpoint have no part in this "
                    "config.json, the first is '%.200s'",
                    n, first);
}

enum ls_exit ls_app_code_before_start(ls_status status)
{
    if (status == LS_E_FULL)
        return LS_EXIT_FAILED;
    return status == LS_E_USAGE || status == LS_E_IO ? LS_EXIT_USAGE : LS_EXIT_REFUSED;
}

ls_status ls_app_read_config(struct ls_app *app, struct ls_err *err)
{
    const char *const path = ls_options_text(&app->options, LS_OPT_CONFIG);
    return path ? ls_options_read_file(&app->options, path, err) : LS_OK;
}

static bool is_run(const struct ls_options *o)
{
    return o->command == LS_CMD_RUN || o->command == LS_CMD_SCORE;
}

ls_status ls_app_configure(struct ls_app *app, bool *done, struct ls_err *err)
{
    struct ls_options *const o = &app->options;
    const ls_status s = ls_app_read_config(app, err);
    *done = !s && ls_options_flag(o, LS_OPT_PRINT_CONFIG);
    if (*done)
        ls_options_print(o, stdout);
    if (!s && is_run(o) && ls_options_flag(o, LS_OPT_DRY_RUN))
        o->command = LS_CMD_PLAN; /* which needs neither input nor output */
    return s || *done ? s : ls_options_check(o, err);
}
