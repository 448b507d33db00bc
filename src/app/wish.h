/* Options turned into what pipeline and jobs ask for. Layer: app. Local. */
#ifndef LS_APP_WISH_H
#define LS_APP_WISH_H

#include "app/chat_process.h"
#include "base/options.h"
#include "jobs/job.h"
#include "pipeline/plan.h"

/* Fills the wish; finds the model's folder and refuses a --cpu that this CPU lacks. */
ls_status ls_wish_of(struct ls_run_wish *wish, const struct ls_options *o, struct ls_err *err);

/* Fills the job's configuration; its texts are the options' own, model_name the caller's. */
void ls_job_config_of(struct ls_job_config *config, const struct ls_options *o,
                      const char *model_name);

/* Tells the chat process which checkpoint, template and time. LS_E_USAGE. */
ls_status ls_chat_set_of(struct ls_chat_process *chat, const char *folder,
                         const struct ls_options *o, struct ls_err *err);

#endif
