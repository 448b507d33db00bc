/* The folder of a sweep: what lies where, and whose it is.
 *
 *   sweep.json          what the results depend on; another sweep's folder is refused
 *   forced.jsonl        the requests of the forced runs
 *   results/NNN-PHASE   one finished run of arm NNN: the journal of the sweep
 *   logits/             the reference's logits, and the arms' differences to them
 *   arms/NNN/PHASE/     rows.jsonl, manifest.json and log.txt of that run
 *   locate/NNN.json     where arm NNN parts from the reference
 *   attempts/           runs that are under way
 *   report.json, junit.xml, timings.json
 *
 * Layer: app. Local. A file is there as a whole or not at all. */
#ifndef LS_APP_SWEEP_FOLDER_H
#define LS_APP_SWEEP_FOLDER_H

#include "jobs/lock.h"
#include "parity/report.h"
#include "parity/sweep.h"

enum { LS_SWEEP_PATH = 4096 };

struct ls_sweep_folder {
    char path[LS_SWEEP_PATH - 512];
    struct ls_lock lock;
};

/* Makes and locks it, and compares `identity` with the one that is there: LS_E_REFUSED, naming
 * what differs, unless `fresh`, which removes what an earlier sweep left. Attempts of a sweep
 * that was killed are removed. LS_E_IO, LS_E_FULL. */
ls_status ls_sweep_folder_open(struct ls_sweep_folder *f, const char *path,
                               const json_t *identity, bool fresh, struct ls_err *err);
void ls_sweep_folder_close(struct ls_sweep_folder *f);

/* path/<format>; always fits, for names are short. Returns out. */
const char *ls_sweep_file(const struct ls_sweep_folder *f, char out[LS_SWEEP_PATH],
                          const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A new folder for an attempt. LS_E_IO, LS_E_FULL. */
ls_status ls_sweep_attempt(const struct ls_sweep_folder *f, char out[LS_SWEEP_PATH],
                           struct ls_err *err);
/* Removes a folder and what is in it, without following links. */
void ls_remove_tree(const char *path);

/* Replaces a file as a whole, and durably. LS_E_IO, LS_E_FULL. */
ls_status ls_write_whole(const char *path, const char *text, size_t n, struct ls_err *err);
ls_status ls_write_json(const char *path, const json_t *json, struct ls_err *err);

/* What the results of a sweep depend on: the arms, the prompts' bytes, and stamps (names, sizes
 * and times of files) of programs, models and dumps. program: of arms without a binary. */
ls_status ls_sweep_identity(json_t **out, const struct ls_sweep *sweep, const char *program,
                            struct ls_err *err);

#endif
