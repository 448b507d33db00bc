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

#include <signal.h>

/* Frame ids on PLAN frames; a VOTE repeats the id of the PLAN that it answers. */
enum ls_plan_phase {
    LS_PHASE_WISH, /* body: wish. The vote: report */
    LS_PHASE_PLAN, /* body: plan. The vote: accepted */
    LS_PHASE_LOAD, /* load the weights. The vote: loaded */
    LS_PHASE_GO,   /* the run begins; no vote */
    LS_PHASE_BEAT, /* a sign of life of rank 0, at any time; no vote */
};

enum { LS_RANK_NAME = LS_MAX_HOST + 32 };

/* What a rank is doing; its signs of life say it. */
enum ls_doing {
    LS_DOING_START,
    LS_DOING_VOTE,
    LS_DOING_LOAD,
    LS_DOING_WAIT, /* for a step */
    LS_DOING_PREFILL,
    LS_DOING_DECODE,
    LS_DOING_SEND, /* what a step made */
    LS_DOING_SHUTDOWN,
    LS_N_DOING
};

struct ls_activity {
    uint32_t doing; /* enum ls_doing */
    uint64_t step;
    uint32_t pid; /* 0: nothing heard yet */
};

/* Frame ids on STATS frames. */
enum { LS_STATS_BEAT, LS_STATS_TRACE, LS_STATS_FINAL };

struct ls_message {
    unsigned kind; /* enum ls_kind; 0: nothing has come */
    uint64_t id;
    unsigned char *body; /* valid until ls_control_done */
    size_t n;
};

struct ls_control {
    struct ls_comm *comm;
    int rank, n_ranks;
    struct ls_channel *in, *out; /* [n_ranks] by peer; rank 0 has all but its own, others only
                                    that of rank 0 */
    char (*hosts)[LS_MAX_HOST];  /* [n_ranks] once heard, else "" */
    uint64_t *heard_us;          /* [n_ranks] when a frame of this peer last came */
    int64_t *least_us; /* [n_ranks] this rank's clock when a sign of life of the peer came, less
                          the peer's when it was sent: the least so far; INT64_MAX: none came */
    struct ls_activity *last;   /* [n_ranks] as last heard; the own one is what beats tell */
    struct ls_message *waiting; /* [n_ranks] come while this rank only listened */
    const volatile sig_atomic_t *hurry; /* not 0: the launcher is about to kill; or NULL */
    bool heeded;                        /* *hurry has been answered by this rank's end */
    uint64_t last_check_us;             /* of this rank's own doing */
    uint64_t next_beat_us, last_beat_us;
    int lost;         /* the peer that was given up; -1: none */
    uint64_t away_us; /* when this rank came back after it had been stopped itself; 0: never */
    bool news;        /* what this rank does has changed since its last beat */
    uint64_t next_search_us;
    uint64_t silence_us; /* without a sign of life for so long, a peer is given up */
    struct ls_arena arena;
};

/* What the control links to so many peers hold. */
uint64_t ls_control_bytes(int n_peers);

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

/* The oldest message of a peer, of a kind in the mask `kinds`, or nothing. Signs of life are
 * taken in on the way. */
ls_status ls_control_poll(struct ls_control *ctl, int peer, uint32_t kinds,
                          struct ls_message *message, struct ls_err *err);
ls_status ls_control_done(struct ls_control *ctl, int peer, struct ls_err *err);
/* Waits for one; LS_E_LINK after the deadline, naming the peer and `what` was awaited, or when
 * a peer falls silent. */
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

/* --- signs of life: from creation to the end ---------------------------------------------- */

/* What this rank does from now on. */
void ls_control_set_doing(struct ls_control *ctl, enum ls_doing doing, uint64_t step);
/* A peer's clock (ls_now_us) plus the result is this rank's: as far behind as its signs of life
 * came at least, half of what they took both ways together; there_us is the peer's least_us of
 * this rank. On one host there is one clock. *error_us: at most so wrong; UINT64_MAX: unknown.
 */
int64_t ls_control_clock(const struct ls_control *ctl, int peer, int64_t there_us,
                         uint64_t *error_us);
/* Lets the peers know that this rank is alive, every 2 s, and soon after it does something
 * else. Cheap; never waits. */
ls_status ls_control_beat(struct ls_control *ctl, uint64_t now_us, struct ls_err *err);
/* LS_E_LINK when a peer has been silent for too long, or its process on this host is gone
 * (looked * for now and then, and always when *hurry): says what it and all others did last. A
 * rank that was stopped itself (job control, a suspended job) cannot judge: its clocks start
 * anew. */
ls_status ls_control_check_alive(struct ls_control *ctl, uint64_t now_us, struct ls_err *err);
/* LS_E_DRAINED when *hurry: somebody wants this process, and so the run, to stop. To be asked
 * after check_alive, since a launcher sends the signal also when a rank has died. Above rank 0
 * it is said once: what follows is the report to rank 0 and the wait for its word. */
ls_status ls_control_heed(struct ls_control *ctl, struct ls_err *err);
/* For a rank that waits for something else than a message: lets messages move, hears the peers,
 * beats, checks that they live, and heeds signals. What comes beside signs of life waits to be
 * polled, except an ERROR, which is returned. */
ls_status ls_control_tend(struct ls_control *ctl, struct ls_err *err);
/* Without a sign of life for so many seconds, a peer is given up; all clocks start anew. */
void ls_control_set_silence(struct ls_control *ctl, int seconds);
/* The first peer on this host whose process is gone, or, when *hurry, any that has been silent
 * for half of what is allowed: LS_E_LINK; else LS_OK. */
ls_status ls_control_find_gone(struct ls_control *ctl, struct ls_err *err);
/* "decode of step 17", of a peer as last heard. Returns text. */
const char *ls_control_doing(const struct ls_control *ctl, int peer, char text[LS_RANK_NAME]);

#endif
