#include "tensor/merkle.h"

#include <sodium.h>
#include <string.h>

static void digest(unsigned char out[LS_LEAF], unsigned char kind, const void *a, size_t n_a,
                   const void *b, size_t n_b)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, LS_LEAF);
    crypto_generichash_update(&state, &kind, 1);
    crypto_generichash_update(&state, a, n_a);
    if (n_b)
        crypto_generichash_update(&state, b, n_b);
    crypto_generichash_final(&state, out, LS_LEAF);
}

void ls_leaf_of(unsigned char leaf[LS_LEAF], const void *data, size_t n)
{
    digest(leaf, 0, data, n, NULL, 0);
}

void ls_leaf_of_two(unsigned char leaf[LS_LEAF], const void *a, size_t n_a, const void *b,
                    size_t n_b)
{
    digest(leaf, 0, a, n_a, b, n_b);
}

/* `right` becomes the node of `left` and itself. */
static void join(unsigned char right[LS_LEAF], const unsigned char left[LS_LEAF])
{
    unsigned char both[2 * LS_LEAF];
    memcpy(both, left, LS_LEAF);
    memcpy(both + LS_LEAF, right, LS_LEAF);
    digest(right, 1, both, sizeof both, NULL, 0);
}

void ls_merkle_add(struct ls_merkle *tree, const unsigned char leaf[LS_LEAF])
{
    unsigned char node[LS_LEAF];
    int i = 0;
    memcpy(node, leaf, LS_LEAF);
    for (; tree->n >> i & 1; i++)
        join(node, tree->roots[i]);
    memcpy(tree->roots[i], node, LS_LEAF);
    tree->n++;
}

void ls_merkle_root(const struct ls_merkle *tree, unsigned char root[LS_LEAF])
{
    unsigned char node[LS_LEAF];
    int i = 0;
    if (!tree->n) {
        crypto_generichash(root, LS_LEAF, NULL, 0, NULL, 0);
        return;
    }
    while (!(tree->n >> i & 1))
        i++;
    memcpy(node, tree->roots[i], LS_LEAF);
    for (i++; i < 64; i++)
        if (tree->n >> i & 1)
            join(node, tree->roots[i]);
    memcpy(root, node, LS_LEAF);
}
