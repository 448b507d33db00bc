/* --logits DIR: the logits of a run in files, and index.json over them.
 *
 * Layer: jobs. Local. Rows wait in a spool until their request's turn, so the bytes of the
 * files depend on the requests and results alone. safetensors: logits-00001.safetensors, ...;
 * tensors [rows][vocab] F32 named by custom_id, "#k" behind it for choice k > 0 (and for choice
 * 0 of an id that itself ends in "#<digits>" or is "__metadata__"). npy: one
 * <line>-<choice>.npy each.
 *
 * index.json: {"<custom_id>": {"file", "tensor" (null for npy), "first_position", "rows"}}; of
 * a request with several choices that is choice 0, and "choices" lists them all. Requests that
 * ended in an error row are in no file. Row r holds the logits that follow position
 * first_position + r. */
#ifndef LS_JOBS_LOGITS_FILES_H
#define LS_JOBS_LOGITS_FILES_H

#include "jobs/choice.h"
#include "jobs/lock.h"
#include "jobs/out.h"
#include "jobs/record.h"
#include "jobs/shard.h"
#include "jobs/spool.h"

struct ls_logits_files {
    const char *folder; /* the caller's; NULL: not open */
    enum ls_logits_format format;
    struct ls_lock lock;
    bool made; /* the folder did not exist before */
    size_t vocab;
    float *row;            /* [vocab]; owned */
    struct ls_spool spool; /* from ls_logits_start on */
    struct ls_shard shard;
    unsigned n_shards;
    int index_fd;        /* index.json.part; -1 before ls_logits_start */
    uint64_t index_off;  /* bytes written */
    struct ls_out index; /* not yet written */
    bool failed;         /* a write failed: index.json will not appear */
};

/* Makes the folder if need be, locks it, and refuses one that holds anything but files of an
 * earlier run. folder outlives it. LS_E_IO, LS_E_REFUSED. */
ls_status ls_logits_open(struct ls_logits_files *files, const char *folder,
                         enum ls_logits_format format, struct ls_err *err);
/* Removes an earlier run's files, or with `resume` keeps them, and opens the spool. */
ls_status ls_logits_start(struct ls_logits_files *files, size_t vocab, bool resume,
                          struct ls_err *err);

/* A request of which logits are kept. */
struct ls_dumped {
    uint64_t line;
    const char *custom_id; /* [n_custom_id] */
    size_t n_custom_id;
    const struct ls_place *places; /* [n_places], one per choice */
    uint32_t n_places;
};
/* Adds a request's rows, in input order, from the choices' spooled rows. A resumed run has
 * already added (choices NULL) those whose data an earlier run has written: nothing of these is
 * written but their entries in headers and index. */
ls_status ls_logits_add(struct ls_logits_files *files, const struct ls_dumped *req,
                        const struct ls_choice *choices, struct ls_err *err);
/* Makes what was added so far durable. */
ls_status ls_logits_sync(const struct ls_logits_files *files, struct ls_err *err);
/* Completes the last shard and index.json and makes them durable. */
ls_status ls_logits_close(struct ls_logits_files *files, struct ls_err *err);
/* Lets everything go, as it is unless it was closed; removes a folder that was made here and is
 * empty. Takes a zeroed struct, and one that was closed. */
void ls_logits_finish(struct ls_logits_files *files);

/* One .npy file: the header of an array [rows][columns] of little-endian binary32. Returns its
 * length. */
enum { LS_NPY_HEADER = 128 };
size_t ls_npy_header(char out[LS_NPY_HEADER], uint64_t rows, uint64_t columns);

#endif
