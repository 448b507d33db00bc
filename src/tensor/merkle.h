/* Digests that say where something differs: leaves, and a tree over them.
 *
 * Layer: tensor. Pure, local. A leaf is BLAKE2b-256 over the byte 0 and its data, a node over
 * the byte 1 and its two children; of n > 1 leaves the left child holds the largest power of
 * two below n. No leaves: BLAKE2b-256 of nothing. The tree takes its leaves one by one, in
 * memory that does not grow with them. */
#ifndef LS_TENSOR_MERKLE_H
#define LS_TENSOR_MERKLE_H

#include <stddef.h>
#include <stdint.h>

enum { LS_LEAF = 32 /* bytes of a leaf, a node and a root */ };

void ls_leaf_of(unsigned char leaf[LS_LEAF], const void *data, size_t n);
/* The same over two pieces. */
void ls_leaf_of_two(unsigned char leaf[LS_LEAF], const void *a, size_t n_a, const void *b,
                    size_t n_b);

/* Zeroed is empty. */
struct ls_merkle {
    uint64_t n; /* leaves so far */
    /* [i]: root of the last whole subtree of 2^i leaves, for the bits i of n */
    unsigned char roots[64][LS_LEAF];
};

void ls_merkle_add(struct ls_merkle *tree, const unsigned char leaf[LS_LEAF]);
void ls_merkle_root(const struct ls_merkle *tree, unsigned char root[LS_LEAF]);

#endif
