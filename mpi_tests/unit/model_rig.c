#include "model_rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8 };

void rig_folder_make(struct rig_folder *f)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(f->path, sizeof f->path, "%s/ls model XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->path));
}

void rig_path(const struct rig_folder *f, const char *file, char path[4096])
{
    assert_true(snprintf(path, 4096, "%s/%s", f->path, file) < 4096);
}

void rig_remove(const struct rig_folder *f, const char *file)
{
    char path[4096];
    rig_path(f, file, path);
    assert_int_equal(remove(path), 0);
}

void rig_folder_remove(struct rig_folder *f)
{
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rig_remove(f, e->d_name);
    closedir(d);
    assert_int_equal(rmdir(f->path), 0);
}

void rig_put(const struct rig_folder *f, const char *file, const void *bytes, size_t size)
{
    char path[4096];
    rig_path(f, file, path);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

void rig_put_text(const struct rig_folder *f, const char *file, const char *text)
{
    rig_put(f, file, text, strlen(text));
}

static struct rig_bytes read_path(const char *path)
{
    struct stat st;
    FILE *in = fopen(path, "rb");
    if (!in || fstat(fileno(in), &st))
        fail_msg("cannot read %s", path);
    struct rig_bytes b = { malloc((size_t)st.st_size + 1), (size_t)st.st_size };
    assert_non_null(b.bytes);
    assert_int_equal(fread(b.bytes, 1, b.size, in), b.size);
    b.bytes[b.size] = 0;
    fclose(in);
    return b;
}

struct rig_bytes rig_get(const struct rig_folder *f, const char *file)
{
    char path[4096];
    rig_path(f, file, path);
    return read_path(path);
}

void rig_copy_fixture(struct rig_folder *f, const char *fixture)
{
    char folder[4096], path[8192];
    snprintf(folder, sizeof folder, "%s/families/%s", LS_FIXTURES, fixture);
    rig_folder_make(f);
    DIR *d = opendir(folder);
    if (!d)
        fail_msg("no fixture %s", folder);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        struct rig_bytes b = read_path(path);
        rig_put(f, e->d_name, b.bytes, b.size);
        free(b.bytes);
    }
    closedir(d);
}

static void put_length(unsigned char *to, uint64_t n)
{
    for (int i = 0; i < LENGTH_BYTES; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

struct rig_bytes rig_image(const char *header, size_t n_data)
{
    const size_t n = strlen(header);
    struct rig_bytes b = { malloc(LENGTH_BYTES + n + n_data), LENGTH_BYTES + n + n_data };
    assert_non_null(b.bytes);
    put_length(b.bytes, n);
    memcpy(b.bytes + LENGTH_BYTES, header, n);
    for (size_t i = 0; i < n_data; i++)
        b.bytes[LENGTH_BYTES + n + i] = (unsigned char)(i * 37 + 11);
    return b;
}

static unsigned char *find_bytes(const struct rig_bytes *b, const char *text)
{
    return memmem(b->bytes, b->size, text, strlen(text));
}

void rig_replace(const struct rig_folder *f, const char *file, const char *from, const char *to)
{
    struct rig_bytes b = rig_get(f, file);
    unsigned char *at = find_bytes(&b, from);
    const size_t n_from = strlen(from), n_to = strlen(to), n = strlen(file);
    if (!at)
        fail_msg("%s does not hold %s", file, from);
    const size_t before = (size_t)(at - b.bytes), size = b.size - n_from + n_to;
    unsigned char *changed = malloc(size);
    assert_non_null(changed);
    memcpy(changed, b.bytes, before);
    memcpy(changed + before, to, n_to);
    memcpy(changed + before + n_to, at + n_from, b.size - before - n_from);
    if (n > 12 && !strcmp(file + n - 12, ".safetensors")) {
        uint64_t length = 0;
        for (int i = LENGTH_BYTES; i-- > 0;)
            length = length << 8 | b.bytes[i];
        put_length(changed, length - n_from + n_to);
    }
    rig_put(f, file, changed, size);
    free(changed);
    free(b.bytes);
}

void rig_expect(ls_status actual, const struct ls_err *err, ls_status expected, ...)
{
    va_list ap;
    const char *text;
    if (actual != expected)
        fail_msg("expected %s, got %s (%s)", ls_status_name(expected), ls_status_name(actual),
                 actual ? err->text : "");
    va_start(ap, expected);
    while ((text = va_arg(ap, const char *)) != NULL)
        if (!strstr(err->text, text))
            fail_msg("'%s' is not in: %s", text, err->text);
    va_end(ap);
}

json_t *rig_config(const char *fixture)
{
    char path[4096];
    json_error_t at;
    snprintf(path, sizeof path, "%s/families/%s/config.json", LS_FIXTURES, fixture);
    json_t *config = json_load_file(path, 0, &at);
    if (!config)
        fail_msg("%s: %s", path, at.text);
    return config;
}

void rig_layers_text(const struct ls_arch *a, char text[256])
{
    size_t n = 0;
    for (int l = 0; l < a->n_layers && n < 256; l++)
        n += (size_t)snprintf(text + n, 256 - n, "%s%d/%d", l ? " " : "", a->layers[l].window,
                              a->layers[l].rope);
}
