/* export: any set of tensors that compare reads, as one safetensors file. */
#include "app/app.h"
#include "parity/export.h"

int ls_cmd_export(struct ls_app *app)
{
    struct ls_err err;
    struct ls_dump *dump = NULL;
    const struct ls_options *const o = &app->options;
    if (ls_options_check(o, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    ls_status s = ls_dump_open(&dump, o->operands[0], &err);
    if (!s)
        s = ls_dump_export(dump, o->operands[1], &err);
    ls_dump_close(dump);
    return s ? ls_app_fail(app, ls_app_code_before_start(s), &err) : LS_EXIT_GOOD;
}
