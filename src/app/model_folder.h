/* The checkpoint folder that --model names. Layer: app. Local. */
#ifndef LS_APP_MODEL_FOLDER_H
#define LS_APP_MODEL_FOLDER_H

#include "base/status.h"
#include "text/tokenizer.h"

#include <stddef.h>

/* The folder's path; "demo" is the model that lockstep carries, looked for beside this program
 * and where it was built. LS_E_USAGE: not a folder, or without config.json. */
ls_status ls_model_folder(char *path, size_t size, const char *name, struct ls_err *err);

/* The name of the model for result rows: the last part of the path, "demo" for the demo. */
void ls_model_name(char *name, size_t size, const char *model);

/* Reads the tokenizer. A folder without tokenizer.json is fine: *out is NULL. The caller
 * destroys it. */
ls_status ls_model_tokenizer(struct ls_tokenizer **out, const char *folder, struct ls_err *err);

#endif
