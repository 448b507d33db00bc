/* Checkpoint folders made by a test: temporary folders, files, safetensors images, and copies
 * of fixtures to break. All functions fail the running test when they cannot do their work. */
#ifndef LS_TESTS_MODEL_RIG_H
#define LS_TESTS_MODEL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "base/status.h"
#include "model/arch.h"

#include <jansson.h>

struct rig_folder {
    char path[256];
};

struct rig_bytes {
    unsigned char *bytes; /* free with free() */
    size_t size;
};

void rig_folder_make(struct rig_folder *f);
void rig_folder_remove(struct rig_folder *f);

/* `file` inside the folder. */
void rig_path(const struct rig_folder *f, const char *file, char path[4096]);
void rig_put(const struct rig_folder *f, const char *file, const void *bytes, size_t size);
void rig_put_text(const struct rig_folder *f, const char *file, const char *text);
void rig_remove(const struct rig_folder *f, const char *file);
struct rig_bytes rig_get(const struct rig_folder *f, const char *file);

/* Copies every file of a fixture's folder (under families/) into a new folder. */
void rig_copy_fixture(struct rig_folder *f, const char *fixture);

/* A fixture's config.json, to be released. */
json_t *rig_config(const char *fixture);

/* Windows and ropes of the layers as text: "w12 r0" is "12/0". */
void rig_layers_text(const struct ls_arch *a, char text[256]);

/* A safetensors image: the header as given, then n_data bytes of a pattern. */
struct rig_bytes rig_image(const char *header, size_t n_data);

/* Replaces the only occurrence of `from` in a file by `to` (of any length; a safetensors file's
 * header length follows). */
void rig_replace(const struct rig_folder *f, const char *file, const char *from,
                 const char *to);

/* Status and every text of the NULL-ended list are those of the failure. */
void rig_expect(ls_status actual, const struct ls_err *err, ls_status expected, ...)
    __attribute__((sentinel));

#endif
