/* What may lie in a logits folder. Layer: jobs, private to logits_files.c. */
#ifndef LS_JOBS_LOGITS_FOLDER_H
#define LS_JOBS_LOGITS_FOLDER_H

#include "base/status.h"

/* Refuses (LS_E_REFUSED) a folder with a file in it that no run of ours makes. */
ls_status ls_logits_folder_check(const char *folder, struct ls_err *err);
/* Removes the files of an earlier run; the lock stays. */
ls_status ls_logits_folder_clear(const char *folder, struct ls_err *err);

#endif
