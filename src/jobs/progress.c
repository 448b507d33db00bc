#include "jobs/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BAR_WIDTH = 24,
    BAR_EVERY_US = 200 * 1000,
    PLAIN_EVERY_US = 5 * 1000 * 1000,
};

void ls_progress_init(struct ls_progress_state *p, enum ls_progress mode, int fd,
                      uint64_t total, uint64_t now_us)
{
    *p = (struct ls_progress_state){
        .mode = mode, .fd = fd, .total = total, .begin_us = now_us, .shown_us = now_us
    };
    if (mode == LS_PROGRESS_AUTO)
        p->mode = isatty(fd) ? LS_PROGRESS_BAR : LS_PROGRESS_PLAIN;
}

static int add_bar(char *out, size_t room, uint64_t done, uint64_t total)
{
    char bar[BAR_WIDTH + 1];
    const double part = total ? (double)done / (double)total : 0;
    const int filled = part < 1 ? (int)(part * BAR_WIDTH) : BAR_WIDTH;
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '-', (size_t)(BAR_WIDTH - filled));
    bar[BAR_WIDTH] = 0;
    return snprintf(out, room, "[%s] ", bar);
}

/* From the tokens that are left, when rows are like those that are finished. */
static double seconds_left(const struct ls_progress_counts *c, uint64_t total, double seconds)
{
    const double own = (double)(c->rows - c->resumed_rows), rows = (double)(total - c->rows);
    if (!c->done_tokens || !c->tokens)
        return seconds / own * rows;
    const double running = (double)(c->tokens - c->done_tokens);
    const double tokens = (double)c->done_tokens / own * rows - running;
    return tokens > 0 ? seconds / (double)c->tokens * tokens : 0;
}

static int add_eta(char *out, size_t room, const struct ls_progress_state *p,
                   const struct ls_progress_counts *counts, double seconds)
{
    if (!p->total || counts->rows == counts->resumed_rows || counts->rows >= p->total)
        return 0;
    const double left = seconds_left(counts, p->total, seconds);
    const uint64_t s = left < 1e9 ? (uint64_t)(left + 0.5) : 1000000000;
    if (s >= 3600)
        return snprintf(out, room, ", ETA %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
                        s / 60 % 60, s % 60);
    return snprintf(out, room, ", ETA %" PRIu64 ":%02" PRIu64, s / 60, s % 60);
}

int ls_progress_text(char out[LS_PROGRESS_TEXT], const struct ls_progress_state *p,
                     const struct ls_progress_counts *counts, uint64_t now_us)
{
    const double seconds = (double)(now_us - p->begin_us) / 1e6;
    const size_t room = LS_PROGRESS_TEXT;
    int n = 0;
    if (p->mode == LS_PROGRESS_BAR && p->total)
        n += add_bar(out, room, counts->rows, p->total);
    n += snprintf(out + n, room - (size_t)n, "%" PRIu64, counts->rows);
    if (p->total)
        n += snprintf(out + n, room - (size_t)n, " of %" PRIu64, p->total);
    n += snprintf(out + n, room - (size_t)n, " rows, %" PRIu64 " running, %.1f tokens/s",
                  counts->running, seconds > 0 ? (double)counts->tokens / seconds : 0);
    if (counts->error_rows)
        n +=
            snprintf(out + n, room - (size_t)n, ", %" PRIu64 " error rows", counts->error_rows);
    n += add_eta(out + n, room - (size_t)n, p, counts, seconds);
    return n;
}

void ls_progress_show(struct ls_progress_state *p, const struct ls_progress_counts *counts,
                      uint64_t now_us, bool last)
{
    const bool bar = p->mode == LS_PROGRESS_BAR;
    const uint64_t every = bar ? BAR_EVERY_US : PLAIN_EVERY_US;
    if (p->mode == LS_PROGRESS_NONE || (!last && now_us - p->shown_us < every))
        return;
    char text[LS_PROGRESS_TEXT], line[LS_PROGRESS_TEXT + 32];
    ls_progress_text(text, p, counts, now_us);
    /* a bar overwrites its line and clears what is left of the longer one before */
    int n = snprintf(line, sizeof line, "%s%s%s", bar ? "\r" : "", text,
                     !bar   ? "\n"
                     : last ? "\033[K\n"
                            : "\033[K");
    p->shown_us = now_us;
    if (write(p->fd, line, (size_t)n) < 0)
        p->mode = LS_PROGRESS_NONE;
}
