/* What a job's results depend on beside its request lines: named values, compared when a job is
 * resumed.
 *
 * Layer: jobs. Local. The layout (ranks, stages, threads, budget, transport) is not among them,
 * since no result depends on it. Values are short texts; whoever knows a fact adds it. */
#ifndef LS_JOBS_IDENTITY_H
#define LS_JOBS_IDENTITY_H

#include "base/status.h"
#include "jobs/job.h"

#include <jansson.h>

struct ls_identity {
    json_t *facts;         /* an object of texts; owned */
    bool failed;           /* memory was exhausted */
    const char *inherited; /* a fact whose value in an earlier journal wins; NULL: none */
};

void ls_identity_finish(struct ls_identity *id); /* takes a zeroed one */

/* value NULL: the fact is absent, and is compared as such. */
void ls_identity_add(struct ls_identity *id, const char *name, const char *value);
/* What a job's configuration says. */
void ls_identity_add_config(struct ls_identity *id, const struct ls_job_config *config);

/* The identity as JSON text, to be freed; LS_E_MEMORY. */
ls_status ls_identity_text(const struct ls_identity *id, char **text, struct ls_err *err);

/* NULL: absent. */
const char *ls_identity_value(const struct ls_identity *id, const char *name);

/* NULL: absent. */
const char *ls_identity_value(const struct ls_identity *id, const char *name);

/* Takes the inherited fact over. LS_E_REFUSED, naming the first difference, when a journal with
 * `text` is another job's. output is for the message. */
ls_status ls_identity_check(const struct ls_identity *id, const char *text, size_t n,
                            const char *output, struct ls_err *err);

#endif
