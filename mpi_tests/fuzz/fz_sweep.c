/* Sweep files and mapping files: any bytes end in arms of the table's options or in one
 * message.
 */
#include "parity/external.h"
#include "parity/sweep.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const sections[] = { "All" };
static const struct ls_option options[] = {
    { .name = "model", .arg = "D", .type = LS_VALUE_TEXT, .commands = 1, .help = "" },
    { .name = "stages",
      .arg = "S",
      .type = LS_VALUE_NUMBER,
      .min = 1,
      .max = 64,
      .commands = 1,
      .help = "" },
    { .name = "layers", .arg = "L", .type = LS_VALUE_TEXT, .commands = 1, .help = "" },
    { .name = "fast", .type = LS_VALUE_FLAG, .commands = 1, .help = "" },
};
enum { N_OPTS = sizeof options / sizeof options[0] };
static const struct ls_command commands[] = { { "run", "", 0, 0, "", "" } };
static const struct ls_option_group groups[] = { { options, N_OPTS } };
static const struct ls_option_set set = { .program = "p",
                                          .version = "1",
                                          .tagline = "",
                                          .sections = sections,
                                          .n_sections = 1,
                                          .groups = groups,
                                          .n_options = N_OPTS,
                                          .commands = commands,
                                          .n_commands = 1 };

static void check(const struct ls_sweep *sweep)
{
    if (sweep->n < 2 || sweep->n > LS_SWEEP_ARMS || !sweep->prompts || !sweep->name ||
        !sweep->n_launcher)
        abort();
    for (size_t i = 0; i < sweep->n; i++) {
        const struct ls_arm *const arm = &sweep->arms[i];
        if (!arm->name || strlen(arm->name) > LS_SWEEP_NAME || !ls_arm_option(arm, "model") ||
            arm->ranks > LS_SWEEP_RANKS || (!arm->dump && arm->ranks < 1))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ls_sweep_rules rules = { .set = &set };
    struct ls_sweep sweep;
    struct ls_external external;
    struct ls_err err = { .status = LS_OK };
    ls_status s = ls_sweep_parse(&sweep, "s", (const char *)data, size, &rules, &err);
    if (!s) {
        check(&sweep);
        ls_sweep_finish(&sweep);
    } else if (s != err.status || !*err.text) {
        abort();
    }
    s = ls_external_parse(&external, "m", (const char *)data, size, &err);
    if (!s) {
        if (!external.logits.file)
            abort();
        ls_external_finish(&external);
    } else if (s != err.status || !*err.text) {
        abort();
    }
    return 0;
}
