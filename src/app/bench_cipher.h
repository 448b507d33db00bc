/* libsodium's own cipher on one core: what links are set beside. Layer: app. Local. */
#ifndef LS_APP_BENCH_CIPHER_H
#define LS_APP_BENCH_CIPHER_H

#include "bench/results.h"
#include "wire/seal.h"

/* Bytes in a second that the suite encrypts (level sealed) or only authenticates (signed),
 * messages of n bytes each, in place in `buffer`; and that it opens, from there into `clear`,
 * of n bytes too. Adds both results to part "link". Returns the smaller median: a stream is as
 * fast as the slower end. */
double ls_bench_cipher(struct ls_results *results, enum ls_suite suite, enum ls_level level,
                       unsigned char *buffer, unsigned char *clear, uint64_t n,
                       const char *size, double seconds);

/* One end of a link without the link: seals messages of n bytes in place for some milliseconds,
 * or opens one again and again into `clear`; bytes in a second. Both ends do it at a time, so
 * that as many cores are busy as with the link. */
double ls_bench_cipher_end(enum ls_suite suite, enum ls_level level, bool opens,
                           unsigned char *buffer, unsigned char *clear, uint64_t n);

#endif
