/* The page of a sweep: one HTML file that needs no network, drawn by its own script from the
 * JSON in it.
 *
 * Layer: parity. Local. The page is made at build time of page/page.{html,css,js}. Whatever the
 * data's texts hold, they stay texts: no "<" of them is in the file, and the script makes text
 * nodes only. */
#ifndef LS_PARITY_PAGE_H
#define LS_PARITY_PAGE_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* What stands in the file before the data and behind it. */
extern const unsigned char ls_page_before[], ls_page_behind[];
extern const size_t ls_page_before_bytes, ls_page_behind_bytes;

/* data: an object of `report` (report.json), `timings` (timings.json or null), `folder` (where
 * the sweep's files are), `manifests` (path in the folder to manifest) and `locate` (one for
 * each arm, the reference first: what the sweep's locate/ says, or null).
 * *text is to be freed; n without the 0 at its end. LS_E_MEMORY. */
ls_status ls_page_text(char **text, size_t *n, const json_t *data, struct ls_err *err);

#endif
