#include "kernels/kernels.h"

#include "kernels/math64.h"

double ls_log_prob(float x, float max, double sum)
{
    return ((double)x - (double)max) - ls_log64(sum);
}
