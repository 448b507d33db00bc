#include "app/parity_locate.h"

#include "app/parity_arm.h"
#include "app/parity_view.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct search {
    struct ls_parity_arm arms[2];
    bool has_other; /* the second arm is there, not a dump */
    char folder[LS_MAX_PATH];
    bool made; /* the folder is this program's, and goes */
    struct ls_location location;
    struct ls_proposals proposals;
};

ls_status ls_parity_wish_of(struct ls_parity_wish *wish, const struct ls_options *o,
                            struct ls_err *err)
{
    if (!ls_options_is_set(o, LS_OPT_MODEL) || !ls_options_is_set(o, LS_OPT_INPUT))
        return ls_fail(err, LS_E_USAGE, "parity: --locate and --tap need --model and --input");
    *wish = (struct ls_parity_wish){
        .model = ls_options_text(o, LS_OPT_MODEL),
        .input = ls_options_text(o, LS_OPT_INPUT),
        .f32 = ls_options_number(o, LS_OPT_DTYPE) == 1,
        .cpu = ls_options_is_set(o, LS_OPT_CPU) ? (int)ls_options_number(o, LS_OPT_CPU) : -1,
        .context = (int)ls_options_number(o, LS_OPT_CONTEXT),
        .threads = (int)ls_options_number(o, LS_OPT_THREADS),
    };
    return LS_OK;
}

static void against(struct ls_parity_wish *wish, const struct ls_options *o)
{
    if (ls_options_is_set(o, LS_OPT_AGAINST_MODEL))
        wish->model = ls_options_text(o, LS_OPT_AGAINST_MODEL);
    if (ls_options_is_set(o, LS_OPT_AGAINST_DTYPE))
        wish->f32 = ls_options_number(o, LS_OPT_AGAINST_DTYPE) == 1;
    if (ls_options_is_set(o, LS_OPT_AGAINST_CPU))
        wish->cpu = (int)ls_options_number(o, LS_OPT_AGAINST_CPU);
    wish->program = ls_options_text(o, LS_OPT_AGAINST_PROGRAM);
}

static ls_status check(const struct ls_options *o, struct ls_err *err)
{
    const bool hidden = ls_options_is_set(o, LS_OPT_AGAINST_HIDDEN);
    int n = 0;
    for (int i = LS_OPT_AGAINST_MODEL; i <= LS_OPT_AGAINST_PROGRAM; i++)
        n += ls_options_is_set(o, i);
    if (!n && !hidden)
        return ls_fail(err, LS_E_USAGE,
                       "--locate: both arms are the same; say how the other "
                       "one differs, with --against-...");
    if (n && hidden)
        return ls_fail(err, LS_E_USAGE,
                       "--against-hidden is the other arm; no other "
                       "--against option goes with it");
    if (hidden && !ls_options_is_set(o, LS_OPT_REQUEST))
        return ls_fail(err, LS_E_USAGE, "--against-hidden needs --request");
    return LS_OK;
}

/* --- the folder of probes --------------------------------------------------------------------
 */

static ls_status make_folder(struct search *s, const struct ls_options *o, struct ls_err *err)
{
    const char *const wished = ls_options_text(o, LS_OPT_OUTPUT);
    if (wished && strlen(wished) >= sizeof s->folder)
        return ls_fail(err, LS_E_USAGE, "--output: longer than %zu bytes",
                       sizeof s->folder - 1);
    snprintf(s->folder, sizeof s->folder, "%s", wished ? wished : P_tmpdir "/lockstep-XXXXXX");
    s->made = !wished && mkdtemp(s->folder);
    if (s->made || (wished && (!mkdir(wished, 0777) || errno == EEXIST)))
        return LS_OK;
    return ls_fail(err, LS_E_IO, "%s: cannot be made: %s", s->folder, strerror(errno));
}

static void remove_folder(const struct search *s)
{
    DIR *const dir = s->made ? opendir(s->folder) : NULL;
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));)
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(s->folder);
}

/* --- the search ------------------------------------------------------------------------------
 */

