/* Rope frequencies: settings of a config, and the numbers that follow from them.
 *
 * Layer: model. The kinds are those of Hugging Face's configs. Frequencies are computed in
 * binary64 from IEEE operations only (kernels/math64.h) and rounded once to binary32, so hosts
 * with different libms agree. `dynamic` and `longrope` take the declared context of the run as
 * the length that they depend on. Angles, sines and cosines are the forward's. Local. */
#ifndef LS_MODEL_ROPE_H
#define LS_MODEL_ROPE_H

#include "model/arch.h"
#include "model/config.h"

enum ls_rope_kind {
    LS_ROPE_DEFAULT,
    LS_ROPE_LINEAR,
    LS_ROPE_DYNAMIC,
    LS_ROPE_LLAMA3,
    LS_ROPE_YARN,
    LS_ROPE_LONGROPE,
    LS_ROPE_PROPORTIONAL, /* the whole head paired, but only its first pairs turned */
    LS_N_ROPE_KINDS
};

struct ls_rope_settings {
    enum ls_rope_kind kind;
    double theta;            /* base, > 1 */
    double partial;          /* share of a head that is turned, (0, 1] */
    double factor;           /* > 0; 0: not given */
    int original;            /* positions of the pre-training; 0: not given */
    double attention_factor; /* 0: follows from the others */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn; the last two 0: not given */
    bool truncate;                                       /* yarn */
    double low_freq, high_freq;                          /* llama3 */
    const json_t *short_factor, *long_factor;            /* longrope; lists in the config */
};

/* What a family says about its rope. */
struct ls_rope_family {
    double theta;        /* when the config gives none */
    double partial;      /* when the config gives none; 0: the family has no such setting */
    int max_positions;   /* of the config, or the family's default */
    double proportional; /* share of a proportional rope for full attention when the config says
                            nothing of ropes, ls_rope_read_two; 0: a plain one */
    bool only_longrope; /* Phi-3: default or longrope, of which "su" and "yarn" are old names */
};

/* Reads rope_parameters (new) or rope_scaling (old) with rope_theta, partial_rotary_factor and
 * original_max_position_embeddings beside it. Both spellings at once must say the same. */
void ls_rope_read(struct ls_config *c, const struct ls_rope_family *family,
                  struct ls_rope_settings *settings);

/* Reads one rope object on its own. `theta` is its base unless it has its own. */
void ls_rope_read_object(struct ls_config *c, const json_t *object, const char *where,
                         const struct ls_rope_family *family, double theta,
                         struct ls_rope_settings *settings);

/* Reads the settings of a family with one rope for full attention (rope_theta, rope_scaling)
 * and one for windowed layers (rope_local_base_freq), or both inside rope_parameters. */
void ls_rope_read_two(struct ls_config *c, const struct ls_rope_family *family,
                      double local_theta, struct ls_rope_settings *full,
                      struct ls_rope_settings *local);

/* Rotated elements of a head; failures (odd, zero) are recorded in c. */
int ls_rope_dim(struct ls_config *c, const struct ls_rope_settings *settings, int head_dim);

/* Fills freq[dim / 2] and the factor on sine and cosine. max_positions is the config's own
 * limit, context the declared one. LS_E_FORMAT when the settings give no finite frequencies. */
ls_status ls_rope_frequencies(const struct ls_rope_settings *settings, int dim,
                              int max_positions, int context, float *freq,
                              float *attention_factor, struct ls_err *err);

const char *ls_rope_kind_name(enum ls_rope_kind kind);

#endif
