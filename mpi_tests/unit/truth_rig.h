/* Logits of a fixture against its reference: the measure that the truth tests and the page of
 * families share. Functions fail the running cmocka test by themselves. */
#ifndef LS_TESTS_TRUTH_RIG_H
#define LS_TESTS_TRUTH_RIG_H

#include "stage_rig.h"

/* Relative to the rms of the reference's logits over the prompts compared. */
struct truth_error {
    double rms, max, median_row_rms;
};

struct truth_run {
    const char *fixture; /* the reference, and the checkpoint unless folder is set */
    const char *folder;  /* another checkpoint, or NULL */
    bool f32;            /* --dtype f32 */
    int first_prompt;    /* prompts [first_prompt, RIG_PROMPTS) */
    void (*poke)(struct ls_arch *arch); /* changes the architecture first, or NULL */
};

/* Ropes that depend on a length take the prompt's own, as the reference's single pass did. */
struct truth_error truth_compare(const struct truth_run *run);

/* ERRORS.json: loaded once, freed at exit. fixtures.FIXTURE.run.key. */
double truth_number(const char *fixture, const char *run, const char *key);
bool truth_is_16_bit(const char *fixture);

/* The largest f32 difference allowed. */
double truth_bound(const char *fixture);

/* Where rounding flips a choice, a row is far off, in the reference's run as in ours: the
 * median tells. Experts, and one position of gemma4 (prompt 3, token 29): two keys of its last
 * layer tie, with an attention scale of 1. */
bool truth_flips(const char *fixture);

/* Every fixture with a reference, NULL at the end. */
extern const char *const truth_fixtures[];

#endif
