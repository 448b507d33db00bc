#include "app/parity_locate.h"

#include "app/parity_arm.h"

static ls_status tap(const struct ls_options *o, struct ls_err *err)
{
    struct ls_parity_wish wish;
    struct ls_parity_arm arm = { .n_threads = 0 };
    struct ls_probe_wish probe = { .kind = LS_PROBE_ROWS };
    const bool one = ls_options_is_set(o, LS_OPT_REQUEST);
    const bool layer = ls_options_is_set(o, LS_OPT_TAP_LAYER);
    ls_status s = ls_parity_wish_of(&wish, o, err);
    if (!s && !one && (layer || ls_options_is_set(o, LS_OPT_TAP_POSITION)))
        s = ls_fail(err, LS_E_USAGE, "--tap-layer and --tap-position need --request");
    if (!s)
        s = ls_parity_arm_open(&arm, &wish, err);
    if (!s && one) {
        probe.kind = layer ? LS_PROBE_OPERATIONS : LS_PROBE_LAYERS;
        probe.layer = (int)ls_options_number(o, LS_OPT_TAP_LAYER);
        s = ls_prompts_find(&arm.prompts, ls_options_text(o, LS_OPT_REQUEST), &probe.request,
                            err);
    }
    if (!s && ls_options_is_set(o, LS_OPT_TAP_POSITION))
        probe.n = (uint32_t)ls_options_number(o, LS_OPT_TAP_POSITION) + 1;
    if (!s)
        s = ls_parity_arm_probe(&arm, &probe, ls_options_text(o, LS_OPT_TAP), err);
    ls_parity_arm_finish(&arm);
    return s;
}

int ls_parity_tap(struct ls_app *app)
{
    struct ls_err err;
    const ls_status s = tap(&app->options, &err);
    return s ? ls_app_fail(app, ls_app_code_before_start(s), &err) : LS_EXIT_GOOD;
}
