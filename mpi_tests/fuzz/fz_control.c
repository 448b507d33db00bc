/* Bodies of control messages: whatever the bytes are, decoding stays inside them, and what is
 * accepted encodes to the same bytes. The first byte chooses the form. */
#include "pipeline/control.h"
#include "pipeline/report.h"
#include "pipeline/stats.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void same(const uint8_t *data, size_t size, const unsigned char *again, size_t n)
{
    require(n == size && memcmp(data, again, n) == 0);
}

static void wish(const uint8_t *data, size_t size)
{
    static struct ls_run_wish got;
    static unsigned char again[LS_WISH_BYTES];
    if (!ls_wish_decode(&got, data, size, NULL))
        same(data, size, again, ls_wish_encode(&got, again));
}

/* Half of the inputs get a right digest, or no mutation would come past it. */
static void plan(const uint8_t *data, size_t size, int sign)
{
    static struct ls_plan got;
    static unsigned char again[LS_PLAN_BYTES];
    if (size > sizeof again)
        return;
    memcpy(again, data, size);
    if (sign && size > 48)
        ls_plan_sign(again, size);
    unsigned char *exact = malloc(size ? size : 1);
    require(exact != NULL);
    memcpy(exact, again, size);
    if (!ls_plan_decode(&got, exact, size, NULL))
        same(exact, size, again, ls_plan_encode(&got, again));
    free(exact);
}

static void view(const uint8_t *data, size_t size)
{
    static struct ls_rank_view got;
    unsigned char again[LS_VIEW_BYTES];
    if (!ls_view_decode(&got, data, size, NULL))
        same(data, size, again, ls_view_encode(&got, again));
}

static void stats(const uint8_t *data, size_t size)
{
    struct ls_stage_stats got;
    unsigned char again[LS_STATS_BYTES];
    if (!ls_stats_decode(&got, data, size, NULL))
        same(data, size, again, ls_stats_encode(&got, again));
}

static void failure(const uint8_t *data, size_t size)
{
    /* body is writable for unsealing in place; reading a failure changes nothing */
    struct ls_message m = { .kind = LS_KIND_STOP,
                            .body = (unsigned char *)(uintptr_t)data,
                            .n = size };
    struct ls_err err = { .status = LS_OK };
    ls_status s = ls_control_read_failure(&m, &err);
    require(s < LS_N_STATUS && strlen(err.text) < LS_ERR_TEXT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    switch (data[0] % 6) {
    case 0:
        wish(data + 1, size - 1);
        break;
    case 1:
    case 2:
        plan(data + 1, size - 1, data[0] % 6 == 2);
        break;
    case 3:
        view(data + 1, size - 1);
        break;
    case 4:
        stats(data + 1, size - 1);
        break;
    default:
        failure(data + 1, size - 1);
    }
    return 0;
}
