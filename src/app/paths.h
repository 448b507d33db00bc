/* Whether the paths of a command's options are in each other's way.
 *
 * Layer: app. Looks at the file system, touches nothing. Local. */
#ifndef LS_APP_PATHS_H
#define LS_APP_PATHS_H

#include "base/options.h"

/* LS_E_USAGE when a file or folder that is written is also another option's, or lies in the
 * folder of logits, which holds nothing else. Devices may be shared. */
ls_status ls_paths_check(const struct ls_options *o, struct ls_err *err);

#endif
