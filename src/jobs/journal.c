#include "jobs/journal.h"

#include "jobs/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

enum {
    READ_BLOCK = 256 * 1024,
    IDENTITY_BYTES = 1 << 20, /* a longer one is no identity */
};

void ls_journal_close(struct ls_journal *j)
{
    if (!j->path)
        return;
    close(j->fd);
    free(j->path);
    ls_out_finish(&j->tail);
    *j = (struct ls_journal){ .fd = -1 };
}

static void start_digest(crypto_generichash_state *state, const struct ls_record_frame *frame)
{
    const uint32_t head[2] = { frame->kind, frame->n_payload };
    crypto_generichash_init(state, NULL, 0, LS_RECORD_DIGEST);
    crypto_generichash_update(state, (const unsigned char *)head, sizeof head);
}

/* --- scanning --------------------------------------------------------------------------------
 */

/* A buffered reader of the file, from its beginning. */
struct reader {
    struct ls_journal *j;
    unsigned char *block; /* [READ_BLOCK] */
    uint64_t off;         /* of the next byte to be given out */
    size_t begin, end;    /* of the unread bytes in the block */
};

/* Up to n bytes that lie together; *got is 0 at the end of the file. */
static ls_status more(struct reader *r, size_t n, const unsigned char **at, size_t *got,
                      struct ls_err *err)
{
    if (r->begin == r->end) {
        ssize_t n_read;
        do
            n_read = pread(r->j->fd, r->block, READ_BLOCK, (off_t)r->off);
        while (n_read < 0 && errno == EINTR);
        if (n_read < 0)
            return ls_fail(err, LS_E_IO, "cannot read journal %s: %s", r->j->path,
                           strerror(errno));
        r->begin = 0;
        r->end = (size_t)n_read;
    }
    *at = r->block + r->begin;
    *got = r->end - r->begin < n ? r->end - r->begin : n;
    r->begin += *got;
    r->off += *got;
    return LS_OK;
}

/* Exactly n bytes into `to` (NULL: only into the digest); *whole is false at the file's end. */
static ls_status take(struct reader *r, void *to, uint64_t n, crypto_generichash_state *digest,
                      bool *whole, struct ls_err *err)
{
    unsigned char *out = to;
    *whole = true;
    while (n && *whole) {
        const unsigned char *at = NULL;
        size_t got = 0;
        ls_status status = more(r, n < READ_BLOCK ? (size_t)n : READ_BLOCK, &at, &got, err);
        if (status)
            return status;
        if (digest)
            crypto_generichash_update(digest, at, got);
        if (out) {
            memcpy(out, at, got);
            out += got;
        }
        n -= got;
        *whole = got > 0;
    }
    return LS_OK;
}

struct scan {
    struct reader reader;
    ls_journal_visit *visit;
    void *arg;
    char *text; /* [IDENTITY_BYTES] */
};

/* The payload of a frame that was read; *whole: it is all there and its digest is right. */
static ls_status scan_payload(struct scan *s, uint64_t off, const struct ls_record_frame *f,
                              bool *whole, struct ls_err *err)
{
    unsigned char digest[LS_RECORD_DIGEST], fixed[LS_ROW_FIXED_BYTES];
    struct ls_row_record row;
    crypto_generichash_state state;
    const bool is_row = f->kind == LS_RECORD_ROW;
    const uint32_t kept = is_row ? LS_ROW_FIXED_BYTES : f->n_payload;
    *whole = kept <= f->n_payload && (is_row || kept <= IDENTITY_BYTES);
    start_digest(&state, f);
    ls_status status = LS_OK;
    if (*whole)
        status = take(&s->reader, is_row ? (void *)fixed : s->text, kept, &state, whole, err);
    if (!status && *whole)
        status = take(&s->reader, NULL, f->n_payload - kept, &state, whole, err);
    if (status || !*whole)
        return status;
    crypto_generichash_final(&state, digest, sizeof digest);
    *whole = !memcmp(digest, f->digest, sizeof digest) &&
             (!is_row || ls_row_record_get(&row, fixed, f->n_payload));
    if (!*whole)
        return LS_OK;
    return s->visit(s->arg, off, is_row ? &row : NULL, is_row ? NULL : s->text,
                    is_row ? 0 : f->n_payload, err);
}

static ls_status scan_all(struct scan *s, struct ls_err *err)
{
    struct ls_journal *j = s->reader.j;
    for (bool whole = true; whole;) {
        unsigned char bytes[LS_FRAME_BYTES];
        struct ls_record_frame frame;
        const uint64_t off = s->reader.off;
        ls_status status = take(&s->reader, bytes, sizeof bytes, NULL, &whole, err);
        whole = whole && ls_frame_get(&frame, bytes);
        /* the first record is the identity, and there is no second one */
        whole = whole && (off == 0) == (frame.kind == LS_RECORD_IDENTITY);
        if (!status && whole)
            status = scan_payload(s, off, &frame, &whole, err);
        if (status)
            return status;
        if (whole)
            j->end = s->reader.off;
    }
    return LS_OK;
}

