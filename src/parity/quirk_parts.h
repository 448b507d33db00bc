/* What the files behind quirk.h share. Layer: parity, private to quirk*.c. */
#ifndef LS_PARITY_QUIRK_PARTS_H
#define LS_PARITY_QUIRK_PARTS_H

#include "base/alloc.h"
#include "parity/probe_file.h"
#include "parity/quirk.h"

/* The case with its probes open. */
struct ls_quirk_view {
    const struct ls_quirk_case *c;
    struct ls_probe_file arm[2];   /* operations of the layer */
    const struct ls_tensor *a, *b; /* of the located operation; NULL in the arm that lacks it */
};

void ls_quirk_add(struct ls_proposals *out, bool verified, const char *name, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

/* --- quirk_fields.c: settings of the architecture -------------------------------------------
 */

/* A copy of an architecture whose settings may be changed. */
struct ls_quirk_arch {
    struct ls_arena arena;
    struct ls_arch arch;
};

/* Changes *arch by variant 0, 1, .. of setting `field` and writes what it did. *more: there is
 * such a variant. False when it changes nothing, or does not concern the operation. */
bool ls_quirk_change(struct ls_arch *arch, const struct ls_quirk_case *c, int field,
                     int variant, bool *more, char *text, size_t size);
int ls_quirk_n_fields(void);
const char *ls_quirk_field_name(int field);

/* --- quirk_values.c: what the two arms' values say ------------------------------------------
 */

void ls_quirk_values(struct ls_proposals *out, const struct ls_quirk_view *v);

/* --- quirk_again.c: one operation computed again from the first arm's inputs ----------------
 */

ls_status ls_quirk_again(struct ls_proposals *out, const struct ls_quirk_view *v,
                         struct ls_err *err);

/* --- quirk_weights.c: what the two checkpoints hold -----------------------------------------
 */

/* Where the operation's own tensors differ: a text, or "" . */
void ls_quirk_weights(char *text, size_t size, const struct ls_quirk_case *c);

#endif
