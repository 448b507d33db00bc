#include "jobs/float_text.h"

#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SURE_DIGITS = 15, /* any decimal of so many digits survives in a normal number */
    MAX_DIGITS = 17,  /* any binary64 survives so many decimal digits */
};

/* 0.d1 d2 d3 ... x 10^point */
struct decimal {
    char digits[MAX_DIGITS + 1];
    int n, point;
};

static double value_of(const struct decimal *d)
{
    char text[48];
    snprintf(text, sizeof text, "%se%d", d->digits, d->point - d->n);
    return strtod(text, NULL);
}

static void round_to(struct decimal *d, double x, int n)
{
    char text[48];
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    const char *e = strchr(text, 'e');
    d->n = 0;
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            d->digits[d->n++] = *p;
    d->digits[d->n] = 0;
    d->point = atoi(e + 1) + 1;
}

/* The next decimal of as many digits. */
static void step_up(struct decimal *d)
{
    int i = d->n - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
        return;
    }
    d->digits[0] = '1';
    d->point++;
}

/* Below a power of two numbers lie twice as dense, so the nearest decimal can miss it where the
 * next one above still reads back as it. */
static int reads_back(struct decimal *d, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (value_of(d) == x)
        return 1;
    if (bits << 12)
        return 0;
    struct decimal above = *d;
    step_up(&above);
    if (value_of(&above) != x)
        return 0;
    *d = above;
    return 1;
}

static void shortest(struct decimal *d, double x)
{
    /* denormals hold fewer digits */
    for (int n = x < DBL_MIN ? 1 : SURE_DIGITS; n <= MAX_DIGITS; n++) {
        round_to(d, x, n);
        if (reads_back(d, x))
            break;
    }
    while (d->n > 1 && d->digits[d->n - 1] == '0')
        d->n--;
    d->digits[d->n] = 0;
}

static int lay_out(char out[LS_FLOAT_TEXT], const struct decimal *d)
{
    static const char zeros[] = "0000000000000000";
    const int exponent = d->point - 1;
    const size_t room = LS_FLOAT_TEXT - 1; /* behind a sign */
    if (exponent < -4 || exponent >= 16)
        return snprintf(out, room, "%c%s%se%c%02d", d->digits[0], d->n > 1 ? "." : "",
                        d->digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    if (d->point <= 0)
        return snprintf(out, room, "0.%.*s%s", -d->point, zeros, d->digits);
    if (d->n <= d->point)
        return snprintf(out, room, "%s%.*s.0", d->digits, d->point - d->n, zeros);
    return snprintf(out, room, "%.*s.%s", d->point, d->digits, d->digits + d->point);
}

int ls_float_text(char out[LS_FLOAT_TEXT], double x)
{
    int n = 0;
    if (__builtin_signbit(x)) {
        out[n++] = '-';
        x = -x;
    }
    struct decimal d = { .digits = "0", .n = 1, .point = 1 };
    if (x > 0)
        shortest(&d, x);
    return n + lay_out(out + n, &d);
}
