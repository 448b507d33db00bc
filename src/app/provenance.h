/* Who made something: program, version, user, host, time and command line.
 *
 * Layer: app. Goes into manifests, plans and key files; never into result rows, logits or
 * reports, whose bytes are the same from run to run. Local. */
#ifndef LS_APP_PROVENANCE_H
#define LS_APP_PROVENANCE_H

#include "app/app.h"

#include <jansson.h>

/* One line for a comment: "lockstep 0.1.0: user@host, 2026-01-31T12:00:00Z: lockstep keygen F".
 * Returns text. */
const char *ls_provenance_line(const struct ls_app *app, char text[LS_ERR_TEXT]);

/* {program, version, command, command_line: [...], user, host, time}; a new reference, NULL
 * without memory. Words that are not UTF-8 have their odd bytes replaced. */
json_t *ls_provenance_json(const struct ls_app *app);

#endif
