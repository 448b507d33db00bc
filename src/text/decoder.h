/* The decoder of a tokenizer.json: token texts back to text, as a chain of stages through
 * which tokens flow one at a time.
 *
 * Layer: text, private to it. Local. A decoder is immutable after loading; the state of a run
 * belongs to one thread. Knows Sequence, ByteLevel, ByteFallback, Metaspace, Replace, Fuse and
 * Strip; any other kind is refused by name. Without a decoder tokens are joined by spaces.
 *
 * A token travels in chunks of whole characters, the last of which is marked. Behind Fuse and
 * ByteLevel there is one token only, which ends with the stream. A stage that needs a whole
 * token (Replace by a longer pattern, Strip at the end) holds it back until then; ByteFallback
 * holds a run of byte tokens, since its last byte decides about all of it. */
#ifndef LS_TEXT_DECODER_H
#define LS_TEXT_DECODER_H

#include "text/byte_letters.h"
#include "text/regex.h"

enum ls_dec_kind {
    LS_DEC_BYTE_LEVEL,
    LS_DEC_BYTE_FALLBACK,
    LS_DEC_METASPACE,
    LS_DEC_REPLACE,
    LS_DEC_FUSE,
    LS_DEC_STRIP,
    LS_DEC_JOIN
};

enum { LS_MAX_DEC_STAGES = 16 };

struct ls_dec_stage {
    enum ls_dec_kind kind;
    struct ls_regex *re;     /* REPLACE, owned */
    struct ls_bytes content; /* REPLACE */
    uint32_t mark;           /* METASPACE, STRIP: the character */
    bool drop_first;         /* METASPACE: marks of the first token vanish */
    int64_t start;           /* STRIP: most marks taken at the start of a token */
    int64_t stop;            /* STRIP: most marks taken at its end */
};

struct ls_decoder {
    struct ls_dec_stage stages[LS_MAX_DEC_STAGES];
    int n;
    struct ls_byte_letters letters;
};

/* in: the "decoder" value or NULL. *out must be zeroed; finish it also after a failure. */
ls_status ls_decoder_load(struct ls_decoder *out, const json_t *in, struct ls_err *err);
void ls_decoder_finish(struct ls_decoder *d);

struct ls_dec_state {
    struct ls_bytes held; /* what waits for more */
    struct ls_bytes made; /* what the stage is about to hand on */
    uint64_t n_tokens;    /* tokens that have ended */
    int64_t n_taken;      /* STRIP: marks taken at the start of this token */
    bool in_text;         /* STRIP: something else than a mark was seen in it */
};

/* A run: zeroed is a fresh one, but for the pointers. */
struct ls_dec_run {
    const struct ls_decoder *d;
    struct ls_matcher *m;
    struct ls_dec_state st[LS_MAX_DEC_STAGES];
    struct ls_bytes *out; /* where the text is appended */
};

/* Feeds one token. */
ls_status ls_decoder_feed(struct ls_dec_run *run, struct ls_view token, struct ls_err *err);
/* Ends the stream and makes the run fresh again; buffers stay. */
ls_status ls_decoder_flush(struct ls_dec_run *run, struct ls_err *err);
/* Forgets what is held; buffers stay. */
void ls_decoder_reset(struct ls_dec_run *run);
void ls_dec_run_finish(struct ls_dec_run *run);

/* Appends the bytes that one token stands for by itself, which need not be whole characters:
 * byte-level letters and <0xHH> undone, marks as spaces, nothing stripped. work: two buffers
 * that the caller keeps. */
ls_status ls_decoder_token_bytes(const struct ls_decoder *d, struct ls_matcher *m,
                                 struct ls_view token, struct ls_bytes work[2],
                                 struct ls_bytes *out, struct ls_err *err);

/* Value of a "<0xHH>" token, or -1. */
int ls_byte_token(const uint8_t *s, size_t n);

/* Appends the bytes of a byte-level token; one with other characters is taken as it is. */
ls_status ls_byte_level_undo(const struct ls_byte_letters *t, const uint8_t *s, size_t n,
                             struct ls_bytes *out, struct ls_err *err);

#endif
