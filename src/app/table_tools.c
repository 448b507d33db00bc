/* Options of every command, and of those that compute nothing of a job. */
#include "app/table_parts.h"

const struct ls_option ls_table_tools[LS_N_TOOL_OPTS - LS_N_RUN_OPTS] = {
    [LS_OPT_CONFIG -
     LS_N_RUN_OPTS] = { .name = "config",
                        .arg = "FILE",
                        .type = LS_VALUE_TEXT,
                        .section = SETTINGS,
                        .commands = RUNS | PLAN | INSPECT | PARITY,
                        .argv_only = true,
                        .help =
                            "YAML file of 'option: value' lines; the command line wins. For "
                            "parity: the sweep." },
    [LS_OPT_PRINT_CONFIG -
        LS_N_RUN_OPTS] = { .name = "print-config",
                           .type = LS_VALUE_FLAG,
                           .section = SETTINGS,
                           .commands = RUNS | PLAN | INSPECT,
                           .argv_only = true,
                           .help = "Print the merged options with the source of each value, "
                                   "in the form that --config reads, and end." },
    [LS_OPT_DRY_RUN - LS_N_RUN_OPTS] = { .name = "dry-run",
                                         .type = LS_VALUE_FLAG,
                                         .section = SETTINGS,
                                         .commands = RUNS,
                                         .help = "Print the plan and what a run would take; "
                                                 "nothing is written." },
    [LS_OPT_JSON -
        LS_N_RUN_OPTS] = { .name = "json",
                           .type = LS_VALUE_FLAG,
                           .section = SETTINGS,
                           .commands =
                               RUNS | PLAN | INSPECT | COMPARE | PARITY | STATUS | BENCH,
                           .argv_only = true,
                           .help = "Print JSON instead of a table (run: with --dry-run)." },
    [LS_OPT_SIGN - LS_N_RUN_OPTS] = { .name = "sign",
                                      .type = LS_VALUE_FLAG,
                                      .section = CERTIFICATES,
                                      .commands = KEYGEN,
                                      .argv_only = true,
                                      .help =
                                          "Make a key that signs certificates (--sign-key), "
                                          "and FILE.pub, which verify takes." },
    [LS_OPT_KEY - LS_N_RUN_OPTS] = { .name = "key",
                                     .arg = "FILE",
                                     .type = LS_VALUE_TEXT,
                                     .section = CERTIFICATES,
                                     .commands = VERIFY,
                                     .argv_only = true,
                                     .help = "The public key (FILE.pub of keygen --sign) that "
                                             "the certificate must be signed with." },
    [LS_OPT_LEAF - LS_N_RUN_OPTS] = { .name = "leaf",
                                      .arg = "LINE,POSITION,LAYER",
                                      .type = LS_VALUE_TEXT,
                                      .section = CERTIFICATES,
                                      .commands = VERIFY,
                                      .argv_only = true,
                                      .help = "Recompute this leaf, as in 3,17,5 or "
                                              "3#1,17,logits (#1: choice 1); several with / "
                                              "between them." },
    [LS_OPT_RANDOM - LS_N_RUN_OPTS] = { .name = "random",
                                        .arg = "K",
                                        .type = LS_VALUE_NUMBER,
                                        .max = 1 << 20,
                                        .standard_note = "8, or 0 with --leaf",
                                        .section = CERTIFICATES,
                                        .commands = VERIFY,
                                        .argv_only = true,
                                        .help = "Recompute K leaves, drawn by --seed." },
    [LS_OPT_HELP - LS_N_RUN_OPTS] = { .name = "help",
                                      .type = LS_VALUE_FLAG,
                                      .section = SETTINGS,
                                      .commands = ALL,
                                      .argv_only = true,
                                      .help = "Print this list and end; also -h." },
};
