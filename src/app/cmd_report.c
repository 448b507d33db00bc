/* report: the page of a sweep. */
#include "app/app.h"
#include "app/sweep_folder.h"
#include "app/sweep_page.h"

#include <stdio.h>

int ls_cmd_report(struct ls_app *app)
{
    struct ls_err err;
    char beside[LS_SWEEP_PATH];
    const struct ls_options *const o = &app->options;
    const char *const folder = o->operands[0], *output = ls_options_text(o, LS_OPT_OUTPUT);
    ls_status s = ls_options_check(o, &err);
    if (!s &&
        (size_t)snprintf(beside, sizeof beside, "%s/report.html", folder) >= sizeof beside)
        s = ls_fail(&err, LS_E_USAGE, "%s: the path is too long", folder);
    if (!output)
        output = beside;
    if (!s)
        s = ls_sweep_page(folder, output, &err);
    if (s)
        return ls_app_fail(
            app, s == LS_E_IO || s == LS_E_FULL ? LS_EXIT_FAILED : ls_app_code_before_start(s),
            &err);
    printf("%s\n", output);
    return LS_EXIT_GOOD;
}
