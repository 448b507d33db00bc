#include "app/certify.h"

#include "app/model_parts.h"
#include "app/table.h"
#include "pipeline/secret_file.h"

#include <sodium.h>
#include <string.h>

/* A key file serves for one purpose, whatever else it is given to. */
ls_status ls_certify_seed(unsigned char seed[32], const char *path, struct ls_err *err)
{
    struct ls_secret *secret = NULL;
    const ls_status s = ls_secret_read_file(&secret, path, err);
    if (!s)
        ls_secret_derive(seed, ls_secret_bytes(secret), "lockstep certificate key", NULL, 0);
    ls_secret_destroy(secret);
    return s;
}

ls_status ls_certify_of(struct ls_certify *c, const struct ls_options *o, struct ls_err *err)
{
    const char *const key = ls_options_text(o, LS_OPT_SIGN_KEY);
    *c = (struct ls_certify){ .wanted = ls_options_is_set(o, LS_OPT_CERTIFICATE) };
    c->terms.path = ls_options_text(o, LS_OPT_CERTIFICATE);
    c->terms.profile = "exact-1";
    if (!c->wanted)
        return key ? ls_fail(err, LS_E_USAGE,
                             "--sign-key signs a certificate; give "
                             "--certificate, too")
                   : LS_OK;
    if (o->values[LS_OPT_DIGEST].source != LS_FROM_DEFAULT &&
        ls_options_number(o, LS_OPT_DIGEST) != LS_DIGEST_ALL)
        return ls_fail(err, LS_E_USAGE,
                       "--certificate holds the logits of every position: --digest is %s, "
                       "expected all",
                       ls_options_text(o, LS_OPT_DIGEST));
    if (!key)
        return LS_OK;
    c->terms.secret = c->seed;
    return ls_certify_seed(c->seed, key, err);
}

static ls_status encode(struct ls_certify *c, const struct ls_model_parts *parts,
                        struct ls_err *err)
{
    struct ls_merkle tree = { .n = 0 };
    uint64_t bytes = 0;
    for (size_t i = 0; i < parts->n; i++)
        bytes += ls_cert_part_bytes(parts->parts[i].n_name);
    const ls_status s = ls_alloc(&c->parts, bytes, "a certificate's parts", err);
    if (s)
        return s;
    unsigned char *at = c->parts;
    for (size_t i = 0; i < parts->n; i++) {
        unsigned char leaf[LS_LEAF];
        const uint64_t n = ls_cert_part_bytes(parts->parts[i].n_name);
        ls_cert_part_put(at, &parts->parts[i]);
        ls_leaf_of(leaf, at, n);
        ls_merkle_add(&tree, leaf);
        at += n;
    }
    ls_merkle_root(&tree, c->terms.parts_root);
    c->terms.parts = c->parts;
    c->terms.parts_bytes = bytes;
    c->terms.n_parts = parts->n;
    return LS_OK;
}

ls_status ls_certify_look(struct ls_certify *c, const char *folder, const char *template,
                          struct ls_err *err)
{
    struct ls_checkpoint *ckpt = NULL;
    struct ls_model_parts parts = { .n = 0 };
    if (!c->wanted)
        return LS_OK;
    ls_status s = ls_checkpoint_open(&ckpt, folder, err);
    if (!s)
        s = ls_model_parts_make(&parts, ckpt, folder, template, err);
    if (!s)
        s = encode(c, &parts, err);
    ls_model_parts_finish(&parts);
    ls_checkpoint_close(ckpt);
    return s;
}

void ls_certify_finish(struct ls_certify *c)
{
    sodium_memzero(c->seed, sizeof c->seed);
    ls_free(c->parts);
    *c = (struct ls_certify){ .wanted = false };
}
