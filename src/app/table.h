/* The program's own option table: every command and option of lockstep.
 *
 * Layer: app. The numbers of options and commands are those of the table's rows. A value that
 * is not in this table can be set nowhere else: lockstep reads no environment variable but the
 * launcher's. */
#ifndef LS_APP_TABLE_H
#define LS_APP_TABLE_H

#include "base/options.h"

enum ls_cmd {
    LS_CMD_RUN,
    LS_CMD_SCORE,
    LS_CMD_RENDER,
    LS_CMD_PLAN,
    LS_CMD_INSPECT,
    LS_CMD_COMPARE,
    LS_CMD_EXPORT,
    LS_CMD_PARITY,
    LS_CMD_REPORT,
    LS_CMD_SHOW,
    LS_CMD_STATUS,
    LS_CMD_BENCH,
    LS_CMD_KEYGEN,
    LS_CMD_VERIFY,
    LS_CMD_SELFTEST,
    LS_CMD_VERSION,
    LS_N_CMDS
};

enum ls_opt {
    LS_OPT_MODEL,
    LS_OPT_INPUT,
    LS_OPT_OUTPUT,
    LS_OPT_DIGEST,
    LS_OPT_LOGITS,
    LS_OPT_LOGITS_ROWS,
    LS_OPT_LOGITS_FORMAT,
    LS_OPT_CERTIFICATE,
    LS_OPT_SIGN_KEY,
    LS_OPT_RESUME,
    LS_OPT_FRESH,
    LS_OPT_TIME_LIMIT,
    LS_OPT_METRICS,
    LS_OPT_TRACE,
    LS_OPT_PROGRESS,
    LS_OPT_NODES,
    LS_OPT_STAGES,
    LS_OPT_REPLICAS,
    LS_OPT_SHARE_WEIGHTS,
    LS_OPT_LAYERS,
    LS_OPT_DTYPE,
    LS_OPT_CONTEXT,
    LS_OPT_THREADS,
    LS_OPT_CPU,
    LS_OPT_BUDGET,
    LS_OPT_CHUNK,
    LS_OPT_WINDOW,
    LS_OPT_MAX_SEQUENCES,
    LS_OPT_KV_MEMORY,
    LS_OPT_PREFIX_REUSE,
    LS_OPT_CHECK_BYTES,
    LS_OPT_STRICT_PLACEMENT,
    LS_OPT_SILENCE,
    LS_OPT_SEED,
    LS_OPT_MAX_TOKENS,
    LS_OPT_TEMPERATURE,
    LS_OPT_TOP_P,
    LS_OPT_TOP_K,
    LS_OPT_MIN_P,
    LS_OPT_IGNORE_EOS,
    LS_OPT_CHAT_TEMPLATE,
    LS_OPT_CHAT_TIME,
    LS_OPT_DOCUMENTS,
    LS_OPT_STRIDE,
    LS_OPT_NO_PREFIX,
    LS_OPT_TOKEN_LOGPROBS,
    LS_OPT_LINK,
    LS_OPT_SECRET_FILE,
    LS_OPT_SECRET_FD,
    LS_OPT_ALLOW_PLAIN_ACROSS_HOSTS,
    LS_OPT_PACK,
    LS_OPT_FRAME,
    LS_OPT_PLACEMENT_SEED,
    LS_OPT_REKEY_FRAMES,
    LS_N_RUN_OPTS, /* those of ls_table_run stand before */
    LS_OPT_CONFIG = LS_N_RUN_OPTS,
    LS_OPT_PRINT_CONFIG,
    LS_OPT_DRY_RUN,
    LS_OPT_JSON,
    LS_OPT_SIGN,
    LS_OPT_KEY,
    LS_OPT_LEAF,
    LS_OPT_RANDOM,
    LS_OPT_HELP,
    LS_N_TOOL_OPTS, /* those of ls_table_tools stand before */
    LS_OPT_SECONDS = LS_N_TOOL_OPTS,
    LS_OPT_CPU_TIME,
    LS_OPT_MATCH,
    LS_OPT_REPEATS,
    LS_OPT_RANKS,
    LS_OPT_COMPARE,
    LS_OPT_SAVE,
    LS_N_BENCH_OPTS, /* those of ls_table_bench stand before */
    LS_OPT_LOCATE = LS_N_BENCH_OPTS,
    LS_OPT_AGAINST_MODEL,
    LS_OPT_AGAINST_DTYPE,
    LS_OPT_AGAINST_CPU,
    LS_OPT_AGAINST_PROGRAM,
    LS_OPT_AGAINST_HIDDEN,
    LS_OPT_HIDDEN_TENSOR,
    LS_OPT_REQUEST,
    LS_OPT_TAP,
    LS_OPT_TAP_LAYER,
    LS_OPT_TAP_POSITION,
    LS_N_OPTS
};

extern const struct ls_option_set ls_table;

#endif
