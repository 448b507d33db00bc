/* What the tests of src/text share: files, JSON, and checks of ids and text. Test code only. */
#ifndef TEXT_RIG_H
#define TEXT_RIG_H

#include "text/detok.h"
#include "text/tokenizer.h"

#include <jansson.h>

/* Whole file, zero-terminated, to be freed; NULL when it can't be read. */
char *rig_read(const char *path, size_t *n);

/* FOLDER/tokenizer.json, with its tokenizer_config.json where there is one and `with_config`.
 * Fails the test when the tokenizer is not made; NULL when there is no such file. */
struct ls_tokenizer *rig_open(const char *folder, bool with_config);

/* A tokenizer from JSON text, or from a value (not consumed). Fails the test when refused. */
struct ls_tokenizer *rig_make(const char *json, const char *config);
struct ls_tokenizer *rig_make_value(const json_t *json, const json_t *config);

/* Whether ids of the text, the text of ids (decoded at once and as a stream that puts out whole
 * characters only) are as expected; prints what differs. */
bool rig_encodes(const struct ls_tokenizer *tok, const char *text, size_t n, bool add_special,
                 const json_t *ids);
bool rig_decodes(const struct ls_tokenizer *tok, const json_t *ids, bool skip_special,
                 const char *text, size_t n);

/* Lines of a file of JSON objects; fails the test on a line that is none. Calls `each` for each
 * and returns the sum of its results; *n_lines counts. */
int rig_each_line(const char *path, int (*each)(const json_t *line, void *arg), void *arg,
                  int *n_lines);

#endif
