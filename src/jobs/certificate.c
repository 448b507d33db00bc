#include "jobs/certificate.h"

#include "base/guard.h"
#include "base/le.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>

/* Places in the head and in a block's head; the figure is in certificate.h. */
enum {
    AT_VERSION = 8,
    AT_LAYERS = 12,
    AT_VOCAB = 16,
    AT_HIDDEN = 20,
    AT_CONTEXT = 24,
    AT_PROFILE = 32,
    AT_LINES = 48,
    AT_N_BLOCKS = 64,
    AT_POSITIONS = 72,
    AT_N_PARTS = 80,
    AT_PARTS_BYTES = 88,
    AT_BLOCKS_BYTES = 96,
    AT_DTYPE = 104,
    AT_PARTS_ROOT = 112,
    AT_BLOCKS_ROOT = 144,
    AT_DIGEST = 192,
    AT_KEY = 224,
    AT_SIGNATURE = 256,

    AT_LINE = 0,
    AT_CHOICE = 8,
    AT_CHOICES = 12,
    AT_PROMPT = 16,
    AT_BLOCK_POSITIONS = 20,
    AT_LINE_DIGEST = 32,
    AT_ROW_DIGEST = 64,
    AT_LEAVES_ROOT = 96,
    AT_BLOCK_DIGEST = 128,
};

enum { VERSION = 1, MAX_LAYERS = 1 << 16, MAX_POSITIONS = 1 << 30, MAX_NAME = 1 << 16 };

static const unsigned char magic[8] = "LKSCERT1";
static const char domain[] = "lockstep certificate 1";

static uint64_t whole(uint64_t n)
{
    return (n + 7) / 8 * 8;
}

uint64_t ls_cert_part_bytes(uint32_t n_name)
{
    return LS_CERT_PART + whole(n_name);
}

uint64_t ls_cert_token_bytes(uint32_t n_positions)
{
    return whole((uint64_t)n_positions * sizeof(int32_t));
}

uint64_t ls_cert_leaf_bytes(uint32_t n_positions, int n_layers)
{
    return (uint64_t)n_positions * ((uint64_t)n_layers + 1) * LS_LEAF;
}

/* --- writing ---------------------------------------------------------------------------------
 */

void ls_cert_part_put(unsigned char *out, const struct ls_cert_part *part)
{
    memset(out, 0, ls_cert_part_bytes(part->n_name));
    ls_le_put(out, part->kind, 4);
    ls_le_put(out + 4, part->n_name, 4);
    memcpy(out + 8, part->digest, LS_LEAF);
    memcpy(out + LS_CERT_PART, part->name, part->n_name);
}

void ls_cert_block_put(unsigned char out[LS_CERT_BLOCK], struct ls_cert_block *b,
                       const unsigned char *tokens)
{
    memset(out, 0, LS_CERT_BLOCK);
    ls_le_put(out + AT_LINE, b->line, 8);
    ls_le_put(out + AT_CHOICE, b->choice, 4);
    ls_le_put(out + AT_CHOICES, b->n_choices, 4);
    ls_le_put(out + AT_PROMPT, b->n_prompt, 4);
    ls_le_put(out + AT_BLOCK_POSITIONS, b->n_positions, 4);
    memcpy(out + AT_LINE_DIGEST, b->line_digest, LS_LEAF);
    memcpy(out + AT_ROW_DIGEST, b->row_digest, LS_LEAF);
    memcpy(out + AT_LEAVES_ROOT, b->leaves_root, LS_LEAF);
    ls_leaf_of_two(b->digest, out, AT_BLOCK_DIGEST, tokens,
                   ls_cert_token_bytes(b->n_positions));
    memcpy(out + AT_BLOCK_DIGEST, b->digest, LS_LEAF);
}

