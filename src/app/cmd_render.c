/* render: chats into prompts, ahead of a run. */
#include "app/app.h"
#include "app/chat_process.h"
#include "app/model_folder.h"
#include "app/paths.h"
#include "app/wish.h"
#include "jobs/render.h"

#include <stdio.h>

static ls_status render(struct ls_chat_process *chat, const struct ls_options *o,
                        struct ls_render_counts *counts, struct ls_err *err)
{
    char folder[LS_MAX_PATH], now[LS_CHAT_TIME];
    ls_status s = ls_paths_check(o, err);
    if (!s)
        s = ls_model_folder(folder, sizeof folder, ls_options_text(o, LS_OPT_MODEL), err);
    if (!s)
        s = ls_chat_time_of(now, o, err);
    if (!s)
        s = ls_chat_set(chat, folder, ls_options_text(o, LS_OPT_CHAT_TEMPLATE), now, err);
    if (!s)
        s = ls_render_file(ls_options_text(o, LS_OPT_INPUT), ls_options_text(o, LS_OPT_OUTPUT),
                           &chat->chat, counts, err);
    return s;
}

int ls_cmd_render(struct ls_app *app)
{
    struct ls_err err;
    struct ls_chat_process chat;
    struct ls_render_counts counts;
    ls_status s = ls_options_check(&app->options, &err);
    if (s)
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    ls_chat_fork(&chat);
    s = render(&chat, &app->options, &counts, &err);
    ls_chat_end(&chat);
    if (s)
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    printf("%llu lines, %llu chats rendered, %llu that cannot be\n",
           (unsigned long long)counts.lines, (unsigned long long)counts.rendered,
           (unsigned long long)counts.failed);
    if (!counts.failed)
        return LS_EXIT_GOOD;
    ls_app_warn(app, "line %llu: %s", (unsigned long long)counts.failed_line, counts.why);
    return LS_EXIT_DIFFERENT;
}
