/* The parts of the option table: what its files share. Layer: app. */
#ifndef LS_APP_TABLE_PARTS_H
#define LS_APP_TABLE_PARTS_H

#include "app/table.h"

#define RUN      (1u << LS_CMD_RUN)
#define SCORE    (1u << LS_CMD_SCORE)
#define RENDER   (1u << LS_CMD_RENDER)
#define RUNS     (RUN | SCORE)
#define PLAN     (1u << LS_CMD_PLAN)
#define INSPECT  (1u << LS_CMD_INSPECT)
#define COMPARE  (1u << LS_CMD_COMPARE)
#define EXPORT   (1u << LS_CMD_EXPORT)
#define PARITY   (1u << LS_CMD_PARITY)
#define REPORT   (1u << LS_CMD_REPORT)
#define SHOW     (1u << LS_CMD_SHOW)
#define STATUS   (1u << LS_CMD_STATUS)
#define KEYGEN   (1u << LS_CMD_KEYGEN)
#define BENCH    (1u << LS_CMD_BENCH)
#define VERIFY   (1u << LS_CMD_VERIFY)
#define SELFTEST (1u << LS_CMD_SELFTEST)
#define VERSION  (1u << LS_CMD_VERSION)
#define ALL                                                                                    \
    (RUNS | RENDER | PLAN | INSPECT | COMPARE | EXPORT | PARITY | REPORT | SHOW | STATUS |     \
     BENCH | KEYGEN | SELFTEST | VERIFY | VERSION)

enum { MAX_INT = 0x7fffffff };

enum section {
    MODEL,
    RESULTS,
    LAYOUT,
    LINKS,
    REQUESTS,
    SCORING,
    CERTIFICATES,
    MEASURING,
    ARMS,
    SETTINGS,
    TESTING,
    N_SECTIONS
};

enum { LS_N_MAN_SECTIONS = 4 };

/* The words of a choice stand in the order of the enum that takes its index. */
extern const struct ls_option ls_table_run[LS_N_RUN_OPTS];
extern const struct ls_option ls_table_tools[LS_N_TOOL_OPTS - LS_N_RUN_OPTS];
extern const struct ls_option ls_table_bench[LS_N_BENCH_OPTS - LS_N_TOOL_OPTS];
extern const struct ls_option ls_table_parity[LS_N_OPTS - LS_N_BENCH_OPTS];
extern const struct ls_command ls_table_commands[LS_N_CMDS];
extern const struct ls_man_section ls_table_extra[LS_N_MAN_SECTIONS];

#endif