ls_status ls_journal_scan(struct ls_journal *j, ls_journal_visit *visit, void *arg,
                          uint64_t *torn, struct ls_err *err)
{
    struct stat st;
    if (fstat(j->fd, &st))
        return ls_fail(err, LS_E_IO, "cannot look at journal %s: %s", j->path, strerror(errno));
    const uint64_t size = (uint64_t)st.st_size;
    struct scan s = { .reader = { .j = j, .block = malloc(READ_BLOCK) },
                      .visit = visit,
                      .arg = arg,
                      .text = malloc(IDENTITY_BYTES) };
    j->end = 0;
    ls_status status = s.reader.block && s.text
                           ? scan_all(&s, err)
                           : ls_fail(err, LS_E_MEMORY, "out of memory to read the journal");
    if (!status && !j->end)
        status =
            ls_fail(err, LS_E_REFUSED,
                    "%s does not begin as a journal does; --fresh starts a new one", j->path);
    free(s.reader.block);
    free(s.text);
    j->durable = 0; /* it may not have been synced when its writer was killed */
    *torn = size > j->end ? size - j->end : 0;
    return status;
}

ls_status ls_journal_cut(struct ls_journal *j, struct ls_err *err)
{
    if (ftruncate(j->fd, (off_t)j->end))
        return ls_fail(err, ls_io_status(errno), "cannot cut journal %s: %s", j->path,
                       strerror(errno));
    return LS_OK;
}

/* --- appending -------------------------------------------------------------------------------
 */

/* Room for a frame, which seal() fills when the payload is behind it. */
static size_t begin_record(struct ls_journal *j)
{
    const unsigned char empty[LS_FRAME_BYTES] = { 0 };
    const size_t at = j->tail.n;
    ls_out_add(&j->tail, empty, sizeof empty);
    return at;
}

static ls_status seal(struct ls_journal *j, size_t at, uint32_t kind, struct ls_err *err)
{
    if (j->tail.failed)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the journal");
    const size_t n = j->tail.n - at - LS_FRAME_BYTES;
    if (n > UINT32_MAX) {
        j->tail.n = at;
        return ls_fail(err, LS_E_IO, "a row of %zu bytes is too long for the journal", n);
    }
    unsigned char *record = (unsigned char *)j->tail.data + at;
    struct ls_record_frame frame = { .kind = kind, .n_payload = (uint32_t)n };
    crypto_generichash_state state;
    start_digest(&state, &frame);
    crypto_generichash_update(&state, record + LS_FRAME_BYTES, n);
    crypto_generichash_final(&state, frame.digest, sizeof frame.digest);
    ls_frame_put(record, &frame);
    return LS_OK;
}

ls_status ls_journal_put_row(struct ls_journal *j, const struct ls_row_record *rec,
                             const char *row, const struct ls_place *places, const char *id,
                             uint64_t *off, struct ls_err *err)
{
    unsigned char fixed[LS_ROW_FIXED_BYTES], place[LS_PLACE_BYTES];
    const size_t at = begin_record(j);
    ls_row_record_put(fixed, rec);
    ls_out_add(&j->tail, fixed, sizeof fixed);
    ls_out_add(&j->tail, row, rec->n_row);
    for (uint32_t i = 0; i < rec->n_places; i++) {
        ls_place_put(place, &places[i]);
        ls_out_add(&j->tail, place, sizeof place);
    }
    ls_out_add(&j->tail, id, rec->n_id);
    *off = j->end + at;
    return seal(j, at, LS_RECORD_ROW, err);
}

/* --- reading back ----------------------------------------------------------------------------
 */

static ls_status broken(const struct ls_journal *j, uint64_t off, struct ls_err *err)
{
    return ls_fail(err, LS_E_IO, "journal %s: the record at byte %" PRIu64 " has changed",
                   j->path, off);
}

static ls_status get_from_file(struct ls_journal *j, uint64_t off, struct ls_out *buffer,
                               struct ls_record_frame *frame, struct ls_err *err)
{
    unsigned char head[LS_FRAME_BYTES], digest[LS_RECORD_DIGEST];
    crypto_generichash_state state;
    ls_status status = ls_read_at(j->fd, head, sizeof head, off, j->path, err);
    if (status)
        return status;
    if (!ls_frame_get(frame, head))
        return broken(j, off, err);
    if (!ls_out_room(buffer, frame->n_payload))
        return ls_fail(err, LS_E_MEMORY, "out of memory for a row of the journal");
    status =
        ls_read_at(j->fd, buffer->data, frame->n_payload, off + LS_FRAME_BYTES, j->path, err);
    if (status)
        return status;
    start_digest(&state, frame);
    crypto_generichash_update(&state, (unsigned char *)buffer->data, frame->n_payload);
    crypto_generichash_final(&state, digest, sizeof digest);
    return memcmp(digest, frame->digest, sizeof digest) ? broken(j, off, err) : LS_OK;
}

