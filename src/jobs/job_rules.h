/* What a job's requests are checked against and its sequences run by, from its settings.
 * Layer: jobs, private to this folder. Pure. */
#ifndef LS_JOBS_JOB_RULES_H
#define LS_JOBS_JOB_RULES_H

#include "jobs/choice.h"
#include "jobs/job.h"

struct ls_request_rules ls_job_request_rules(const struct ls_job_config *config,
                                             const struct ls_arch *arch,
                                             const struct ls_tokenizer *tokenizer);
/* Without scratch and spools, which are a running job's. */
struct ls_choice_rules ls_job_choice_rules(const struct ls_job_config *config,
                                           const struct ls_arch *arch,
                                           const struct ls_tokenizer *tokenizer);
/* How the lines are to be read, from the first ones; a whole document is one line then. */
ls_status ls_job_kind(enum ls_input_kind *kind, struct ls_lines *lines,
                      const struct ls_job_config *config, struct ls_err *err);

#endif
