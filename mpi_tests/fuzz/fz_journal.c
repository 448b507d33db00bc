/* A journal file: whatever its bytes are, what is accepted are whole records, which read back
 * the same; scanning ends, and memory does not follow a length in the file. */
#include "jobs/journal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sodium.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

struct seen {
    uint64_t last_off, rows;
    uint64_t off[64]; /* of the first rows */
    int identity;
};

static ls_status see(void *arg, uint64_t off, const struct ls_row_record *row, const char *text,
                     size_t n, struct ls_err *err)
{
    (void)err;
    struct seen *s = arg;
    must((row == NULL) == (off == 0) && (row || n == 0 || text));
    s->identity += !row;
    must(s->identity == 1 && (!row || off > s->last_off));
    s->last_off = off;
    if (!row)
        return LS_OK;
    must(row->line > 0);
    if (s->rows < 64)
        s->off[s->rows] = off;
    s->rows++;
    return LS_OK;
}

/* The digest of the first record is put right in every second input, or no mutation would get
 * past it. */
static void mend(unsigned char *bytes, size_t size)
{
    struct ls_record_frame f;
    if (size < LS_FRAME_BYTES || !ls_frame_get(&f, bytes) ||
        f.n_payload > size - LS_FRAME_BYTES)
        return;
    const uint32_t head[2] = { f.kind, f.n_payload };
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, LS_RECORD_DIGEST);
    crypto_generichash_update(&state, (const unsigned char *)head, sizeof head);
    crypto_generichash_update(&state, bytes + LS_FRAME_BYTES, f.n_payload);
    crypto_generichash_final(&state, f.digest, sizeof f.digest);
    ls_frame_put(bytes, &f);
    mend(bytes + LS_FRAME_BYTES + f.n_payload, size - LS_FRAME_BYTES - f.n_payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[] = "journal";
    unsigned char *bytes = malloc(size ? size : 1);
    struct ls_journal j = { .path = path, .fd = memfd_create("journal", 0) };
    struct seen s = { .rows = 0 };
    uint64_t torn;
    must(bytes && j.fd >= 0);
    memcpy(bytes, data, size);
    if (size && data[size - 1] & 1)
        mend(bytes, size);
    must(write(j.fd, bytes, size) == (ssize_t)size);
    ls_status status = ls_journal_scan(&j, see, &s, &torn, NULL);
    must(status == (s.identity ? LS_OK : LS_E_REFUSED) && j.end + torn == size);
    struct ls_out buffer = { 0 };
    for (uint64_t i = 0; i < s.rows && i < 64; i++) {
        struct ls_row_record a, b;
        const unsigned char *payload;
        must(!ls_journal_get(&j, s.off[i], &a, &buffer, &payload, NULL));
        must(!ls_journal_look(&j, s.off[i], &b, NULL) && a.line == b.line);
    }
    ls_out_finish(&buffer);
    close(j.fd);
    free(bytes);
    return 0;
}
