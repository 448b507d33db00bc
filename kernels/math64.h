/* Binary64 functions for rope tables and log-probabilities, from IEEE operations only, so that
 * hosts with different libms agree. Error below 2^-45 relative (absolute for sine and cosine).
 * Layer: kernels. Call outside ls_fp_enter or inside, the bits are the same. Cannot fail. */
#ifndef LS_KERNELS_MATH64_H
#define LS_KERNELS_MATH64_H

double ls_log64(double x);           /* x > 0, finite */
double ls_exp64(double x);           /* |x| <= 700 */
double ls_pow64(double x, double y); /* x > 0: exp(y log x), carried in extra precision */
/* Sine and cosine of an angle that is a binary32 number, |angle| <= 2^27. */
void ls_sincos64(float angle, double *sine, double *cosine);

#endif