static struct ls_locate_config config_of(struct search *s)
{
    const struct ls_arch *const arch = &s->arms[0].model.arch;
    struct ls_locate_config config = {
        .folder = s->folder,
        .n_requests = s->arms[0].prompts.n,
        .n_layers = arch->n_layers,
        .dtype = { arch->dtype, s->has_other ? s->arms[1].model.arch.dtype : arch->dtype },
    };
    for (int i = 0; i < 2; i++)
        config.arms[i] = (struct ls_locate_arm){ ls_parity_arm_probe, &s->arms[i] };
    return config;
}

/* One request of the input alone; both arms must have it at the same place. */
static ls_status narrow(const struct search *s, const struct ls_options *o,
                        struct ls_locate_config *config, struct ls_err *err)
{
    const char *const name = ls_options_text(o, LS_OPT_REQUEST);
    if (!name)
        return LS_OK;
    config->one_request = true;
    return ls_prompts_find(&s->arms[0].prompts, name, &config->request, err);
}

static ls_status propose(struct search *s, const struct ls_locate_config *locate,
                         struct ls_err *err)
{
    const struct ls_location *const l = &s->location;
    struct ls_probe_prompt prompt;
    const struct ls_probe_wish wish = {
        .kind = LS_PROBE_OPERATIONS, .layer = l->layer, .request = l->request, .n = l->n
    };
    const struct ls_quirk_case c = { .where = l,
                                     .locate = locate,
                                     .config =
                                         ls_parity_arm_config(&s->arms[0], &wish, &prompt),
                                     .other = &s->arms[1].model.arch,
                                     .other_ckpt = s->arms[1].model.ckpt };
    return l->apart == LS_APART_OP ? ls_quirks_propose(&s->proposals, &c, err) : LS_OK;
}

static ls_status search(struct search *s, const struct ls_options *o, struct ls_err *err)
{
    struct ls_locate_config config = config_of(s);
    ls_status st = narrow(s, o, &config, err);
    if (st)
        return st;
    if (!s->has_other)
        return ls_locate_external(&s->location, &config,
                                  ls_options_text(o, LS_OPT_AGAINST_HIDDEN),
                                  ls_options_text(o, LS_OPT_HIDDEN_TENSOR), err);
    st = ls_locate(&s->location, &config, err);
    return st ? st : propose(s, &config, err);
}

static ls_status run(struct search *s, const struct ls_options *o, struct ls_err *err)
{
    struct ls_parity_wish wish;
    ls_status st = ls_parity_wish_of(&wish, o, err);
    if (!st)
        st = check(o, err);
    if (!st)
        st = ls_parity_arm_open(&s->arms[0], &wish, err);
    if (!st && s->has_other) {
        against(&wish, o);
        st = ls_parity_arm_open(&s->arms[1], &wish, err);
    }
    if (!st)
        st = make_folder(s, o, err);
    return st ? st : search(s, o, err);
}

static ls_status show(const struct search *s, const struct ls_options *o, struct ls_err *err)
{
    const struct ls_parity_view view = { .location = &s->location,
                                         .arch = &s->arms[0].model.arch,
                                         .names = s->arms[0].prompts.names,
                                         .proposals = &s->proposals };
    if (ls_options_flag(o, LS_OPT_JSON))
        return ls_parity_print_json(&view, err);
    ls_parity_print(&view);
    return LS_OK;
}

int ls_parity_locate(struct ls_app *app)
{
    struct ls_err err;
    const struct ls_options *const o = &app->options;
    struct search s = { .has_other = !ls_options_is_set(o, LS_OPT_AGAINST_HIDDEN) };
    ls_status st = run(&s, o, &err);
    if (!st)
        st = show(&s, o, &err);
    int code = s.location.apart == LS_APART_NOT ? LS_EXIT_GOOD : LS_EXIT_DIFFERENT;
    if (st) /* an arm that failed was under way */
        code = ls_app_fail(
            app, st == LS_E_COMPUTE ? LS_EXIT_FAILED : ls_app_code_before_start(st), &err);
    ls_location_finish(&s.location);
    ls_parity_arm_finish(&s.arms[0]);
    ls_parity_arm_finish(&s.arms[1]);
    remove_folder(&s);
    return code;
}
