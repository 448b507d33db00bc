#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* File names and peers' texts may hold control bytes; a message is always one clean line. */
static void keep_one_line(char *text)
{
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
}

ls_status ls_fail(struct ls_err *err, ls_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    keep_one_line(err->text);
    err->status = status;
    return status;
}

ls_status ls_fail_prefix(struct ls_err *err, const char *fmt, ...)
{
    char old[LS_ERR_TEXT];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %.*s",
                 (int)(sizeof err->text - (size_t)n), old);
    keep_one_line(err->text);
    return err->status;
}

ls_status ls_io_status(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? LS_E_FULL : LS_E_IO;
}

const char *ls_status_name(ls_status status)
{
    static const char *const names[LS_N_STATUS] = {
        [LS_OK] = "ok",
        [LS_E_REQUEST] = "request",
        [LS_E_NAN] = "nan",
        [LS_E_AUTH] = "authentication",
        [LS_E_SEQUENCE] = "sequence",
        [LS_E_TOO_LARGE] = "too large",
        [LS_E_VERSION] = "version skew",
        [LS_E_WRONG_LINK] = "wrong link",
        [LS_E_NOT_ALLOWED] = "not allowed",
        [LS_E_SHAPE] = "shape",
        [LS_E_LINK] = "link",
        [LS_E_USAGE] = "usage",
        [LS_E_REFUSED] = "refused",
        [LS_E_FORMAT] = "format",
        [LS_E_IO] = "io",
        [LS_E_FULL] = "full",
        [LS_E_MEMORY] = "memory",
        [LS_E_COMPUTE] = "compute",
        [LS_E_DRAINED] = "drained",
        [LS_E_INTERNAL] = "internal",
    };
    return status < LS_N_STATUS && names[status] ? names[status] : "unknown";
}
