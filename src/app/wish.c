#include "app/wish.h"

#include "app/model_folder.h"
#include "app/table.h"
#include "kernels/kernels.h"
#include "wire/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static ls_status choose_cpu(struct ls_run_wish *wish, const struct ls_options *o,
                            struct ls_err *err)
{
    int best = LS_N_CPU_PATHS - 1;
    while (best > LS_CPU_REF && !ls_kernels_of((enum ls_cpu_path)best))
        best--;
    wish->cpu_path = LS_N_CPU_PATHS - 1;
    if (!ls_options_is_set(o, LS_OPT_CPU))
        return LS_OK;
    wish->cpu_path = (int32_t)ls_options_number(o, LS_OPT_CPU);
    if (wish->cpu_path > best)
        return ls_fail(err, LS_E_REFUSED, "--cpu %s: this CPU lacks it; its fastest path is %s",
                       ls_options_text(o, LS_OPT_CPU),
                       ls_cpu_path_name((enum ls_cpu_path)best));
    return LS_OK;
}

/* "auto", or a decimal number. */
static ls_status read_replicas(int32_t *replicas, const struct ls_options *o,
                               struct ls_err *err)
{
    const char *const text = ls_options_text(o, LS_OPT_REPLICAS);
    char *end;
    *replicas = LS_REPLICAS_AUTO;
    if (!strcmp(text, "auto"))
        return LS_OK;
    const long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n < 1 || n > LS_MAX_STAGES)
        return ls_fail(err, LS_E_USAGE, "--replicas is '%.40s', expected 1 to %d, or auto",
                       text, LS_MAX_STAGES);
    *replicas = (int32_t)n;
    return LS_OK;
}

/* Every number was checked against its option's range, which fits int32_t. */
static int32_t int_of(const struct ls_options *o, enum ls_opt option)
{
    return (int32_t)ls_options_number(o, (int)option);
}

/* A certificate holds the logits of every position. */
static enum ls_digest digest_of(const struct ls_options *o)
{
    return ls_options_is_set(o, LS_OPT_CERTIFICATE)
               ? LS_DIGEST_ALL
               : (enum ls_digest)ls_options_number(o, LS_OPT_DIGEST);
}

/* Whether only the last position of a prompt needs logits: nothing scores or digests the
 * others.
 */
static bool has_few_logits(const struct ls_options *o)
{
    const bool all = ls_options_is_set(o, LS_OPT_LOGITS) &&
                     ls_options_number(o, LS_OPT_LOGITS_ROWS) <= LS_ROWS_PROMPT;
    return o->command != LS_CMD_SCORE && !all && digest_of(o) != LS_DIGEST_ALL;
}

ls_status ls_wish_of(struct ls_run_wish *wish, const struct ls_options *o, struct ls_err *err)
{
    const bool certified = ls_options_is_set(o, LS_OPT_CERTIFICATE);
    *wish = (struct ls_run_wish){
        .stages = int_of(o, LS_OPT_STAGES),
        .threads = int_of(o, LS_OPT_THREADS),
        .context = int_of(o, LS_OPT_CONTEXT),
        .budget = int_of(o, LS_OPT_BUDGET),
        .chunk = int_of(o, LS_OPT_CHUNK),
        .window = int_of(o, LS_OPT_WINDOW),
        .silence_s = int_of(o, LS_OPT_SILENCE),
        .max_sequences = int_of(o, LS_OPT_MAX_SEQUENCES),
        .kv_bytes = ls_options_number(o, LS_OPT_KV_MEMORY),
        .f32_activations = ls_options_number(o, LS_OPT_DTYPE) == 1,
        .check_bytes = ls_options_flag(o, LS_OPT_CHECK_BYTES) || certified,
        .own_weights = ls_options_number(o, LS_OPT_SHARE_WEIGHTS) == 1,
        .strict_placement = ls_options_flag(o, LS_OPT_STRICT_PLACEMENT),
        .few_logits = has_few_logits(o),
        .prefix_reuse = ls_options_number(o, LS_OPT_PREFIX_REUSE) == 0,
        .trace = ls_options_is_set(o, LS_OPT_TRACE),
        .digests = digest_of(o) != LS_DIGEST_NONE,
        .leaves = certified,
        .pack = int_of(o, LS_OPT_PACK),
        .frame_bytes = int_of(o, LS_OPT_FRAME),
        .placement_seed = ls_options_number(o, LS_OPT_PLACEMENT_SEED),
    };
    if (wish->pack != LS_PACK_NONE && !ls_pack_is_built())
        return ls_fail(err, LS_E_USAGE, "--pack %s: this program was built without liblz4",
                       ls_pack_name((enum ls_pack)wish->pack));
    if (wish->frame_bytes % LS_FRAME_UNIT)
        return ls_fail(err, LS_E_USAGE, "--frame %d: expected a multiple of %d",
                       wish->frame_bytes, LS_FRAME_UNIT);
    const char *const layers = ls_options_text(o, LS_OPT_LAYERS);
    if (layers && strlen(layers) >= sizeof wish->layers)
        return ls_fail(err, LS_E_USAGE, "--layers: longer than %zu bytes",
                       sizeof wish->layers - 1);
    snprintf(wish->layers, sizeof wish->layers, "%s", layers ? layers : "");
    ls_status s = read_replicas(&wish->replicas, o, err);
    if (!s)
        s = ls_model_folder(wish->model, sizeof wish->model, ls_options_text(o, LS_OPT_MODEL),
                            err);
    return s ? s : choose_cpu(wish, o, err);
}

