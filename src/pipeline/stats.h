/* Byte form of a stage's statistics. Layer: pipeline. Bytes from a peer are untrusted. */
#ifndef LS_PIPELINE_STATS_H
#define LS_PIPELINE_STATS_H

#include "pipeline/session.h"

enum { LS_STATS_BYTES = 512 };

size_t ls_stats_encode(const struct ls_stage_stats *stats, unsigned char out[LS_STATS_BYTES]);
ls_status ls_stats_decode(struct ls_stage_stats *stats, const unsigned char *bytes, size_t n,
                          struct ls_err *err);

#endif
