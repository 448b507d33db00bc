/* keygen: a new job secret, or a key that signs certificates. */
#include "app/app.h"
#include "app/certify.h"
#include "app/provenance.h"
#include "jobs/certificate.h"
#include "pipeline/plan.h"
#include "pipeline/secret_file.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static int write_key(const struct ls_app *app, const struct ls_secret *secret, const char *path)
{
    char about[LS_ERR_TEXT];
    struct ls_err err;
    if (ls_secret_write_file(secret, path, ls_provenance_line(app, about), &err))
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    printf("%s: a new job secret; give --secret-file to every rank\n", path);
    return LS_EXIT_GOOD;
}

/* path.pub, never over one that is there. */
static ls_status write_public(const char *path, const char *about,
                              const unsigned char key[LS_CERT_KEY], struct ls_err *err)
{
    char name[LS_MAX_PATH + 8], hex[2 * LS_CERT_KEY + 1];
    snprintf(name, sizeof name, "%s.pub", path);
    sodium_bin2hex(hex, sizeof hex, key, LS_CERT_KEY);
    FILE *const f = fopen(name, "wx");
    if (!f)
        return ls_fail(err, LS_E_IO, "%s: %s", name, strerror(errno));
    fprintf(f, "# %s\n%s\n", about, hex);
    const bool bad = ferror(f) != 0;
    return fclose(f) || bad ? ls_fail(err, LS_E_IO, "%s: cannot be written", name) : LS_OK;
}

static int write_sign_key(const struct ls_app *app, const struct ls_secret *secret,
                          const char *path)
{
    char about[LS_ERR_TEXT];
    unsigned char seed[32], key[LS_CERT_KEY];
    struct ls_err err;
    ls_provenance_line(app, about);
    ls_status s = ls_secret_write_file(secret, path, about, &err);
    if (!s)
        s = ls_certify_seed(seed, path, &err);
    if (!s) {
        ls_cert_public_key(key, seed);
        s = write_public(path, about, key, &err);
    }
    sodium_memzero(seed, sizeof seed);
    if (s)
        return ls_app_fail(app, LS_EXIT_USAGE, &err);
    printf("%s: a new key that signs; %s.pub: what verify --key takes\n", path, path);
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
    const bool sign = ls_options_flag(o, LS_OPT_SIGN);
    if (sign && !o->n_operands) {
        ls_app_warn(app, "keygen --sign needs the name of a file: two are made");
        return LS_EXIT_USAGE;
    }
    if (ls_secret_create(&secret, &err))
        return ls_app_fail(app, LS_EXIT_REFUSED, &err);
    const int code = sign            ? write_sign_key(app, secret, o->operands[0])
                     : o->n_operands ? write_key(app, secret, o->operands[0])
                                     : print_key(app, secret);
    ls_secret_destroy(secret);
    return code;
}
