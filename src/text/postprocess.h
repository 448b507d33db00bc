/* The post-processor of a tokenizer.json: puts special tokens around the ids of a text.
 *
 * Layer: text, private to it. Local. Immutable after loading. Knows TemplateProcessing (its
 * single form), BertProcessing, RobertaProcessing, ByteLevel (which changes no ids) and
 * Sequence; any other kind is refused by name, and so is a second template, which the
 * reference would apply to the parts of the first. */
#ifndef LS_TEXT_POSTPROCESS_H
#define LS_TEXT_POSTPROCESS_H

#include "text/buffer.h"
#include "text/fields.h"

enum { LS_POST_TEXT = -1 }; /* stands for the ids that come in */

struct ls_postprocess {
    struct ls_ids items; /* ids, and LS_POST_TEXT exactly once; empty: the text alone */
};

/* in: the "post_processor" value or NULL. *out must be zeroed; finish it also after a
 * failure. */
ls_status ls_postprocess_load(struct ls_postprocess *out, const json_t *in, struct ls_err *err);
/* Replaces everything by: bos (unless -1), the text, eos (unless -1). */
ls_status ls_postprocess_set(struct ls_postprocess *out, int32_t bos, int32_t eos,
                             struct ls_err *err);
void ls_postprocess_finish(struct ls_postprocess *p);

/* Appends the ids of a text to *out, with what belongs around them. add_special: without it
 * only the text. */
ls_status ls_postprocess_apply(const struct ls_postprocess *p, bool add_special,
                               const struct ls_ids *ids, struct ls_ids *out,
                               struct ls_err *err);

#endif
