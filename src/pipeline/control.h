/* The control links between rank 0 and every other rank: start-up, failures, signs of life, the
 * end.
 *
 * Layer: pipeline. Fixed-size buffers that no peer can influence. Every wait has a deadline.
 * Point-to-point; used by the rank's one communicating thread.
 *
 *   rank 0 to all: PLAN (by id, below), STOP (status and cause)
 *   all to rank 0: VOTE (by id), ERROR (status and cause), STATS (by id) */
#ifndef LS_PIPELINE_CONTROL_H
#define LS_PIPELINE_CONTROL_H

#include "pipeline/channel.h"
#include "pipeline/plan.h"

/* Frame ids on PLAN frames; a VOTE repeats the id of the PLAN that it answers. */
enum ls_plan_phase {
    LS_PHASE_WISH, /* body: wish. The vote: report */
    LS_PHASE_PLAN, /* body: plan. The vote: accepted */
    LS_PHASE_LOAD, /* load the weights. The vote: loaded */
    LS_PHASE_GO,   /* the run begins; no vote */
    LS_PHASE_BEAT, /* a sign of life of rank 0 while it runs; no vote */
};

enum { LS_RANK_NAME = LS_MAX_HOST + 32 };

/* Frame ids on STATS frames. */
enum { LS_STATS_BEAT, LS_STATS_FINAL };

struct ls_control {
    struct ls_comm *comm;
    int rank, n_ranks;
    struct ls_channel *in, *out; /* [n_ranks] by peer; rank 0 has all but its own, others only
                                    that of rank 0 */
    char (*hosts)[LS_MAX_HOST];  /* [n_ranks] once known, else "" */
    uint64_t *heard_us;          /* [n_ranks] when a frame of this peer last came */
    uint64_t next_beat_us;
    uint64_t silence_us; /* without a sign of life for so long, a peer is given up */
    struct ls_arena arena;
};

struct ls_message {
    unsigned kind; /* enum ls_kind; 0: nothing has come */
    uint64_t id;
    unsigned char *body; /* valid until ls_control_done */
    size_t n;
};

/* The keyring's own life is its own. */
ls_status ls_control_create(struct ls_control **out, struct ls_keyring *keyring,
                            struct ls_err *err);
void ls_control_destroy(struct ls_control *ctl); /* takes NULL; the links stay with the comm */

/* "rank 3 on node7", or "rank 3" while its host is unknown. Returns text. */
const char *ls_control_name(const struct ls_control *ctl, int peer, char text[LS_RANK_NAME]);

/* Sends n bytes of body, waiting at most 10 s for a free buffer. */
ls_status ls_control_send(struct ls_control *ctl, int peer, enum ls_kind kind, uint64_t id,
                          const void *body, size_t n, struct ls_err *err);
/* Rank 0: to every other rank. */
ls_status ls_control_tell_all(struct ls_control *ctl, enum ls_kind kind, uint64_t id,
                              const void *body, size_t n, struct ls_err *err);

/* The oldest message of a peer, of a kind in the mask `kinds`, or nothing. */
ls_status ls_control_poll(struct ls_control *ctl, int peer, uint32_t kinds,
                          struct ls_message *message, struct ls_err *err);
ls_status ls_control_done(struct ls_control *ctl, int peer, struct ls_err *err);
/* Waits for one; LS_E_LINK after the deadline, naming the peer and `what` was awaited. */
ls_status ls_control_wait(struct ls_control *ctl, int peer, uint32_t kinds,
                          uint64_t deadline_us, const char *what, struct ls_message *message,
                          struct ls_err *err);

/* Body of ERROR and STOP: a status and its cause. */
ls_status ls_control_send_failure(struct ls_control *ctl, int peer, enum ls_kind kind,
                                  ls_status status, const char *text, struct ls_err *err);
/* Turns such a body into *err and the peer's status; LS_OK is a possible status of STOP. */
ls_status ls_control_read_failure(const struct ls_message *message, struct ls_err *err);
/* Rank 0: STOP to every other rank, whatever fails on the way. */
void ls_control_stop_all(struct ls_control *ctl, ls_status status, const char *text);

/* While running: lets the peers know that this rank is alive, every 2 s or oftener.
 * Cheap; never waits. */
ls_status ls_control_beat(struct ls_control *ctl, uint64_t now_us, struct ls_err *err);
/* LS_E_LINK when a peer has been silent for too long. */
ls_status ls_control_check_alive(const struct ls_control *ctl, uint64_t now_us,
                                 struct ls_err *err);
/* Starts the clocks of both. */
void ls_control_start_beats(struct ls_control *ctl, uint64_t now_us);

#endif
