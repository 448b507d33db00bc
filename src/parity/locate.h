/* Where two arms part: the first differing row of logits, the layer whose hidden states differ
 * first, and in it the first operation.
 *
 * Layer: parity. Local. Three questions to each arm, each answered by a file (probe.h): all
 * rows' digests; the hidden states of the first request that differs, up to its first differing
 * row; every operation of the first layer whose output differs, up to the first position where
 * it does. Earlier layers, and earlier operations of that layer, are equal bit for bit at all
 * of these positions; so the operation named got equal inputs and gave different results. An
 * external dump answers the second question alone. */
#ifndef LS_PARITY_LOCATE_H
#define LS_PARITY_LOCATE_H

#include "base/status.h"
#include "model/tap.h"
#include "parity/gap.h"
#include "parity/probe.h"

enum { LS_LOCATE_PATH = 4096, LS_LOCATE_JUMP = 16 };

/* What an arm is asked for. */
struct ls_probe_wish {
    enum ls_probe_kind kind;
    int layer;      /* of operations */
    size_t request; /* of layers and operations */
    uint32_t n;     /* its first n positions; 0: all */
};

struct ls_locate_arm {
    /* Writes the answer to `path`. */
    ls_status (*probe)(void *arg, const struct ls_probe_wish *wish, const char *path,
                       struct ls_err *err);
    void *arg;
};

struct ls_locate_config {
    struct ls_locate_arm arms[2];
    const char *folder; /* for the files, which stay until the caller removes it */
    size_t n_requests;
    bool one_request; /* look at `request` alone */
    size_t request;
    int n_layers;         /* of the first arm */
    enum ls_fmt dtype[2]; /* activations */
};

/* Growth of the error: entry k is hidden_states.<k>, entry n_layers + 1 the final norm. */
struct ls_growth {
    bool compared; /* both sides have it */
    struct ls_gap gap;
};

enum ls_apart {
    LS_APART_NOT,    /* equal */
    LS_APART_TOKENS, /* the token ids already differ */
    LS_APART_ROWS,   /* one arm has other requests, positions or layers than the other */
    LS_APART_OP,     /* an operation */
    LS_APART_LAYER,  /* of an external dump: a layer, its operation unknown */
};

struct ls_location {
    enum ls_apart apart;
    size_t request;
    uint32_t position; /* of the first differing row of logits, or of the first other token */
    int32_t tokens[2]; /* TOKENS: the ids there, -1 behind an end */
    int layer;         /* OP, LAYER: global; n_layers: final norm and head */
    enum ls_op op;
    int only_in;       /* OP: 0, or the arm (1, 2) that alone has this operation */
    uint32_t n;        /* OP: positions that its probe holds */
    bool looks_ahead;  /* OP: an arm's bits there depend on later tokens */
    struct ls_gap gap; /* of the operation; row: absolute position */
    bool in_embedding; /* LAYER: not a layer's output but what layer 0 takes */
    int jump; /* LAYER: first k whose relative error is more than LS_LOCATE_JUMP times the one
                 before it (or the activations' unit), -1: none */
    double jump_factor;
    struct ls_growth *growth; /* [n_layers + 2]; free with ls_location_finish; NULL: none */
};

/* Writes <folder>/{rows,layers,operations}.{1,2}. */
ls_status ls_locate(struct ls_location *out, const struct ls_locate_config *config,
                    struct ls_err *err);

/* Of config->request, against hidden states in a safetensors file whose names are `pattern`
 * with {layer} replaced; the second arm is not asked. Layers that the file lacks are left out;
 * one without any, or of another width, is LS_E_FORMAT. */
ls_status ls_locate_external(struct ls_location *out, const struct ls_locate_config *config,
                             const char *file, const char *pattern, struct ls_err *err);

void ls_location_finish(struct ls_location *location);

/* <folder>/<what>.<arm>, arm 1 or 2. */
void ls_locate_path(char path[LS_LOCATE_PATH], const struct ls_locate_config *config,
                    const char *what, int arm);

#endif
