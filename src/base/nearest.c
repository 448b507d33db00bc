#include "base/nearest.h"

#include <string.h>

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

int ls_edit_distance(const char *a, const char *b)
{
    const int n = (int)strnlen(a, LS_NEAREST_MAX), m = (int)strnlen(b, LS_NEAREST_MAX);
    int rows[3][LS_NEAREST_MAX + 1]; /* distances of a's prefixes i - 2, i - 1, i to b's */
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= m; j++)
        before[j] = last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] =
                smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], before[j - 2] + 1);
        }
        int *const spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[m];
}
