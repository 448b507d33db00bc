/* Sealing: the tag of a frame, and the payload's secrecy, by libsodium's AEAD ciphers.
 *
 * Layer: wire. No transport, no clock; allocates only in create. The header is associated data
 * and the payload is encrypted where it lies (level signed: both are associated data and the
 * payload stays readable). The nonce is the header's own epoch and sequence, 96 bits, never
 * used twice under a key: a key belongs to one direction of one link, its sequence only grows,
 * and every epoch has a key of its own. Level plain is ls_frame_seal and ls_frame_open.
 *
 * A seal is one end of one direction: the sender applies, the receiver opens. Its keys lie in
 * guarded memory and are wiped by destroy. Errors never say which byte differed. */
#ifndef LS_WIRE_SEAL_H
#define LS_WIRE_SEAL_H

#include "wire/frame.h"
#include "wire/secret.h"

enum { LS_KEY_BYTES = LS_SECRET_BYTES };

/* The numbers travel in hellos: append only. */
enum ls_level { LS_LEVEL_PLAIN = 0, LS_LEVEL_SIGNED = 1, LS_LEVEL_SEALED = 2, LS_N_LEVELS };
enum ls_suite { LS_SUITE_NONE = 0, LS_SUITE_AES256GCM = 1, LS_SUITE_CHACHA20 = 2, LS_N_SUITES };

const char *ls_level_name(enum ls_level level);
const char *ls_suite_name(enum ls_suite suite);

/* Bit mask of 1 << suite that this machine runs (AES-256-GCM needs hardware AES). */
uint32_t ls_suites_here(void);
/* The suite to use when all ranks have the suites of `mask`; NONE for an empty mask. */
enum ls_suite ls_suite_choose(uint32_t mask);

struct ls_seal;

/* Both ends give the same key, which is copied. key is not read for level plain, where suite
 * must be NONE; a suite that this machine does not run is LS_E_REFUSED. Heap. */
ls_status ls_seal_create(struct ls_seal **out, enum ls_level level, enum ls_suite suite,
                         const unsigned char key[LS_KEY_BYTES], struct ls_err *err);
/* Takes NULL. */
void ls_seal_destroy(struct ls_seal *seal);

/* An epoch ends, and the next key begins, before a frame that would exceed either number. The
 * defaults (2^30 frames, 2^36 bytes) are well below the limits of both suites. Sender only. */
void ls_seal_set_epoch_limits(struct ls_seal *seal, uint64_t max_frames, uint64_t max_bytes);

/* As ls_frame_seal. Afterwards the payload in buf is what is sent, not what was written. */
uint64_t ls_seal_apply(struct ls_seal *seal, unsigned char *buf, struct ls_frame *frame,
                       struct ls_frame_link *link);

/* Its two halves, for several frames at once: begin writes the header and moves link and seal
 * on; finish encrypts and writes the tag, and only reads the seal, so that threads may finish
 * several frames, unless a new epoch began in between (ls_seal_is_due says that the next begin
 * will do that). */
bool ls_seal_is_due(const struct ls_seal *seal, const struct ls_frame *frame);
uint64_t ls_seal_begin(struct ls_seal *seal, unsigned char *buf, struct ls_frame *frame,
                       struct ls_frame_link *link);
void ls_seal_finish(const struct ls_seal *seal, unsigned char *buf);

/* As ls_frame_open, and decrypts in place; a wrong tag, whatever was changed, is LS_E_AUTH and
 * nothing else is looked at. A frame of an epoch that is over is AUTH too: its key is gone.
 * After a failure the payload's bytes are worthless; link, seal and
 * *frame are as before. */
ls_status ls_seal_open(struct ls_seal *seal, struct ls_frame *frame, unsigned char *bytes,
                       uint64_t n, struct ls_frame_link *link,
                       const struct ls_frame_expect *expect, struct ls_err *err);

/* Its two halves, for several frames at once: unlock says whether the tag verifies (never for
 * level plain, or a size that cannot be) and decrypts, and only reads seal and link, so that
 * threads may unlock several frames. Those that go by the same link must claim its epoch; one
 * of another epoch is unlocked and accepted alone. accept does everything else, frame by frame
 * in the order of arrival: nothing else is looked at of one that was not unlocked. */
bool ls_seal_unlock(const struct ls_seal *seal, unsigned char *bytes, uint64_t n,
                    const struct ls_frame_link *link);
ls_status ls_seal_accept(struct ls_seal *seal, struct ls_frame *frame,
                         const unsigned char *bytes, uint64_t n, bool unlocked,
                         struct ls_frame_link *link, const struct ls_frame_expect *expect,
                         struct ls_err *err);

#endif
