/* The two halves of reading a request's JSON. Layer: jobs, private to request*.c. */
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

/* n elements of `size` bytes in the request's arena. LS_E_MEMORY. */
ls_status ls_request_take(struct ls_request *req, void **out, size_t n, size_t size,
                          struct ls_err *err);

/* A value as a message shows it. */
const char *ls_json_shown(const json_t *value, char out[64]);

#endif
