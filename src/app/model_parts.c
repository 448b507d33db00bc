#include "app/model_parts.h"

#include "base/le.h"
#include "pipeline/plan.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 30, N_FILES = 7 };

/* By name. */
static const char *const files[N_FILES] = {
    "chat_template.jinja",    "chat_template.json",      "config.json",
    "generation_config.json", "special_tokens_map.json", "tokenizer.json",
    "tokenizer_config.json"
};

static size_t put64(unsigned char *out, uint64_t value)
{
    ls_le_put(out, value, 8);
    return 8;
}

/* dtype, number of dims, dims, then the bytes. */
static void add_tensor(struct ls_model_parts *p, const struct ls_checkpoint *ckpt,
                       const struct ls_tensor *t)
{
    unsigned char about[8 * (2 + sizeof t->dims / sizeof *t->dims)];
    size_t n = put64(about, t->dtype);
    n += put64(about + n, (uint64_t)t->n_dims);
    for (int d = 0; d < t->n_dims; d++)
        n += put64(about + n, t->dims[d]);
    struct ls_cert_part *const part = &p->parts[p->n++];
    *part = (struct ls_cert_part){ .kind = LS_CERT_TENSOR,
                                   .name = t->name,
                                   .n_name = (uint32_t)strlen(t->name) };
    ls_leaf_of_two(part->digest, about, n, t->data, t->bytes);
    ls_checkpoint_release(ckpt, t);
}

/* A file that is not there is no part. */
static ls_status add_file(struct ls_model_parts *p, enum ls_cert_kind kind, const char *name,
                          const char *path, struct ls_err *err)
{
    char *bytes = NULL;
    size_t n;
    if (access(path, F_OK))
        return LS_OK;
    const ls_status s = ls_file_read(path, MAX_FILE_BYTES, &bytes, &n, err);
    if (s)
        return s;
    struct ls_cert_part *const part = &p->parts[p->n++];
    *part =
        (struct ls_cert_part){ .kind = kind, .name = name, .n_name = (uint32_t)strlen(name) };
    ls_leaf_of(part->digest, bytes, n);
    ls_free(bytes);
    return LS_OK;
}

ls_status ls_model_parts_make(struct ls_model_parts *p, const struct ls_checkpoint *ckpt,
                              const char *folder, const char *template, struct ls_err *err)
{
    void *memory;
    const size_t n = ls_checkpoint_n_tensors(ckpt);
    *p = (struct ls_model_parts){ .n = 0 };
    ls_status s = ls_alloc(&memory, (n + N_FILES + 1) * sizeof *p->parts,
                           "the list of a model's parts", err);
    if (s)
        return s;
    p->parts = memory;
    for (size_t i = 0; i < n; i++)
        add_tensor(p, ckpt, ls_checkpoint_tensor(ckpt, i));
    for (int i = 0; !s && i < N_FILES; i++) {
        char path[LS_MAX_PATH + 64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        s = add_file(p, LS_CERT_FILE, files[i], path, err);
    }
    return s || !template ? s : add_file(p, LS_CERT_TEMPLATE, "", template, err);
}

void ls_model_parts_finish(struct ls_model_parts *p)
{
    ls_free(p->parts);
    *p = (struct ls_model_parts){ .n = 0 };
}
