/* inspect: describes a checkpoint, and says plainly why one cannot be run. */
#include "app/app.h"
#include "app/inspect.h"
#include "app/model_folder.h"

#include <stdio.h>

static int inspect(const struct ls_app *app, const char *folder)
{
    struct ls_inspection in;
    const struct ls_options *const o = &app->options;
    const struct ls_arch_wish wish = { .f32_activations =
                                           ls_options_number(o, LS_OPT_DTYPE) == 1,
                                       .context = (int)ls_options_number(o, LS_OPT_CONTEXT) };
    ls_inspect(&in, folder, &wish);
    int code = ls_inspect_reason(&in) ? LS_EXIT_REFUSED : LS_EXIT_GOOD;
    if (ls_options_flag(o, LS_OPT_JSON)) {
        json_t *const json = ls_inspect_to_json(&in);
        if (json) {
            json_dumpf(json, stdout, JSON_INDENT(2));
            putchar('\n');
        } else { /* a tensor's name may be no UTF-8 */
            ls_app_warn(app, "%s cannot be described in JSON", folder);
            code = LS_EXIT_FAILED;
        }
        json_decref(json);
    } else {
        ls_inspect_print(&in, stdout);
    }
    ls_inspect_finish(&in);
    return code;
}

int ls_cmd_inspect(struct ls_app *app)
{
    struct ls_err err;
    char folder[4096];
    bool done;
    struct ls_options *const o = &app->options;
    ls_status s = ls_app_configure(app, &done, &err);
    if (!s && done)
        return LS_EXIT_GOOD;
    const char *const model = o->n_operands ? o->operands[0] : ls_options_text(o, LS_OPT_MODEL);
    if (!s && !model)
        s = ls_fail(&err, LS_E_USAGE, "inspect needs a checkpoint folder: inspect DIR");
    if (!s)
        s = ls_model_folder(folder, sizeof folder, model, &err);
    return s ? ls_app_fail(app, LS_EXIT_USAGE, &err) : inspect(app, folder);
}
