/* Configuration files: any bytes end in values of the table's types or in one message. */
#include "base/options.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODEL, THREADS, MEMORY, HEAT, DTYPE, DRY, N_OPTS };

static const char *const sections[] = { "All" };
static const struct ls_option options[N_OPTS] = {
    [MODEL] = { .name = "model",
                .arg = "DIR",
                .type = LS_VALUE_TEXT,
                .commands = 1,
                .help = "" },
    [THREADS] = { .name = "threads",
                  .arg = "T",
                  .type = LS_VALUE_NUMBER,
                  .min = 1,
                  .max = 64,
                  .commands = 1,
                  .help = "" },
    [MEMORY] = { .name = "memory",
                 .arg = "SIZE",
                 .type = LS_VALUE_SIZE,
                 .max = 1 << 30,
                 .commands = 1,
                 .help = "" },
    [HEAT] = { .name = "heat",
               .arg = "X",
               .type = LS_VALUE_REAL,
               .real_max = 2,
               .commands = 1,
               .help = "" },
    [DTYPE] = { .name = "dtype",
                .arg = "auto|f32",
                .type = LS_VALUE_CHOICE,
                .commands = 1,
                .help = "" },
    [DRY] = { .name = "dry-run", .type = LS_VALUE_FLAG, .commands = 1, .help = "" },
};
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_options o;
    struct ls_err err = { .status = LS_OK };
    ls_options_init(&o, &set, 0);
    const ls_status s = ls_options_read_yaml(&o, "f.yaml", (const char *)data, size, &err);
    const uint64_t threads = ls_options_number(&o, THREADS);
    const double heat = ls_options_real(&o, HEAT);
    if ((s && (s != err.status || !*err.text)) || threads > 64 || !(heat >= 0 && heat <= 2) ||
        ls_options_number(&o, MEMORY) > 1 << 30 || ls_options_number(&o, DTYPE) > 1)
        abort();
    ls_options_finish(&o);
    return 0;
}
