/* What a tokenizer is made of.
 *
 * Layer: text, private to it. All parts but the pool are immutable after ls_tokenizer_create.
 */
#ifndef LS_TEXT_PARTS_H
#define LS_TEXT_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/postprocess.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

#include <pthread.h>

/* Storage of one encode call, kept for the next. */
struct ls_scratch {
    struct ls_scratch *next; /* in the pool */
    struct ls_matcher matcher;
    struct ls_norm_work norm;
    struct ls_bytes normal;  /* the normalised text */
    struct ls_pieces raw;    /* after the first pass of added tokens */
    struct ls_pieces pieces; /* after the second */
    struct ls_pre_work pre;
    struct ls_bpe_work bpe;
    struct ls_ids ids;
    struct ls_bytes token[3]; /* one token on its way to bytes */
};

enum { LS_POOL_MOST = 64 }; /* idle scratches kept; further ones are freed */

struct ls_tokenizer {
    struct ls_normalizer normalizer;
    struct ls_pretokenizer pretokenizer;
    struct ls_bpe model;
    struct ls_added added;
    struct ls_postprocess post;
    struct ls_decoder decoder;
    int32_t bos; /* or -1 */
    int32_t eos; /* or -1 */

    pthread_mutex_t lock; /* guards pool and n_pool */
    struct ls_scratch *pool;
    int n_pool;
};

/* Takes one out of the pool or makes it; give it back with ls_scratch_give. */
ls_status ls_scratch_take(const struct ls_tokenizer *tok, struct ls_scratch **out,
                          struct ls_err *err);
void ls_scratch_give(const struct ls_tokenizer *tok, struct ls_scratch *s);
void ls_scratch_free_all(struct ls_tokenizer *tok);

/* Before the added tokens are sealed: those of tokenizer_config.json (NULL for none), with bos
 * and eos. After it: the template that add_bos_token and add_eos_token ask for, if any. */
ls_status ls_config_tokens(struct ls_tokenizer *tok, const json_t *config, struct ls_err *err);
ls_status ls_config_template(struct ls_tokenizer *tok, const json_t *config,
                             struct ls_err *err);

/* How an id is spelled for the decoder; s is NULL where it has no token. */
struct ls_view ls_token_shown(const struct ls_tokenizer *tok, int32_t id);

#endif
