/* What the tests of jobs share: a tokenizer of bytes, a small architecture, folders and files.
 *
 * The tokenizer: id b is byte b; 256 "he", 257 "ll", 258 " w"; 259 is <s>, put in front of
 * every text; 260 is </s>, and 261 <sp>, all three special. The vocabulary of the model is 264
 * (262 and 263 have no token). All functions fail the running test when they cannot do their
 * work. */
#ifndef LS_TESTS_JOB_RIG_H
#define LS_TESTS_JOB_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobs/job.h"
#include "jobs/request.h"

enum {
    RIG_VOCAB = 264,
    RIG_CONTEXT = 64,
    RIG_HE = 256,
    RIG_LL = 257,
    RIG_W = 258,
    RIG_BOS = 259,
    RIG_EOS = 260,
    RIG_SPECIAL = 261
};

struct ls_tokenizer *rig_tokenizer(void); /* the caller destroys it */
void rig_arch(struct ls_arch *arch);      /* vocab, context, eos; nothing else is set */

/* A request read from one line of text. */
struct rig_request {
    struct ls_request req;
    struct ls_request_rules rules;
    struct ls_request_defaults defaults;
    struct ls_err err;
    ls_status status;
};
void rig_read(struct rig_request *r, enum ls_input_kind kind, const char *line, size_t n,
              const struct ls_tokenizer *tokenizer);

/* A new empty folder; removed with everything in it by rig_folder_drop. */
void rig_folder_new(char path[256]);
void rig_folder_drop(const char *path);
/* folder/name, in one of a few buffers that are reused. */
const char *rig_in(const char *folder, const char *name);
void rig_write(const char *path, const void *data, size_t n);
/* Whole file, zero-terminated; free(). NULL when it does not exist. */
char *rig_slurp(const char *path, size_t *n);

#endif
