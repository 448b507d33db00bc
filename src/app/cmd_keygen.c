/* keygen: a new job secret. */
#include "app/app.h"
#include "app/provenance.h"
#include "pipeline/secret_file.h"

#include <sodium.h>
#include <stdio.h>

static int write_key(const struct ls_app *app, const struct ls_secret *secret, const char *path)
{
    char about[LS_ERR_TEXT];
    struct ls_err err;
    if (ls_secret_write_file(secret, path, ls_provenance_line(app, about), &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    printf("%s: a new job secret; give --secret-file to every rank\n", path);
    return LS_EXIT_GOOD;
}

static int print_key(const struct ls_app *app, const struct ls_secret *secret)
{
    char about[LS_ERR_TEXT], line[LS_SECRET_LINE + 1];
    setvbuf(stdout, NULL, _IONBF, 0); /* no copy of the key stays in a buffer */
    printf("# %s\n", ls_provenance_line(app, about));
    ls_secret_print(secret, line);
    puts(line);
    sodium_memzero(line, sizeof line);
    return LS_EXIT_GOOD;
}

int ls_cmd_keygen(struct ls_app *app)
{
    struct ls_err err;
    struct ls_secret *secret = NULL;
    const struct ls_options *const o = &app->options;
    if (ls_options_check(o, &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    if (ls_secret_create(&secret, &err))
        return ls_app_fail(app, LS_EXIT_REFUSED, &err);
    const int code =
        o->n_operands ? write_key(app, secret, o->operands[0]) : print_key(app, secret);
    ls_secret_destroy(secret);
    return code;
}
