/* status: how far a job is, without disturbing it. */
#include "app/app.h"
#include "jobs/look.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *read_manifest(const char *folder)
{
    char *path;
    if (asprintf(&path, "%s/manifest.json", folder) < 0)
        return NULL;
    json_t *const manifest = json_load_file(path, 0, NULL);
    free(path);
    return manifest;
}

static const char *state_of(const struct ls_job_look *look, const json_t *manifest)
{
    if (look->held)
        return "running";
    if (json_is_true(json_object_get(manifest, "complete")))
        return "complete";
    return look->has_journal ? "stopped" : "not begun";
}

static void print(const char *output, const struct ls_job_look *look, const json_t *manifest)
{
    const struct ls_job_counts *const c = &look->counts;
    const char *const error = json_string_value(json_object_get(manifest, "error"));
    printf("%s: %s", output, state_of(look, manifest));
    if (look->held)
        printf(" (%s)", look->owner);
    printf("\nrows            %" PRIu64 " finished, %" PRIu64
           " of them error rows; the highest line is %" PRIu64 "\n",
           c->rows, c->error_rows, look->last_line);
    printf("tokens          %" PRIu64 " of prompts, %" PRIu64 " generated\n", c->prompt_tokens,
           c->generated_tokens);
    if (look->has_journal)
        printf("journal         %" PRIu64 " bytes, last grown %.0f s ago\n",
               look->journal_bytes, look->idle_s);
    if (manifest && !look->held)
        printf("last run        ended with exit code %" JSON_INTEGER_FORMAT "%s%s\n",
               json_integer_value(json_object_get(manifest, "exit_code")), error ? ": " : "",
               error ? error : "");
    if (look->has_journal && !look->held &&
        !json_is_true(json_object_get(manifest, "complete")))
        puts("to go on        give the same command again");
}

static int print_json(const struct ls_job_look *look, const json_t *manifest)
{
    const struct ls_job_counts *const c = &look->counts;
    json_t *const root =
        json_pack("{s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:O?, s:O?}", "state",
                  state_of(look, manifest), "owner", look->held ? look->owner : NULL, "rows",
                  (json_int_t)c->rows, "error_rows", (json_int_t)c->error_rows, "last_line",
                  (json_int_t)look->last_line, "prompt_tokens", (json_int_t)c->prompt_tokens,
                  "generated_tokens", (json_int_t)c->generated_tokens, "journal_bytes",
                  (json_int_t)look->journal_bytes, "idle_s", look->idle_s, "identity",
                  look->identity, "manifest", look->held ? NULL : manifest);
    char *const text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(root);
    return text ? LS_EXIT_GOOD : LS_EXIT_FAILED;
}

int ls_cmd_status(struct ls_app *app)
{
    struct ls_err err;
    struct ls_job_look look;
    const struct ls_options *const o = &app->options;
    ls_status s = ls_options_check(o, &err);
    if (!s)
        s = ls_job_look(&look, o->operands[0], &err);
    if (s)
        return ls_app_fail(app, ls_app_code_before_start(s), &err);
    json_t *const manifest = read_manifest(look.folder);
    int code = LS_EXIT_GOOD;
    if (ls_options_flag(o, LS_OPT_JSON))
        code = print_json(&look, manifest);
    else
        print(o->operands[0], &look, manifest);
    json_decref(manifest);
    ls_job_look_finish(&look);
    return code;
}