static void put_counts(unsigned char *out, const struct ls_cert_head *h)
{
    ls_le_put(out + AT_VERSION, VERSION, 4);
    ls_le_put(out + AT_LAYERS, (uint32_t)h->n_layers, 4);
    ls_le_put(out + AT_VOCAB, (uint32_t)h->vocab, 4);
    ls_le_put(out + AT_HIDDEN, (uint32_t)h->hidden, 4);
    ls_le_put(out + AT_CONTEXT, (uint32_t)h->context, 4);
    ls_le_put(out + AT_LINES, h->n_lines, 8);
    ls_le_put(out + AT_N_BLOCKS, h->n_blocks, 8);
    ls_le_put(out + AT_POSITIONS, h->n_positions, 8);
    ls_le_put(out + AT_N_PARTS, h->n_parts, 8);
    ls_le_put(out + AT_PARTS_BYTES, h->parts_bytes, 8);
    ls_le_put(out + AT_BLOCKS_BYTES, h->blocks_bytes, 8);
    ls_le_put(out + AT_DTYPE, (uint32_t)h->dtype, 4);
}

static void message_of(unsigned char message[sizeof domain + LS_LEAF],
                       const unsigned char digest[LS_LEAF])
{
    memcpy(message, domain, sizeof domain);
    memcpy(message + sizeof domain, digest, LS_LEAF);
}

static void sign(struct ls_cert_head *head, const unsigned char *secret)
{
    unsigned char message[sizeof domain + LS_LEAF], pair[crypto_sign_SECRETKEYBYTES];
    message_of(message, head->digest);
    crypto_sign_seed_keypair(head->key, pair, secret);
    crypto_sign_detached(head->signature, NULL, message, sizeof message, pair);
    sodium_memzero(pair, sizeof pair);
}

void ls_cert_public_key(unsigned char key[LS_CERT_KEY], const unsigned char *secret)
{
    unsigned char pair[crypto_sign_SECRETKEYBYTES];
    crypto_sign_seed_keypair(key, pair, secret);
    sodium_memzero(pair, sizeof pair);
}

void ls_cert_head_put(unsigned char out[LS_CERT_HEAD], struct ls_cert_head *h,
                      const unsigned char *secret)
{
    memset(out, 0, LS_CERT_HEAD);
    memcpy(out, magic, sizeof magic);
    put_counts(out, h);
    memcpy(out + AT_PROFILE, h->profile, strnlen(h->profile, LS_CERT_PROFILE));
    memcpy(out + AT_PARTS_ROOT, h->parts_root, LS_LEAF);
    memcpy(out + AT_BLOCKS_ROOT, h->blocks_root, LS_LEAF);
    ls_leaf_of(h->digest, out, AT_DIGEST);
    memcpy(out + AT_DIGEST, h->digest, LS_LEAF);
    if (!secret)
        return;
    sign(h, secret);
    memcpy(out + AT_KEY, h->key, LS_CERT_KEY);
    memcpy(out + AT_SIGNATURE, h->signature, LS_CERT_SIGNATURE);
}

/* --- reading: the form -----------------------------------------------------------------------
 */

static ls_status broken(uint64_t at, const char *what, struct ls_err *err)
{
    return ls_fail(err, LS_E_FORMAT, "certificate, byte %" PRIu64 ": %s", at, what);
}

static bool positive(int32_t x, int32_t max)
{
    return x >= 1 && x <= max;
}

