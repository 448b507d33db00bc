/* Options of bench alone. */
#include "app/table_parts.h"

const struct ls_option ls_table_bench[LS_N_BENCH_OPTS - LS_N_TOOL_OPTS] = {
    [LS_OPT_SECONDS - LS_N_TOOL_OPTS] = { .name = "seconds",
                                          .arg = "X",
                                          .type = LS_VALUE_REAL,
                                          .real_max = 600,
                                          .standard = "0.1",
                                          .section = MEASURING,
                                          .commands = BENCH,
                                          .help = "Time for each number that is measured in "
                                                  "this process, at least; ten repeats "
                                                  "in any case." },
    [LS_OPT_CPU_TIME - LS_N_TOOL_OPTS] = { .name = "cpu-time",
                                           .type = LS_VALUE_FLAG,
                                           .section = MEASURING,
                                           .commands = BENCH,
                                           .help =
                                               "Count the time of the processor, not of the "
                                               "clock, where one thread is "
                                               "measured: for a machine that others use too." },
    [LS_OPT_MATCH -
        LS_N_TOOL_OPTS] = { .name = "match",
                            .arg = "TEXT",
                            .type = LS_VALUE_TEXT,
                            .section = MEASURING,
                            .commands = BENCH,
                            .help = "Of kernels, model and link, only what has this in its "
                                    "name." },
    [LS_OPT_REPEATS - LS_N_TOOL_OPTS] = { .name = "repeats",
                                          .arg = "N",
                                          .type = LS_VALUE_NUMBER,
                                          .min = 1,
                                          .max = 1000,
                                          .standard = "10",
                                          .section = MEASURING,
                                          .commands = BENCH,
                                          .help = "Whole runs for each number of job and "
                                                  "pipeline, exchanges for each of link, "
                                                  "behind one to warm up." },
    [LS_OPT_RANKS -
        LS_N_TOOL_OPTS] = { .name = "ranks",
                            .arg = "N",
                            .type = LS_VALUE_NUMBER,
                            .min = 1,
                            .max = 64,
                            .standard = "2",
                            .section = MEASURING,
                            .commands = BENCH,
                            .help = "Pipelines of 1, 2, 4 up to N ranks, and links between N, "
                                    "started by mpirun here." },
    [LS_OPT_COMPARE -
        LS_N_TOOL_OPTS] = { .name = "compare",
                            .arg = "FILE",
                            .type = LS_VALUE_TEXT,
                            .section = MEASURING,
                            .commands = BENCH,
                            .help = "Set the results of a former run beside these." },
    [LS_OPT_SAVE - LS_N_TOOL_OPTS] = { .name = "save",
                                       .arg = "FILE",
                                       .type = LS_VALUE_TEXT,
                                       .section = MEASURING,
                                       .commands = BENCH,
                                       .help = "Write the results as JSON, for --compare." },
};
