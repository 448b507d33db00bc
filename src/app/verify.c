#include "app/verify.h"

#include "app/model_parts.h"
#include "pipeline/secret_file.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 20 };

void ls_verify_found(struct ls_verify *v, const char *fmt, ...)
{
    va_list args;
    if (v->n_found++ >= SHOWN)
        return;
    printf("DIFFERENT    ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* --- the certificate -------------------------------------------------------------------------
 */

/* A file of keygen --sign: comments and 64 hexadecimal digits, as a secret's. */
static ls_status check_key(struct ls_verify *v, bool is_signed, struct ls_err *err)
{
    char *text = NULL;
    size_t n;
    struct ls_secret *key = NULL;
    const char *const path = ls_options_text(v->o, LS_OPT_KEY);
    if (!path)
        return LS_OK;
    ls_status s = ls_file_read(path, LS_SECRET_FILE_MAX, &text, &n, err);
    if (!s)
        s = ls_secret_parse(&key, (const unsigned char *)text, n, err);
    if (s)
        ls_fail_prefix(err, "%s", path);
    else if (!is_signed)
        ls_verify_found(v, "certificate: not signed, and --key %s is given", path);
    else if (memcmp(ls_secret_bytes(key), v->cert.head.key, LS_CERT_KEY))
        ls_verify_found(v, "certificate: signed with another key than that of %s", path);
    ls_secret_destroy(key);
    ls_free(text);
    return s;
}

static void check_blocks(struct ls_verify *v)
{
    struct ls_cert_block b;
    for (uint64_t at = 0; ls_cert_next_block(&v->cert, &at, &b);) {
        if (!ls_cert_block_head_holds(&b))
            ls_verify_found(v, "certificate: head or tokens of line %" PRIu64 ", choice %u",
                            b.line, b.choice);
        if (!ls_cert_block_leaves_hold(&v->cert, &b))
            ls_verify_found(v, "certificate: leaves of line %" PRIu64 ", choice %u", b.line,
                            b.choice);
    }
}

ls_status ls_verify_certificate(struct ls_verify *v, struct ls_err *err)
{
    static const char *const faults[] = { [LS_CERT_BAD_HEAD] = "its head",
                                          [LS_CERT_BAD_PARTS] = "the list of the model's parts",
                                          [LS_CERT_BAD_BLOCKS] = "the list of its lines",
                                          [LS_CERT_BAD_SIGNATURE] = "its signature" };
    const struct ls_cert_head *const h = &v->cert.head;
    bool is_signed;
    char key[2 * LS_CERT_KEY + 1];
    const enum ls_cert_fault fault = ls_cert_check(&v->cert, &is_signed);
    if (fault)
        ls_verify_found(v, "certificate: %s does not hold", faults[fault]);
    check_blocks(v);
    const ls_status s = check_key(v, is_signed, err);
    sodium_bin2hex(key, sizeof key, h->key, LS_CERT_KEY);
    printf("certificate  %" PRIu64 " lines, %" PRIu64 " sequences and error lines, %" PRIu64
           " positions of %d leaves, %s; %s%s\n",
           h->n_lines, h->n_blocks, h->n_positions, h->n_layers + 1, h->profile,
           is_signed ? "signed with " : "not signed", is_signed ? key : "");
    return s;
}

/* --- the model -------------------------------------------------------------------------------
 */

static int compare(const struct ls_cert_part *a, const struct ls_cert_part *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    const uint32_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    return c ? c : (a->n_name > b->n_name) - (a->n_name < b->n_name);
}

static void name_part(struct ls_verify *v, const struct ls_cert_part *p, const char *what)
{
    static const char *const kinds[] = { [LS_CERT_TENSOR] = "tensor ",
                                         [LS_CERT_FILE] = "file ",
                                         [LS_CERT_TEMPLATE] = "--chat-template" };
    ls_verify_found(v, "%s%.*s%s", kinds[p->kind], (int)p->n_name, p->name, what);
}

/* Both lists are in the same order. */
static void compare_parts(struct ls_verify *v, const struct ls_model_parts *have)
{
    struct ls_cert_part part;
    uint64_t at = 0;
    bool more = ls_cert_next_part(&v->cert, &at, &part);
    size_t i = 0;
    while (more || i < have->n) {
        const int c = !more ? 1 : i == have->n ? -1 : compare(&part, &have->parts[i]);
        if (c < 0)
            name_part(v, &part, ": is not here");
        else if (c > 0)
            name_part(v, &have->parts[i], ": the certificate has none");
        else if (memcmp(part.digest, have->parts[i].digest, LS_LEAF))
            name_part(v, &part, "");
        if (c >= 0)
            i++;
        if (c <= 0)
            more = ls_cert_next_part(&v->cert, &at, &part);
    }
}

static void compare_size(struct ls_verify *v, const char *what, int here, int certified)
{
    if (here != certified)
        ls_verify_found(v, "model: %s %d, the certificate says %d", what, here, certified);
}

ls_status ls_verify_model(struct ls_verify *v, struct ls_err *err)
{
    struct ls_model_parts parts;
    const struct ls_cert_head *const h = &v->cert.head;
    const struct ls_arch *const arch = &v->model.arch;
    const uint64_t before = v->n_found;
    compare_size(v, "layers", arch->n_layers, h->n_layers);
    compare_size(v, "vocabulary", arch->vocab, h->vocab);
    compare_size(v, "hidden width", arch->hidden, h->hidden);
    compare_size(v, "context", arch->context, h->context);
    compare_size(v, "activation format", (int)arch->dtype, h->dtype);
    const ls_status s = ls_model_parts_make(&parts, v->model.ckpt, v->folder,
                                            ls_options_text(v->o, LS_OPT_CHAT_TEMPLATE), err);
    if (!s) {
        compare_parts(v, &parts);
        printf("model        %zu tensors and files: %s\n", parts.n,
               v->n_found == before ? "equal" : "DIFFERENT");
    }
    ls_model_parts_finish(&parts);
    return s;
}