ls_status ls_journal_look(struct ls_journal *j, uint64_t off, struct ls_row_record *rec,
                          struct ls_err *err)
{
    unsigned char bytes[LS_FRAME_BYTES + LS_ROW_FIXED_BYTES];
    struct ls_record_frame frame;
    ls_status status = ls_read_at(j->fd, bytes, sizeof bytes, off, j->path, err);
    if (status)
        return status;
    if (!ls_frame_get(&frame, bytes) || frame.kind != LS_RECORD_ROW ||
        !ls_row_record_get(rec, bytes + LS_FRAME_BYTES, frame.n_payload))
        return broken(j, off, err);
    return LS_OK;
}

ls_status ls_journal_get(struct ls_journal *j, uint64_t off, struct ls_row_record *rec,
                         struct ls_out *buffer, const unsigned char **payload,
                         struct ls_err *err)
{
    struct ls_record_frame frame;
    const unsigned char *at;
    if (off >= j->end) {
        const unsigned char *record = (unsigned char *)j->tail.data + (off - j->end);
        at = record + LS_FRAME_BYTES;
        if (!ls_frame_get(&frame, record))
            return broken(j, off, err);
    } else {
        ls_status status = get_from_file(j, off, buffer, &frame, err);
        if (status)
            return status;
        at = (const unsigned char *)buffer->data;
    }
    if (frame.kind != LS_RECORD_ROW || !ls_row_record_get(rec, at, frame.n_payload))
        return broken(j, off, err);
    *payload = at;
    return LS_OK;
}

/* --- commit ----------------------------------------------------------------------------------
 */

uint64_t ls_journal_pending(const struct ls_journal *j)
{
    return j->tail.n + (j->end - j->durable);
}

/* What reached the file of a group that failed is no group. */
static ls_status take_back(struct ls_journal *j, ls_status status, struct ls_err *err)
{
    j->failed = true;
    if (ftruncate(j->fd, (off_t)j->end) && err)
        ls_fail_prefix(err, "the journal now ends in a torn record");
    return status;
}

ls_status ls_journal_commit(struct ls_journal *j, struct ls_err *err)
{
    if (j->failed || !ls_journal_pending(j))
        return LS_OK;
    ls_status status = ls_out_check(&j->tail, "the journal", err);
    if (!status && j->tail.n)
        status = ls_write_at(j->fd, j->tail.data, j->tail.n, j->end, j->path, err);
    if (status)
        return take_back(j, status, err);
    j->end += j->tail.n;
    j->tail.n = 0;
    if (fdatasync(j->fd)) {
        j->failed = true;
        return ls_fail(err, ls_io_status(errno), "cannot make journal %s durable: %s", j->path,
                       strerror(errno));
    }
    j->durable = j->end;
    return LS_OK;
}

/* --- opening ---------------------------------------------------------------------------------
 */

static ls_status open_named(struct ls_journal *j, const char *folder, const char *end,
                            int flags, struct ls_err *err)
{
    struct ls_journal made = { .fd = -1 };
    if (asprintf(&made.path, "%s/journal%s", folder, end) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of the journal");
    made.fd = open(made.path, flags | O_CLOEXEC, 0666);
    if (made.fd < 0) {
        const ls_status status = ls_fail(err, ls_io_status(errno), "cannot open journal %s: %s",
                                         made.path, strerror(errno));
        free(made.path);
        return status;
    }
    *j = made;
    return LS_OK;
}

ls_status ls_journal_open(struct ls_journal *j, const char *folder, bool write, bool *there,
                          struct ls_err *err)
{
    ls_status status = open_named(j, folder, "", write ? O_RDWR : O_RDONLY, err);
    *there = !status;
    return status && errno == ENOENT ? LS_OK : status;
}

/* The file that was made as folder/journal.part becomes folder/journal, also after a crash. */
static ls_status name(struct ls_journal *j, const char *folder, struct ls_err *err)
{
    char *path = strndup(j->path, strlen(j->path) - strlen(".part"));
    if (!path)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of the journal");
    if (rename(j->path, path)) {
        const ls_status status = ls_fail(err, ls_io_status(errno), "cannot make journal %s: %s",
                                         path, strerror(errno));
        free(path);
        return status;
    }
    free(j->path);
    j->path = path;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    return LS_OK;
}

ls_status ls_journal_create(struct ls_journal *j, const char *folder, const char *identity,
                            size_t n, struct ls_err *err)
{
    struct ls_journal made;
    ls_status status = open_named(&made, folder, ".part", O_RDWR | O_CREAT | O_TRUNC, err);
    if (status)
        return status;
    const size_t at = begin_record(&made);
    ls_out_add(&made.tail, identity, n);
    status = seal(&made, at, LS_RECORD_IDENTITY, err);
    if (!status)
        status = ls_journal_commit(&made, err);
    if (!status)
        status = name(&made, folder, err);
    if (status) {
        unlink(made.path);
        ls_journal_close(&made);
    } else {
        *j = made;
    }
    return status;
}
