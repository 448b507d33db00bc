#include "wire/pack.h"

#include "base/guard.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#ifdef LS_HAVE_LZ4
#include <lz4.h>
#endif

const char *ls_pack_name(enum ls_pack pack)
{
    static const char *const names[LS_N_PACKS] = { "none", "lz4", "auto" };
    return (unsigned)pack < LS_N_PACKS ? names[pack] : "unknown";
}

#ifdef LS_HAVE_LZ4

/* planes[j][i] = data[i][j]; the common sizes have loops that compilers make wide. */
static void split(unsigned char *planes, const unsigned char *data, uint64_t n, unsigned size)
{
    uint64_t count = n / size;
    for (unsigned j = 0; j < size; j++)
        for (uint64_t i = 0; i < count; i++)
            planes[j * count + i] = data[i * size + j];
}

static void split_2(unsigned char *restrict planes, const unsigned char *restrict data,
                    uint64_t n)
{
    uint64_t count = n / 2;
    for (uint64_t i = 0; i < count; i++) {
        planes[i] = data[2 * i];
        planes[count + i] = data[2 * i + 1];
    }
}

static void join(unsigned char *data, const unsigned char *planes, uint64_t n, unsigned size)
{
    uint64_t count = n / size;
    for (unsigned j = 0; j < size; j++)
        for (uint64_t i = 0; i < count; i++)
            data[i * size + j] = planes[j * count + i];
}

static void join_2(unsigned char *restrict data, const unsigned char *restrict planes,
                   uint64_t n)
{
    uint64_t count = n / 2;
    for (uint64_t i = 0; i < count; i++) {
        data[2 * i] = planes[i];
        data[2 * i + 1] = planes[count + i];
    }
}

static void to_planes(unsigned char *planes, const unsigned char *data, uint64_t n,
                      unsigned size)
{
    if (size == 2)
        split_2(planes, data, n);
    else
        split(planes, data, n, size);
}

static void from_planes(unsigned char *data, const unsigned char *planes, uint64_t n,
                        unsigned size)
{
    if (size == 2)
        join_2(data, planes, n);
    else
        join(data, planes, n, size);
}

bool ls_pack_is_built(void)
{
    return true;
}

uint64_t ls_pack_apply(unsigned char *data, uint64_t n, unsigned size, unsigned char *scratch)
{
    if (n < 2 || n > LZ4_MAX_INPUT_SIZE)
        return 0;
    to_planes(scratch, data, n, size);
    int packed = LZ4_compress_default((const char *)scratch, (char *)data, (int)n, (int)n - 1);
    if (packed <= 0) {
        from_planes(data, scratch, n, size);
        return 0;
    }
    return (uint64_t)packed;
}

ls_status ls_pack_open(unsigned char *out, uint64_t n, const unsigned char *data,
                       uint64_t packed, unsigned size, unsigned char *scratch,
                       struct ls_err *err)
{
    int got = -1;
    if (n <= LZ4_MAX_INPUT_SIZE && packed < n)
        got = LZ4_decompress_safe((const char *)data, (char *)scratch, (int)packed, (int)n);
    if (LS_GUARD("unpacked-size") && (got < 0 || (uint64_t)got != n))
        return ls_fail(err, LS_E_SHAPE,
                       "packed tensor of %" PRIu64 " bytes: does not unpack to %" PRIu64
                       " bytes",
                       packed, n);
    from_planes(out, scratch, n, size);
    return LS_OK;
}

#else

bool ls_pack_is_built(void)
{
    return false;
}

uint64_t ls_pack_apply(unsigned char *data, uint64_t n, unsigned size, unsigned char *scratch)
{
    (void)data;
    (void)n;
    (void)size;
    (void)scratch;
    return 0;
}

ls_status ls_pack_open(unsigned char *out, uint64_t n, const unsigned char *data,
                       uint64_t packed, unsigned size, unsigned char *scratch,
                       struct ls_err *err)
{
    (void)out;
    (void)n;
    (void)data;
    (void)size;
    (void)scratch;
    return ls_fail(err, LS_E_SHAPE,
                   "packed tensor of %" PRIu64 " bytes: this build has no liblz4", packed);
}

#endif
