/* verify: what a certificate says, against model, requests and results, and recomputed. */
#include "app/model_folder.h"
#include "app/verify.h"

#include <inttypes.h>
#include <stdio.h>

/* The arithmetic of the certificate: its context, and float32 where the checkpoint's own dtype
 * is another. */
static ls_status open_model(struct ls_verify *v, struct ls_err *err)
{
    const struct ls_cert_head *const h = &v->cert.head;
    struct ls_arch_wish wish = { .context = h->context };
    ls_status s = ls_replay_model_open(&v->model, v->folder, &wish, err);
    if (s || (int)v->model.arch.dtype == h->dtype || h->dtype != LS_FMT_F32)
        return s;
    ls_replay_model_finish(&v->model);
    wish.f32_activations = true;
    return ls_replay_model_open(&v->model, v->folder, &wish, err);
}

static ls_status check_all(struct ls_verify *v, struct ls_err *err)
{
    ls_status s = ls_verify_certificate(v, err);
    if (!s)
        s = ls_verify_rows(v, err);
    if (!s)
        s = open_model(v, err);
    if (!s)
        s = ls_verify_model(v, err);
    return s ? s : ls_verify_leaves(v, err);
}

static ls_status open_all(struct ls_verify *v, const char *path, struct ls_err *err)
{
    ls_status s =
        ls_model_folder(v->folder, sizeof v->folder, ls_options_text(v->o, LS_OPT_MODEL), err);
    if (!s)
        s = ls_mapping_open(&v->file, path, err);
    if (!s)
        s = ls_cert_parse(&v->cert, v->file.base, v->file.size, err);
    return s;
}

int ls_cmd_verify(struct ls_app *app)
{
    struct ls_err err;
    struct ls_verify v = { .o = &app->options };
    if (ls_options_check(v.o, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    ls_status s = open_all(&v, v.o->operands[0], &err);
    if (!s)
        s = check_all(&v, &err);
    ls_replay_model_finish(&v.model);
    ls_mapping_close(&v.file);
    if (s)
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    if (v.n_found)
        printf("NO: %" PRIu64 " difference%s\n", v.n_found, v.n_found == 1 ? "" : "s");
    else
        printf("yes: all of it holds\n");
    return v.n_found ? LS_EXIT_DIFFERENT : LS_EXIT_GOOD;
}
