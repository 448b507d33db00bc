#include "jobs/record.h"

#include "base/le.h"

#include <string.h>

static const unsigned char magic[4] = { 'L', 'S', 'J', '1' };

enum { FLAG_ERROR = 1, FLAG_ID = 2 };

static unsigned char *put(unsigned char *at, uint64_t v, int n)
{
    ls_le_put(at, v, n);
    return at + n;
}

static uint64_t get(const unsigned char **at, int n)
{
    const uint64_t v = ls_le_get(*at, n);
    *at += n;
    return v;
}

void ls_frame_put(unsigned char out[LS_FRAME_BYTES], const struct ls_record_frame *frame)
{
    memcpy(out, magic, sizeof magic);
    unsigned char *at = put(out + sizeof magic, frame->kind, 4);
    at = put(at, frame->n_payload, 4);
    at = put(at, 0, 4);
    memcpy(at, frame->digest, LS_RECORD_DIGEST);
}

bool ls_frame_get(struct ls_record_frame *frame, const unsigned char bytes[LS_FRAME_BYTES])
{
    const unsigned char *at = bytes + sizeof magic;
    if (memcmp(bytes, magic, sizeof magic))
        return false;
    frame->kind = (uint32_t)get(&at, 4);
    frame->n_payload = (uint32_t)get(&at, 4);
    const bool known = frame->kind == LS_RECORD_IDENTITY || frame->kind == LS_RECORD_ROW;
    if (get(&at, 4) || !known)
        return false;
    memcpy(frame->digest, at, LS_RECORD_DIGEST);
    return true;
}

void ls_row_record_put(unsigned char out[LS_ROW_FIXED_BYTES], const struct ls_row_record *rec)
{
    unsigned char *at = put(out, rec->line, 8);
    at = put(at, rec->prompt_tokens, 8);
    at = put(at, rec->generated_tokens, 8);
    at = put(at, (rec->is_error ? FLAG_ERROR : 0) | (rec->has_id ? FLAG_ID : 0), 4);
    at = put(at, rec->n_row, 4);
    at = put(at, rec->n_places, 4);
    at = put(at, rec->n_id, 4);
    memcpy(at, rec->line_digest, 32);
    memcpy(at + 32, rec->logits_digest, 32);
    memcpy(at + 64, rec->id_digest, LS_ID_BYTES);
    memset(at + 80, 0, 8);
}

bool ls_row_record_get(struct ls_row_record *rec, const unsigned char *bytes, uint64_t n)
{
    struct ls_row_record r;
    const unsigned char *at = bytes;
    if (n < LS_ROW_FIXED_BYTES)
        return false;
    r.line = get(&at, 8);
    r.prompt_tokens = get(&at, 8);
    r.generated_tokens = get(&at, 8);
    const uint64_t flags = get(&at, 4);
    r.n_row = (uint32_t)get(&at, 4);
    r.n_places = (uint32_t)get(&at, 4);
    r.n_id = (uint32_t)get(&at, 4);
    memcpy(r.line_digest, at, 32);
    memcpy(r.logits_digest, at + 32, 32);
    memcpy(r.id_digest, at + 64, LS_ID_BYTES);
    r.is_error = flags & FLAG_ERROR;
    r.has_id = flags & FLAG_ID;
    const uint64_t whole =
        LS_ROW_FIXED_BYTES + (uint64_t)r.n_row + (uint64_t)r.n_places * LS_PLACE_BYTES + r.n_id;
    if (whole != n || flags > (FLAG_ERROR | FLAG_ID) || !r.line || r.line > UINT64_MAX / 16)
        return false;
    *rec = r;
    return true;
}

void ls_place_put(unsigned char out[LS_PLACE_BYTES], const struct ls_place *place)
{
    put(put(out, place->rows, 4), place->first_row, 4);
}

void ls_place_get(struct ls_place *place, const unsigned char bytes[LS_PLACE_BYTES])
{
    const unsigned char *at = bytes;
    place->rows = (uint32_t)get(&at, 4);
    place->first_row = (uint32_t)get(&at, 4);
}
