/* parity --locate and --tap. Layer: app. Local. */
#ifndef LS_APP_PARITY_LOCATE_H
#define LS_APP_PARITY_LOCATE_H

#include "app/app.h"

struct ls_parity_wish; /* parity_arm.h */

/* The first arm, as the options say. LS_E_USAGE when --model or --input is missing. */
ls_status ls_parity_wish_of(struct ls_parity_wish *wish, const struct ls_options *o,
                            struct ls_err *err);

/* The modes; they return the exit code. */
int ls_parity_locate(struct ls_app *app);
int ls_parity_tap(struct ls_app *app);

#endif
