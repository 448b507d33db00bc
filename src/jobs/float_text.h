/* The shortest decimal text that reads back as the same binary64 number.
 *
 * Layer: jobs. Local, cannot fail. Laid out as Python's repr does it ("0.1", "-3.0", "1e-05",
 * "1e+16"), so a row written here and one written by json.dumps agree. */
#ifndef LS_JOBS_FLOAT_TEXT_H
#define LS_JOBS_FLOAT_TEXT_H

enum { LS_FLOAT_TEXT = 32 }; /* bytes, the closing zero included */

/* x must be finite. Returns the length. */
int ls_float_text(char out[LS_FLOAT_TEXT], double x);

#endif
