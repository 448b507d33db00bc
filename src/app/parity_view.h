/* What a location says, in words and as JSON. Layer: app. Local. */
#ifndef LS_APP_PARITY_VIEW_H
#define LS_APP_PARITY_VIEW_H

#include "model/arch.h"
#include "parity/locate.h"
#include "parity/quirk.h"

struct ls_parity_view {
    const struct ls_location *location;
    const struct ls_arch *arch; /* of the first arm */
    const char *const *names;   /* of the requests */
    const struct ls_proposals *proposals;
};

void ls_parity_print(const struct ls_parity_view *view);
/* LS_E_MEMORY. */
ls_status ls_parity_print_json(const struct ls_parity_view *view, struct ls_err *err);

#endif