static void fill_defaults(struct ls_request_defaults *d, const struct ls_options *o)
{
    *d = (struct ls_request_defaults){
        .has_temperature = ls_options_is_set(o, LS_OPT_TEMPERATURE),
        .has_max_tokens = ls_options_is_set(o, LS_OPT_MAX_TOKENS),
        .has_top_p = ls_options_is_set(o, LS_OPT_TOP_P),
        .has_top_k = ls_options_is_set(o, LS_OPT_TOP_K),
        .has_min_p = ls_options_is_set(o, LS_OPT_MIN_P),
        .temperature = ls_options_real(o, LS_OPT_TEMPERATURE),
        .top_p = ls_options_real(o, LS_OPT_TOP_P),
        .min_p = ls_options_real(o, LS_OPT_MIN_P),
        .max_tokens = int_of(o, LS_OPT_MAX_TOKENS),
        .top_k = int_of(o, LS_OPT_TOP_K),
        .ignore_eos = ls_options_flag(o, LS_OPT_IGNORE_EOS),
    };
}

void ls_job_config_of(struct ls_job_config *config, const struct ls_options *o,
                      const char *model_name)
{
    *config = (struct ls_job_config){
        .input = ls_options_text(o, LS_OPT_INPUT),
        .output = ls_options_text(o, LS_OPT_OUTPUT),
        .fresh = ls_options_flag(o, LS_OPT_FRESH),
        .metrics = ls_options_text(o, LS_OPT_METRICS),
        .logits_dir = ls_options_text(o, LS_OPT_LOGITS),
        .model_name = model_name,
        .logits_rows = (enum ls_logits_rows)ls_options_number(o, LS_OPT_LOGITS_ROWS),
        .logits_format = (enum ls_logits_format)ls_options_number(o, LS_OPT_LOGITS_FORMAT),
        .digest = digest_of(o),
        .progress = (enum ls_progress)ls_options_number(o, LS_OPT_PROGRESS),
        .seed = ls_options_number(o, LS_OPT_SEED),
    };
    fill_defaults(&config->defaults, o);
    config->score = (struct ls_score_settings){
        .scores = o->command == LS_CMD_SCORE,
        .by_line = ls_options_number(o, LS_OPT_DOCUMENTS) == 1,
        .stride = int_of(o, LS_OPT_STRIDE),
        .no_prefix = ls_options_flag(o, LS_OPT_NO_PREFIX),
        .listed = ls_options_flag(o, LS_OPT_TOKEN_LOGPROBS),
    };
}

/* Once for all chats of a run, so that no row depends on when it was read. */
static bool clock_time(char out[LS_CHAT_TIME])
{
    struct tm t;
    const time_t now = time(NULL);
    return localtime_r(&now, &t) && strftime(out, LS_CHAT_TIME, "%Y-%m-%dT%H:%M:%S", &t) > 0;
}

static bool is_time(const char *text)
{
    struct tm t = { 0 };
    const char *end = strptime(text, "%Y-%m-%d", &t);
    if (end && *end)
        end = strptime(end, "T%H:%M:%S", &t);
    return end && !*end && strlen(text) < LS_CHAT_TIME;
}

ls_status ls_chat_time_of(char out[LS_CHAT_TIME], const struct ls_options *o,
                          struct ls_err *err)
{
    const char *given = ls_options_text(o, LS_OPT_CHAT_TIME);
    if (!given && clock_time(out))
        return LS_OK;
    if (!given || !is_time(given))
        return ls_fail(err, LS_E_USAGE,
                       "--chat-time is '%.40s', expected a time as in 2026-01-31T12:00:00",
                       given ? given : "");
    snprintf(out, LS_CHAT_TIME, "%s", given);
    return LS_OK;
}
