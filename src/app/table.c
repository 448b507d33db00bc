#include "app/table_parts.h"

static const char *const sections[N_SECTIONS] = {
    [MODEL] = "Model and requests",
    [RESULTS] = "Results",
    [LAYOUT] = "Layout and memory (none of these changes a bit of a result)",
    [LINKS] = "Links between ranks (none of these changes a bit of a result)",
    [REQUESTS] = "What a request gets when it does not say",
    [SCORING] = "Texts that are scored",
    [MEASURING] = "Measuring",
    [ARMS] = "Where two arms part (parity)",
    [CERTIFICATES] = "Certificates",
    [SETTINGS] = "Configuration",
    [TESTING] = "Testing",
};

static const struct ls_option_group groups[] = {
    { ls_table_run, LS_N_RUN_OPTS },
    { ls_table_tools, LS_N_TOOL_OPTS - LS_N_RUN_OPTS },
    { ls_table_bench, LS_N_BENCH_OPTS - LS_N_TOOL_OPTS },
    { ls_table_parity, LS_N_OPTS - LS_N_BENCH_OPTS },
};

const struct ls_option_set ls_table = {
    .program = "lockstep",
    .version = LS_VERSION,
    .tagline = "batch generation over an MPI pipeline, with logits whose bits do not move",
    .sections = sections,
    .n_sections = N_SECTIONS,
    .groups = groups,
    .n_options = LS_N_OPTS,
    .commands = ls_table_commands,
    .n_commands = LS_N_CMDS,
    .extra = ls_table_extra,
    .n_extra = LS_N_MAN_SECTIONS,
};