static ls_status read_head(struct ls_cert_head *h, const unsigned char *p, uint64_t n,
                           struct ls_err *err)
{
    if (n < LS_CERT_HEAD || memcmp(p, magic, sizeof magic))
        return broken(0, "not the beginning of a certificate", err);
    if (ls_le_get32(p + AT_VERSION) != VERSION)
        return broken(AT_VERSION, "a version that this program does not know", err);
    h->n_layers = (int32_t)ls_le_get32(p + AT_LAYERS);
    h->vocab = (int32_t)ls_le_get32(p + AT_VOCAB);
    h->hidden = (int32_t)ls_le_get32(p + AT_HIDDEN);
    h->context = (int32_t)ls_le_get32(p + AT_CONTEXT);
    h->dtype = (int32_t)ls_le_get32(p + AT_DTYPE);
    memcpy(h->profile, p + AT_PROFILE, LS_CERT_PROFILE);
    h->profile[LS_CERT_PROFILE] = 0;
    h->n_lines = ls_le_get(p + AT_LINES, 8);
    h->n_blocks = ls_le_get(p + AT_N_BLOCKS, 8);
    h->n_positions = ls_le_get(p + AT_POSITIONS, 8);
    h->n_parts = ls_le_get(p + AT_N_PARTS, 8);
    h->parts_bytes = ls_le_get(p + AT_PARTS_BYTES, 8);
    h->blocks_bytes = ls_le_get(p + AT_BLOCKS_BYTES, 8);
    memcpy(h->parts_root, p + AT_PARTS_ROOT, LS_LEAF);
    memcpy(h->blocks_root, p + AT_BLOCKS_ROOT, LS_LEAF);
    memcpy(h->digest, p + AT_DIGEST, LS_LEAF);
    memcpy(h->key, p + AT_KEY, LS_CERT_KEY);
    memcpy(h->signature, p + AT_SIGNATURE, LS_CERT_SIGNATURE);
    if (!positive(h->n_layers, MAX_LAYERS) || !positive(h->vocab, INT32_MAX) ||
        !positive(h->hidden, INT32_MAX) || !positive(h->context, INT32_MAX) || h->dtype < 0)
        return broken(AT_LAYERS, "a model's size is out of range", err);
    const uint64_t left = n - LS_CERT_HEAD;
    if (LS_GUARD("certificate-size") &&
        (h->parts_bytes > left || h->blocks_bytes != left - h->parts_bytes))
        return broken(AT_PARTS_BYTES, "parts and blocks do not make up the file", err);
    return LS_OK;
}

static bool zero(const unsigned char *p, uint64_t n)
{
    unsigned char any = 0;
    for (uint64_t i = 0; i < n; i++)
        any |= p[i];
    return !any;
}

/* Bytes of the part at p, of `left`; 0: it is none. */
static uint64_t part_at(struct ls_cert_part *part, const unsigned char *p, uint64_t left)
{
    if (left < LS_CERT_PART)
        return 0;
    const uint32_t kind = ls_le_get32(p), n = ls_le_get32(p + 4);
    if (kind < LS_CERT_TENSOR || kind > LS_CERT_TEMPLATE || n > MAX_NAME)
        return 0;
    const uint64_t bytes = ls_cert_part_bytes(n);
    if (LS_GUARD("certificate-part") && bytes > left)
        return 0;
    *part = (struct ls_cert_part){ .kind = (enum ls_cert_kind)kind,
                                   .name = (const char *)p + LS_CERT_PART,
                                   .n_name = n };
    memcpy(part->digest, p + 8, LS_LEAF);
    return zero(p + LS_CERT_PART + n, bytes - LS_CERT_PART - n) ? bytes : 0;
}

static bool in_order(const struct ls_cert_part *a, const struct ls_cert_part *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    const uint32_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    return c < 0 || (c == 0 && a->n_name < b->n_name);
}

static ls_status check_parts(const struct ls_cert *cert, struct ls_err *err)
{
    uint64_t at = 0, n = 0;
    struct ls_cert_part part, before = { .n_name = 0 };
    for (; at < cert->head.parts_bytes; n++) {
        const uint64_t bytes = part_at(&part, cert->parts + at, cert->head.parts_bytes - at);
        if (!bytes || (n && !in_order(&before, &part)))
            return broken(LS_CERT_HEAD + at, "not the next part", err);
        at += bytes;
        before = part;
    }
    return n == cert->head.n_parts ? LS_OK : broken(AT_N_PARTS, "another number of parts", err);
}

