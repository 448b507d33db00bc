#include "jobs/windows.h"

#include "text/utf8.h"

static size_t n_left(const struct ls_windows *w)
{
    return w->n_stream > w->n_done + 1 ? w->n_stream - 1 - w->n_done : 0;
}

uint64_t ls_windows_count(const struct ls_windows *w)
{
    const uint64_t left = n_left(w), first = w->n_done ? w->stride : w->length;
    if (!left)
        return 0;
    return 1 + (left > first ? (left - first + w->stride - 1) / w->stride : 0);
}

bool ls_windows_next(struct ls_windows *w, struct ls_window *window)
{
    const size_t left = n_left(w), most = w->n_done ? w->stride : w->length;
    const uint32_t n_scored = (uint32_t)(left < most ? left : most);
    if (!left)
        return false;
    w->n_done += n_scored;
    const uint32_t n = w->n_done < w->length ? (uint32_t)w->n_done : w->length;
    *window = (struct ls_window){ .first = w->n_done - n, .n = n, .n_scored = n_scored };
    return true;
}

struct ls_window ls_window_of(size_t n_stream, uint32_t n_scored, uint32_t length,
                              size_t *n_dropped)
{
    const size_t most = (size_t)length + 1;
    *n_dropped = n_stream > most ? n_stream - most : 0;
    return (struct ls_window){ .first = *n_dropped,
                               .n = (uint32_t)(n_stream - 1 - *n_dropped),
                               .n_scored = n_scored };
}

/* The characters that Python calls space. */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t ls_trailing_space(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t end = n;
    while (end > 0) {
        size_t at = end - 1;
        while (at > 0 && (s[at] & 0xc0) == 0x80)
            at--;
        size_t from = at;
        if (!is_space(ls_utf8_next(s, &from)))
            break;
        end = at;
    }
    return n - end;
}
