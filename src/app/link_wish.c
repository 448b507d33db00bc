#include "app/link_wish.h"

#include "app/table.h"
#include "pipeline/secret_file.h"

#include <stdio.h>

void ls_secret_take_fd(struct ls_given_secret *given, const struct ls_options *o)
{
    *given = (struct ls_given_secret){ .secret = NULL };
    if (ls_options_is_set(o, LS_OPT_SECRET_FD) &&
        ls_secret_read_fd(&given->secret, (int)ls_options_number(o, LS_OPT_SECRET_FD),
                          &given->err))
        ls_fail_prefix(&given->err, "--secret-fd");
}

static ls_status read_secret(struct ls_link_wish *wish, struct ls_given_secret *given,
                             const struct ls_options *o, struct ls_err *err)
{
    const char *const path = ls_options_text(o, LS_OPT_SECRET_FILE);
    const bool has_fd = ls_options_is_set(o, LS_OPT_SECRET_FD);
    if (path && has_fd)
        return ls_fail(err, LS_E_USAGE, "--secret-file and --secret-fd: give one of them");
    if (given->err.status)
        return ls_fail(err, given->err.status, "%s", given->err.text);
    if (path && ls_secret_read_file(&given->secret, path, err))
        return ls_fail_prefix(err, "--secret-file");
    wish->secret = given->secret;
    if (given->secret)
        wish->origin = path ? LS_SECRET_FILE : LS_SECRET_FD;
    return LS_OK;
}

ls_status ls_link_wish_of(struct ls_link_wish *wish, struct ls_given_secret *given,
                          const struct ls_options *o, struct ls_err *err)
{
    /* The words of --link stand from the strongest to the weakest. */
    static const enum ls_level levels[] = { LS_LEVEL_SEALED, LS_LEVEL_SIGNED, LS_LEVEL_PLAIN };
    *wish = (struct ls_link_wish){
        .level = levels[ls_options_number(o, LS_OPT_LINK)],
        .plain_across_hosts = ls_options_flag(o, LS_OPT_ALLOW_PLAIN_ACROSS_HOSTS),
        .rekey_frames = ls_options_number(o, LS_OPT_REKEY_FRAMES),
    };
    const ls_status s = read_secret(wish, given, o, err);
    if (wish->level == LS_LEVEL_PLAIN) { /* there is nothing to use it for */
        wish->secret = NULL;
        wish->origin = LS_SECRET_NONE;
    }
    wish->status = s;
    if (s)
        snprintf(wish->text, sizeof wish->text, "%s", err->text);
    return s;
}
