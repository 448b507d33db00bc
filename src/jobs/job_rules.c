#include "jobs/job_rules.h"

static const struct ls_kernels *any_kernels(void)
{
    const struct ls_kernels *k = ls_kernels_of(LS_CPU_AVX2);
    return k ? k : ls_kernels_of(LS_CPU_REF);
}

struct ls_request_rules ls_job_request_rules(const struct ls_job_config *config,
                                             const struct ls_arch *arch,
                                             const struct ls_tokenizer *tokenizer)
{
    return (struct ls_request_rules){ .defaults = &config->defaults,
                                      .tokenizer = tokenizer,
                                      .chat = config->chat,
                                      .vocab = arch->vocab,
                                      .context = arch->context,
                                      .prefix = ls_job_prefix(arch, tokenizer),
                                      .stride = config->score.stride,
                                      .scores = config->score.scores,
                                      .no_prefix = config->score.no_prefix,
                                      .listed = config->score.listed };
}

struct ls_choice_rules ls_job_choice_rules(const struct ls_job_config *config,
                                           const struct ls_arch *arch,
                                           const struct ls_tokenizer *tokenizer)
{
    return (struct ls_choice_rules){ .tokenizer = tokenizer,
                                     .kernels = any_kernels(),
                                     .eos = arch->eos,
                                     .n_eos = arch->n_eos,
                                     .vocab = arch->vocab,
                                     .seed = config->seed,
                                     .digest = config->digest,
                                     .logits_rows = config->logits_rows };
}

ls_status ls_job_kind(enum ls_input_kind *kind, struct ls_lines *lines,
                      const struct ls_job_config *config, struct ls_err *err)
{
    const char *data;
    size_t n;
    ls_status s = ls_lines_peek(lines, LS_KIND_BYTES, &data, &n, err);
    if (s)
        return s;
    *kind = ls_input_kind(config->input, data, n);
    if (*kind == LS_INPUT_TEXT && config->score.scores && !config->score.by_line) {
        *kind = LS_INPUT_DOCUMENT;
        lines->whole = true;
    }
    return LS_OK;
}
