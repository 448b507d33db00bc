/* Speed of a tokenizer: text to ids and back, one thread.
 *
 * Layer: bench. The text is what the tokenizer makes of ids drawn at random, so no word comes
 * twice soon: natural text is faster. Local. */
#ifndef LS_BENCH_TEXT_H
#define LS_BENCH_TEXT_H

#include "bench/results.h"
#include "text/tokenizer.h"

/* Adds to part "job". LS_E_MEMORY, LS_E_REQUEST. */
ls_status ls_bench_text(struct ls_results *r, const struct ls_tokenizer *tok, double seconds,
                        struct ls_err *err);

#endif
