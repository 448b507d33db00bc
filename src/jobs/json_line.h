/* Reading a line of JSON whose numbers may be larger than the parser can hold.
 *
 * Layer: jobs. JSON sets no bound on numbers: one that does not fit is a value that some field
 * refuses, or that nobody reads, and not a broken line. Local. */
#ifndef LS_JOBS_JSON_LINE_H
#define LS_JOBS_JSON_LINE_H

#include <jansson.h>
#include <stddef.h>

/* The value, the caller's; NULL when the line is not JSON, has a key twice, or memory is out. A
 * number beyond 64 bits or a double is an object that no field expects. why may be NULL. */
json_t *ls_json_line(const char *data, size_t n, json_error_t *why);

/* The digits of such a number; NULL for any other value. */
const char *ls_json_large(const json_t *value);

#endif
