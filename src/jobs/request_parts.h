/* The parts of reading a request's JSON. Layer: jobs, private to request*.c. */
#ifndef LS_JOBS_REQUEST_PARTS_H
#define LS_JOBS_REQUEST_PARTS_H

#include "jobs/request.h"

#include <jansson.h>

/* Settings of a request, from its body or, for a plain object, from the line itself (then the
 * keys that belong to the line are left out). Starts from the defaults. */
ls_status ls_request_read_fields(struct ls_request *req, const struct ls_request_rules *rules,
                                 const json_t *object, bool is_line, struct ls_err *err);

/* Prompts from a value of field `name`: a text, ids, or a list of either. texts: false when
 * only ids will do. */
ls_status ls_request_read_prompts(struct ls_request *req, const struct ls_request_rules *rules,
                                  const json_t *value, const char *name, struct ls_err *err);
/* One text as the only prompt. */
ls_status ls_request_read_text(struct ls_request *req, const struct ls_request_rules *rules,
                               const char *text, size_t n, struct ls_err *err);

/* One more prompt of ids [n], or [n + 1] when n_scored > 0; req->prompts has room for it. */
ls_status ls_request_add_ids(struct ls_request *req, const struct ls_request_rules *rules,
                             const int32_t *ids, size_t n, size_t n_scored, struct ls_err *err);

/* A chat, from the body or the plain object that holds its messages. */
ls_status ls_request_read_chat(struct ls_request *req, const struct ls_request_rules *rules,
                               const json_t *body, bool is_line, struct ls_err *err);

/* Checks a body's messages and renders them; *text is the caller's. */
ls_status ls_request_render(struct ls_request *req, const struct ls_chat *chat,
                            const json_t *body, struct ls_bytes *text, struct ls_err *err);

/* A line of the harness: whether an object is one, and what it says. */
bool ls_request_is_harness(const json_t *line);
ls_status ls_request_read_harness(struct ls_request *req, const struct ls_request_rules *rules,
                                  const json_t *line, struct ls_err *err);
/* A text to be scored as a whole. */
ls_status ls_request_read_document(struct ls_request *req, const struct ls_request_rules *rules,
                                   const char *text, size_t n, struct ls_err *err);

/* n elements of `size` bytes in the request's arena. LS_E_MEMORY. */
ls_status ls_request_take(struct ls_request *req, void **out, size_t n, size_t size,
                          struct ls_err *err);

/* Whether a value is an integer, as 16 and 16.0 are: *out. */
bool ls_json_integer(const json_t *value, int64_t *out);

/* A value as a message shows it. */
const char *ls_json_shown(const json_t *value, char out[64]);

#endif
