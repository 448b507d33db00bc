#include "parity/page.h"

#include <stdlib.h>
#include <string.h>

static const char less_than[] = "\\u003c"; /* as JSON may spell it in any text */

static size_t count(const char *text, char c)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

static char *put_escaped(char *at, const char *json)
{
    for (; *json; json++) {
        if (*json != '<') {
            *at++ = *json;
            continue;
        }
        memcpy(at, less_than, sizeof less_than - 1);
        at += sizeof less_than - 1;
    }
    return at;
}

ls_status ls_page_text(char **text, size_t *n, const json_t *data, struct ls_err *err)
{
    char *const json = json_dumps(data, JSON_COMPACT);
    const size_t extra = json ? count(json, '<') * (sizeof less_than - 2) : 0;
    const size_t bytes =
        ls_page_before_bytes + (json ? strlen(json) : 0) + extra + ls_page_behind_bytes;
    char *const out = json ? malloc(bytes + 1) : NULL;
    if (!out) {
        free(json);
        return ls_fail(err, LS_E_MEMORY, "no memory for a report of %zu bytes", bytes);
    }
    memcpy(out, ls_page_before, ls_page_before_bytes);
    char *const at = put_escaped(out + ls_page_before_bytes, json);
    memcpy(at, ls_page_behind, ls_page_behind_bytes);
    out[bytes] = 0;
    free(json);
    *text = out;
    *n = bytes;
    return LS_OK;
}
