/* A certificate's bytes: what a run computed, as digests, bound together by trees and perhaps a
 * signature.
 *
 * Layer: jobs. Pure functions over bytes; a certificate is untrusted. The form, little-endian
 * (docs/formats.md says what the digests are over):
 *
 *   head, LS_CERT_HEAD bytes
 *     0   8 "LKSCERT1"            64  8 blocks                 112 32 root of the parts
 *     8   4 version 1             72  8 positions in them      144 32 root of the blocks
 *    12   4 layers                80  8 parts                  176 16 zero
 *    16   4 vocab                 88  8 bytes of the parts     192 32 leaf of [0, 192)
 *    20   4 hidden                96  8 bytes of the blocks    224 32 public key, or zero
 *    24   4 context              104  4 dtype, enum ls_fmt     256 64 signature, or zero
 *    28   4 zero                 108  4 zero
 *    32  16 profile, zero-padded
 *    48   8 lines of the input
 *    56   8 zero
 *   parts, by kind and then by name:
 *     u32 kind, u32 n, 32 bytes digest, the name's n bytes, zeros to a multiple of 8
 *   blocks, by line and then by choice; a line whose row is an error has one without positions:
 *     block head, LS_CERT_BLOCK bytes
 *       0   8 line, 1..            24  8 zero                  96 32 root of its leaves
 *       8   4 choice               32 32 digest of the line   128 32 leaf of [0, 128) and the
 *      12   4 choices of the line  64 32 digest of its row           tokens behind
 *      16   4 prompt tokens
 *      20   4 positions
 *     i32 token of each position, zeros to a multiple of 8
 *     leaves [positions][layers + 1][LS_LEAF] */
#ifndef LS_JOBS_CERTIFICATE_H
#define LS_JOBS_CERTIFICATE_H

#include "base/status.h"
#include "tensor/merkle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_CERT_HEAD = 320,
    LS_CERT_BLOCK = 160,
    LS_CERT_PART = 40,
    LS_CERT_PROFILE = 16,
    LS_CERT_KEY = 32,
    LS_CERT_SIGNATURE = 64,
};

enum ls_cert_kind { LS_CERT_TENSOR = 1, LS_CERT_FILE = 2, LS_CERT_TEMPLATE = 3 };

struct ls_cert_head {
    int32_t n_layers, vocab, hidden, context, dtype;
    char profile[LS_CERT_PROFILE + 1];
    uint64_t n_lines, n_blocks, n_positions, n_parts, parts_bytes, blocks_bytes;
    unsigned char parts_root[LS_LEAF], blocks_root[LS_LEAF];
    unsigned char digest[LS_LEAF]; /* filled by ls_cert_head_put */
    unsigned char key[LS_CERT_KEY], signature[LS_CERT_SIGNATURE];
};

struct ls_cert_part {
    enum ls_cert_kind kind;
    const char *name; /* [n_name], not zero-terminated */
    uint32_t n_name;
    unsigned char digest[LS_LEAF];
};

struct ls_cert_block {
    uint64_t line; /* 1.. */
    uint32_t choice, n_choices, n_prompt, n_positions;
    unsigned char line_digest[LS_LEAF], row_digest[LS_LEAF], leaves_root[LS_LEAF];
    unsigned char digest[LS_LEAF]; /* filled by ls_cert_block_put */
    const unsigned char *tokens;   /* [n_positions] i32, after ls_cert_next_block */
    const unsigned char *leaves;   /* [n_positions][n_layers + 1][LS_LEAF], the same */
};

/* --- writing ---------------------------------------------------------------------------------
 */

/* Bytes of a part, and of a block behind its head: tokens, leaves. */
uint64_t ls_cert_part_bytes(uint32_t n_name);
uint64_t ls_cert_token_bytes(uint32_t n_positions);
uint64_t ls_cert_leaf_bytes(uint32_t n_positions, int n_layers);

/* Writes ls_cert_part_bytes. */
void ls_cert_part_put(unsigned char *out, const struct ls_cert_part *part);
/* Fills block->digest from the rest and the padded tokens. */
void ls_cert_block_put(unsigned char out[LS_CERT_BLOCK], struct ls_cert_block *block,
                       const unsigned char *tokens);
/* Fills head->digest from the rest; `secret` (32 bytes, or NULL) signs it and fills key and
 * signature. */
void ls_cert_head_put(unsigned char out[LS_CERT_HEAD], struct ls_cert_head *head,
                      const unsigned char *secret);
/* The public key that belongs to a secret. */
void ls_cert_public_key(unsigned char key[LS_CERT_KEY], const unsigned char *secret);

/* --- reading ---------------------------------------------------------------------------------
 */

/* A block's head as it stands; false when no block of a model of so many layers begins so.
 * *bytes: of all of it. For files of blocks; tokens and leaves are not set. */
bool ls_cert_block_get(struct ls_cert_block *block, const unsigned char head[LS_CERT_BLOCK],
                       int n_layers, uint64_t *bytes);

struct ls_cert {
    struct ls_cert_head head;
    const unsigned char *parts, *blocks;
};

/* Checks the form of all n bytes: every size and count, the order of parts, lines and choices,
 * the padding. LS_E_FORMAT otherwise, naming the place. Digests are not looked at. bytes
 * outlive *cert. */
ls_status ls_cert_parse(struct ls_cert *cert, const unsigned char *bytes, uint64_t n,
                        struct ls_err *err);
/* Walks: *at is 0 in front of the first; false at the end. */
bool ls_cert_next_part(const struct ls_cert *cert, uint64_t *at, struct ls_cert_part *part);
bool ls_cert_next_block(const struct ls_cert *cert, uint64_t *at, struct ls_cert_block *block);
/* A leaf of a block; layer n_layers is the logits. */
const unsigned char *ls_cert_leaf(const struct ls_cert *cert, const struct ls_cert_block *block,
                                  uint32_t position, int layer);
int32_t ls_cert_token(const struct ls_cert_block *block, uint32_t position);

/* Whether a block's two digests fit what is in it. */
bool ls_cert_block_head_holds(const struct ls_cert_block *block);
bool ls_cert_block_leaves_hold(const struct ls_cert *cert, const struct ls_cert_block *block);

enum ls_cert_fault {
    LS_CERT_SOUND,
    LS_CERT_BAD_HEAD,      /* its digest is another */
    LS_CERT_BAD_PARTS,     /* their root is another */
    LS_CERT_BAD_BLOCKS,    /* the root of the blocks' digests is another */
    LS_CERT_BAD_SIGNATURE, /* not one of the key that the head names */
};
/* The first fault of head, roots and signature; the blocks' own digests are looked at above. */
enum ls_cert_fault ls_cert_check(const struct ls_cert *cert, bool *is_signed);

#endif
