/* What results depend on and only the program knows: the checkpoint, as the job's journal keeps
 * it. Layer: app. Local. */
#ifndef LS_APP_FACTS_H
#define LS_APP_FACTS_H

#include "jobs/job.h"
#include "pipeline/session.h"

enum { LS_DIGEST_TEXT = 3 + 64 + 1 };

/* "b2:<64 hex>" of the bytes of folder/name, or of name when folder is NULL; false when there
 * is no such file. */
bool ls_file_digest(char out[LS_DIGEST_TEXT], const char *folder, const char *name);
void ls_digest_text(char out[LS_DIGEST_TEXT], const unsigned char digest[32]);

/* Tells the job its facts, before it is bound. template: the file of --chat-template or NULL.
 */
void ls_facts_tell(struct ls_job *job, const struct ls_session *session,
                   const struct ls_run_wish *wish, const char *template);

#endif
