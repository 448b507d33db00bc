#include "app/time_limit.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    SECOND_US = 1000000,
    MAX_SECONDS = 10 * 366 * 24 * 3600,
    FINISH_S = 30,       /* for what runs, at most */
    END_S = 2,           /* to make everything durable and to end all ranks, at most */
    SLURM_MARGIN_S = 30, /* before Slurm's own end, whose signals come earlier than it says */
};

static ls_status refuse(const char *text, struct ls_err *err)
{
    return ls_fail(err, LS_E_USAGE,
                   "--time-limit: '%s' is no time, expected seconds, 90s, 15m, 6h, 2d or "
                   "hours:minutes:seconds",
                   text);
}

static uint64_t unit_of(const char *end)
{
    static const struct {
        const char *name;
        uint64_t seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 24 * 3600 } };
    for (int i = 0; i < (int)(sizeof units / sizeof units[0]); i++)
        if (!strcmp(end, units[i].name))
            return units[i].seconds;
    return 0;
}

ls_status ls_time_limit_parse(uint64_t *seconds, const char *text, struct ls_err *err)
{
    uint64_t sum = 0;
    const char *at = text;
    for (int n_parts = 1;; n_parts++) {
        char *end;
        if (*at < '0' || *at > '9')
            return refuse(text, err);
        const unsigned long long v = strtoull(at, &end, 10);
        if (v > MAX_SECONDS)
            return refuse(text, err);
        sum = 60 * sum + v;
        at = end + 1;
        if (*end == ':' && n_parts < 3)
            continue;
        const uint64_t unit = n_parts == 1 ? unit_of(end) : *end == 0;
        if (!unit || !sum || sum > MAX_SECONDS / unit)
            return refuse(text, err);
        *seconds = sum * unit;
        return LS_OK;
    }
}

static void set(struct ls_time_limit *limit, uint64_t begin_us, uint64_t seconds,
                const char *what)
{
    const uint64_t whole = seconds * SECOND_US;
    const uint64_t end = whole / 10 < END_S * SECOND_US ? whole / 10 : END_S * SECOND_US;
    const uint64_t finish =
        whole / 4 < (uint64_t)FINISH_S * SECOND_US ? whole / 4 : (uint64_t)FINISH_S * SECOND_US;
    *limit = (struct ls_time_limit){ .drain_us = begin_us + whole - end - finish,
                                     .stop_us = begin_us + whole - end,
                                     .what = what };
}

/* Seconds that are left of the Slurm job, at least 1; 0: it says nothing. */
static uint64_t slurm_seconds(uint64_t epoch_s)
{
    const char *const text = getenv("SLURM_JOB_END_TIME");
    char *end;
    if (!text || *text < '0' || *text > '9')
        return 0;
    const unsigned long long at = strtoull(text, &end, 10);
    if (*end || at > epoch_s + MAX_SECONDS)
        return 0;
    return at > epoch_s + SLURM_MARGIN_S ? at - SLURM_MARGIN_S - epoch_s : 1;
}

ls_status ls_time_limit_of(struct ls_time_limit *limit, const char *text, uint64_t start_us,
                           uint64_t epoch_s, struct ls_err *err)
{
    struct ls_time_limit own = { 0 }, slurm = { 0 };
    uint64_t seconds;
    if (text) {
        ls_status status = ls_time_limit_parse(&seconds, text, err);
        if (status)
            return status;
        set(&own, start_us, seconds, "the time limit");
    }
    seconds = slurm_seconds(epoch_s);
    if (seconds)
        set(&slurm, ls_now_us(), seconds, "the end of the Slurm job");
    *limit = !own.what || (slurm.what && slurm.stop_us < own.stop_us) ? slurm : own;
    return LS_OK;
}