bool ls_cert_block_get(struct ls_cert_block *b, const unsigned char p[LS_CERT_BLOCK],
                       int n_layers, uint64_t *bytes)
{
    *b = (struct ls_cert_block){ .line = ls_le_get(p + AT_LINE, 8),
                                 .choice = ls_le_get32(p + AT_CHOICE),
                                 .n_choices = ls_le_get32(p + AT_CHOICES),
                                 .n_prompt = ls_le_get32(p + AT_PROMPT),
                                 .n_positions = ls_le_get32(p + AT_BLOCK_POSITIONS) };
    memcpy(b->line_digest, p + AT_LINE_DIGEST, LS_LEAF);
    memcpy(b->row_digest, p + AT_ROW_DIGEST, LS_LEAF);
    memcpy(b->leaves_root, p + AT_LEAVES_ROOT, LS_LEAF);
    memcpy(b->digest, p + AT_BLOCK_DIGEST, LS_LEAF);
    *bytes = LS_CERT_BLOCK + ls_cert_token_bytes(b->n_positions) +
             ls_cert_leaf_bytes(b->n_positions, n_layers);
    const bool error = b->n_choices == 0 && b->choice == 0 && b->n_positions == 0;
    return b->line >= 1 && zero(p + AT_BLOCK_POSITIONS + 4, 8) &&
           b->n_positions <= MAX_POSITIONS && b->n_prompt <= b->n_positions &&
           (error || (b->choice < b->n_choices && b->n_prompt >= 1));
}

static uint64_t block_at(const struct ls_cert *cert, uint64_t at, struct ls_cert_block *block)
{
    const uint64_t left = cert->head.blocks_bytes - at;
    const unsigned char *const p = cert->blocks + at;
    uint64_t bytes;
    if (left < LS_CERT_BLOCK || !ls_cert_block_get(block, p, cert->head.n_layers, &bytes) ||
        (LS_GUARD("certificate-block") && bytes > left))
        return 0;
    block->tokens = p + LS_CERT_BLOCK;
    block->leaves = block->tokens + ls_cert_token_bytes(block->n_positions);
    const uint64_t used = (uint64_t)block->n_positions * sizeof(int32_t);
    return zero(block->tokens + used, ls_cert_token_bytes(block->n_positions) - used) ? bytes
                                                                                      : 0;
}

/* The choices of a line in order, all of them, then the next line. */
static bool follows(const struct ls_cert_block *a, const struct ls_cert_block *b)
{
    if (a->line && a->choice + 1 < a->n_choices)
        return b->line == a->line && b->choice == a->choice + 1 && b->n_choices == a->n_choices;
    return b->line == a->line + 1 && b->choice == 0;
}

static ls_status check_blocks(const struct ls_cert *cert, struct ls_err *err)
{
    const struct ls_cert_head *const h = &cert->head;
    struct ls_cert_block block, before = { .line = 0 };
    uint64_t at = 0, n = 0, n_positions = 0;
    for (; at < h->blocks_bytes; n++) {
        const uint64_t bytes = block_at(cert, at, &block);
        if (!bytes || !follows(&before, &block))
            return broken(LS_CERT_HEAD + h->parts_bytes + at, "not the next block", err);
        at += bytes;
        n_positions += block.n_positions;
        before = block;
    }
    if (n != h->n_blocks || n_positions != h->n_positions || before.line != h->n_lines ||
        (n && before.n_choices && before.choice + 1 != before.n_choices))
        return broken(AT_LINES, "another number of lines, blocks or positions", err);
    return LS_OK;
}

ls_status ls_cert_parse(struct ls_cert *cert, const unsigned char *bytes, uint64_t n,
                        struct ls_err *err)
{
    ls_status s = read_head(&cert->head, bytes, n, err);
    if (s)
        return s;
    cert->parts = bytes + LS_CERT_HEAD;
    cert->blocks = cert->parts + cert->head.parts_bytes;
    s = check_parts(cert, err);
    return s ? s : check_blocks(cert, err);
}

bool ls_cert_next_part(const struct ls_cert *cert, uint64_t *at, struct ls_cert_part *part)
{
    const uint64_t bytes = part_at(part, cert->parts + *at, cert->head.parts_bytes - *at);
    *at += bytes;
    return bytes > 0;
}

