/* Options turned into what pipeline and jobs ask for. Layer: app. Local. */
#ifndef LS_APP_WISH_H
#define LS_APP_WISH_H

#include "base/options.h"
#include "jobs/job.h"
#include "pipeline/plan.h"

/* Fills the wish; finds the model's folder and refuses a --cpu that this CPU lacks. */
ls_status ls_wish_of(struct ls_run_wish *wish, const struct ls_options *o, struct ls_err *err);

/* Fills the job's configuration; its texts are the options' own, model_name the caller's. */
void ls_job_config_of(struct ls_job_config *config, const struct ls_options *o,
                      const char *model_name);

/* The time that chat templates see: --chat-time, else the clock's, in out. LS_E_USAGE. */
enum { LS_CHAT_TIME = 32 };
ls_status ls_chat_time_of(char out[LS_CHAT_TIME], const struct ls_options *o,
                          struct ls_err *err);

#endif
