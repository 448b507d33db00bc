/* Status codes and the one error message that travels with a failure.
 *
 * Layer: base. The function that detects a failure fills `struct ls_err` with the exact cause
 * (what, where, expected, actual) and returns the status; callers pass both up unchanged; only
 * src/app prints. Outputs of a failed function are left untouched unless its header says
 * otherwise. All functions are local and never fail. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

/* Grouped by what has to be torn down. */
typedef enum ls_status {
    LS_OK = 0,
    /* one request */
    LS_E_REQUEST, /* the request itself cannot be done (too long, malformed, unsupported) */
    LS_E_NAN,     /* NaN reached this request's logits */
    /* one link, hence the run */
    LS_E_AUTH,        /* the tag does not verify */
    LS_E_SEQUENCE,    /* authentic, but repeated, missing or out of order */
    LS_E_TOO_LARGE,   /* more bytes than the link's limit */
    LS_E_VERSION,     /* magic, version or kind that this program does not know */
    LS_E_WRONG_LINK,  /* run id, source or destination of another link */
    LS_E_NOT_ALLOWED, /* a kind that this peer may not send here */
    LS_E_SHAPE,       /* authentic, but not what this step expects */
    LS_E_LINK,        /* transport failure, or a deadline passed */
    /* this process */
    LS_E_USAGE,    /* command line or configuration */
    LS_E_REFUSED,  /* refused before start: plan, vote, placement */
    LS_E_FORMAT,   /* a file's bytes break its format */
    LS_E_IO,       /* open, read, write */
    LS_E_FULL,     /* no space is left, or a file may not grow; headers say LS_E_IO for both */
    LS_E_MEMORY,   /* allocation failed, or the plan does not fit */
    LS_E_COMPUTE,  /* self-test or internal compute check failed */
    LS_E_DRAINED,  /* stopped on request, resumable */
    LS_E_INTERNAL, /* our own fault */
    LS_N_STATUS
} ls_status;

enum { LS_ERR_TEXT = 1024 };

struct ls_err {
    ls_status status;       /* LS_OK until a failure is recorded */
    char text[LS_ERR_TEXT]; /* one line, no newline, cut at the buffer */
};

/* Records `status` and the formatted line in *err (err may be NULL) and returns `status`. */
ls_status ls_fail(struct ls_err *err, ls_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the recorded line; returns err->status. */
ls_status ls_fail_prefix(struct ls_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* LS_E_FULL for an errno that says so, LS_E_IO for any other. */
ls_status ls_io_status(int error);

/* Short lower-case name of a status, for logs and manifests. Never NULL. */
const char *ls_status_name(ls_status status);

#endif