bool ls_cert_next_block(const struct ls_cert *cert, uint64_t *at, struct ls_cert_block *block)
{
    const uint64_t bytes = block_at(cert, *at, block);
    *at += bytes;
    return bytes > 0;
}

const unsigned char *ls_cert_leaf(const struct ls_cert *cert, const struct ls_cert_block *block,
                                  uint32_t position, int layer)
{
    const uint64_t row = (uint64_t)position * ((uint64_t)cert->head.n_layers + 1);
    return block->leaves + (row + (uint64_t)layer) * LS_LEAF;
}

int32_t ls_cert_token(const struct ls_cert_block *block, uint32_t position)
{
    return (int32_t)ls_le_get32(block->tokens + (uint64_t)position * sizeof(int32_t));
}

/* --- reading: the digests --------------------------------------------------------------------
 */

/* The head stands right in front of the tokens. */
bool ls_cert_block_head_holds(const struct ls_cert_block *block)
{
    unsigned char digest[LS_LEAF];
    ls_leaf_of_two(digest, block->tokens - LS_CERT_BLOCK, AT_BLOCK_DIGEST, block->tokens,
                   ls_cert_token_bytes(block->n_positions));
    return !memcmp(digest, block->digest, LS_LEAF);
}

bool ls_cert_block_leaves_hold(const struct ls_cert *cert, const struct ls_cert_block *block)
{
    struct ls_merkle tree = { .n = 0 };
    unsigned char root[LS_LEAF];
    const uint64_t bytes = ls_cert_leaf_bytes(block->n_positions, cert->head.n_layers);
    for (uint64_t at = 0; at < bytes; at += LS_LEAF)
        ls_merkle_add(&tree, block->leaves + at);
    ls_merkle_root(&tree, root);
    return !memcmp(root, block->leaves_root, LS_LEAF);
}

static bool parts_hold(const struct ls_cert *cert)
{
    struct ls_merkle tree = { .n = 0 };
    struct ls_cert_part part;
    unsigned char root[LS_LEAF];
    for (uint64_t at = 0, from = 0; ls_cert_next_part(cert, &at, &part); from = at) {
        ls_leaf_of(root, cert->parts + from, at - from);
        ls_merkle_add(&tree, root);
    }
    ls_merkle_root(&tree, root);
    return !memcmp(root, cert->head.parts_root, LS_LEAF);
}

static bool blocks_hold(const struct ls_cert *cert)
{
    struct ls_merkle tree = { .n = 0 };
    struct ls_cert_block block;
    unsigned char root[LS_LEAF];
    for (uint64_t at = 0; ls_cert_next_block(cert, &at, &block);)
        ls_merkle_add(&tree, block.digest);
    ls_merkle_root(&tree, root);
    return !memcmp(root, cert->head.blocks_root, LS_LEAF);
}

static bool signature_holds(const struct ls_cert_head *h)
{
    unsigned char message[sizeof domain + LS_LEAF];
    message_of(message, h->digest);
    return !crypto_sign_verify_detached(h->signature, message, sizeof message, h->key);
}

enum ls_cert_fault ls_cert_check(const struct ls_cert *cert, bool *is_signed)
{
    const struct ls_cert_head *const h = &cert->head;
    unsigned char digest[LS_LEAF];
    *is_signed = !zero(h->key, LS_CERT_KEY) || !zero(h->signature, LS_CERT_SIGNATURE);
    ls_leaf_of(digest, cert->parts - LS_CERT_HEAD, AT_DIGEST);
    if (memcmp(digest, h->digest, LS_LEAF))
        return LS_CERT_BAD_HEAD;
    if (!parts_hold(cert))
        return LS_CERT_BAD_PARTS;
    if (!blocks_hold(cert))
        return LS_CERT_BAD_BLOCKS;
    return *is_signed && !signature_holds(h) ? LS_CERT_BAD_SIGNATURE : LS_CERT_SOUND;
}
