#include "app/table.h"

#include "model/arch.h"
#include "pipeline/plan.h"

#define RUN      (1u << LS_CMD_RUN)
#define SCORE    (1u << LS_CMD_SCORE)
#define RENDER   (1u << LS_CMD_RENDER)
#define RUNS     (RUN | SCORE)
#define PLAN     (1u << LS_CMD_PLAN)
#define INSPECT  (1u << LS_CMD_INSPECT)
#define COMPARE  (1u << LS_CMD_COMPARE)
#define SHOW     (1u << LS_CMD_SHOW)
#define STATUS   (1u << LS_CMD_STATUS)
#define KEYGEN   (1u << LS_CMD_KEYGEN)
#define SELFTEST (1u << LS_CMD_SELFTEST)
#define VERSION  (1u << LS_CMD_VERSION)
#define ALL                                                                                    \
    (RUNS | RENDER | PLAN | INSPECT | COMPARE | SHOW | STATUS | KEYGEN | SELFTEST | VERSION)

enum { MAX_INT = 0x7fffffff };

enum section {
    MODEL,
    RESULTS,
    LAYOUT,
    LINKS,
    REQUESTS,
    SCORING,
    SETTINGS,
    TESTING,
    N_SECTIONS
};

static const char *const sections[N_SECTIONS] = {
    [MODEL] = "Model and requests",
    [RESULTS] = "Results",
    [LAYOUT] = "Layout and memory (none of these changes a bit of a result)",
    [LINKS] = "Links between ranks (none of these changes a bit of a result)",
    [REQUESTS] = "What a request gets when it does not say",
    [SCORING] = "Texts that are scored",
    [SETTINGS] = "Configuration",
    [TESTING] = "Testing",
};

/* The words of a choice stand in the order of the enum that takes its index. */
static const struct ls_option options[LS_N_OPTS] = {
    [LS_OPT_MODEL] = { .name = "model",
                       .arg = "DIR",
                       .type = LS_VALUE_TEXT,
                       .section = MODEL,
                       .commands = RUNS | RENDER | PLAN | INSPECT,
                       .required_by = RUNS | RENDER | PLAN,
                       .help = "Hugging Face checkpoint folder, or the word demo for the model "
                               "that lockstep carries." },
    [LS_OPT_INPUT] = { .name = "input",
                       .arg = "FILE",
                       .type = LS_VALUE_TEXT,
                       .section = MODEL,
                       .commands = RUNS | RENDER | SHOW,
                       .required_by = RUNS | RENDER,
                       .help = "Requests, one a line: OpenAI batch lines, {\"prompt\": ...}, "
                               "{\"tokens\": [...]}, {\"messages\": [...]}, lines of "
                               "lm-evaluation-harness, or plain text. - is standard input." },
    [LS_OPT_OUTPUT] = { .name = "output",
                        .arg = "FILE",
                        .type = LS_VALUE_TEXT,
                        .section = RESULTS,
                        .commands = RUNS | RENDER,
                        .required_by = RUNS | RENDER,
                        .help = "Result rows, one for each request line, in input order. The "
                                "folder FILE.lockstep beside it holds manifest.json." },
    [LS_OPT_DIGEST] = { .name = "digest",
                        .arg = "generated|all|none",
                        .type = LS_VALUE_CHOICE,
                        .standard = "generated",
                        .section = RESULTS,
                        .commands = RUNS | PLAN,
                        .help = "Which logits rows enter a row's digest: those of generated "
                                "tokens, those of every position, or none." },
    [LS_OPT_LOGITS] = { .name = "logits",
                        .arg = "DIR",
                        .type = LS_VALUE_TEXT,
                        .section = RESULTS,
                        .commands = RUNS,
                        .help = "Write full float32 logits to this folder, with index.json." },
    [LS_OPT_LOGITS_ROWS] = { .name = "logits-rows",
                             .arg = "all|prompt|generated|last",
                             .type = LS_VALUE_CHOICE,
                             .standard = "all",
                             .section = RESULTS,
                             .commands = RUNS,
                             .help =
                                 "Which positions --logits writes: all, those of the prompt, "
                                 "those that generate a token, or the last one." },
    [LS_OPT_LOGITS_FORMAT] = { .name = "logits-format",
                               .arg = "safetensors|npy",
                               .type = LS_VALUE_CHOICE,
                               .standard = "safetensors",
                               .section = RESULTS,
                               .commands = RUNS,
                               .help = "File format of --logits." },
    [LS_OPT_RESUME] = { .name = "resume",
                        .type = LS_VALUE_FLAG,
                        .section = RESULTS,
                        .commands = RUNS,
                        .help =
                            "Go on where an earlier run of the same job ended, whatever its "
                            "layout. This is what happens anyway." },
    [LS_OPT_FRESH] = { .name = "fresh",
                       .type = LS_VALUE_FLAG,
                       .section = RESULTS,
                       .commands = RUNS,
                       .help = "Start over: replace output and journal of an earlier run." },
    [LS_OPT_TIME_LIMIT] = { .name = "time-limit",
                            .arg = "T",
                            .type = LS_VALUE_TEXT,
                            .standard_note = "the end of the Slurm job, if there is one",
                            .section = RESULTS,
                            .commands = RUNS,
                            .help = "Stop in time to be done after T, as in 90, 15m, 6h or "
                                    "1:30:00, with exit code 75; the same command goes on." },
    [LS_OPT_METRICS] = { .name = "metrics",
                         .arg = "FILE",
                         .type = LS_VALUE_TEXT,
                         .section = RESULTS,
                         .commands = RUNS,
                         .help = "Keep the job's numbers in this file, as a Prometheus "
                                 "textfile that is replaced every two seconds." },
    [LS_OPT_TRACE] = { .name = "trace",
                       .arg = "FILE",
                       .type = LS_VALUE_TEXT,
                       .section = RESULTS,
                       .commands = RUNS,
                       .help = "Write a timeline of all stages for Perfetto or Chrome: "
                               "compute, send, wait, idle." },
    [LS_OPT_PROGRESS] = { .name = "progress",
                          .arg = "auto|bar|plain|none",
                          .type = LS_VALUE_CHOICE,
                          .standard = "auto",
                          .section = RESULTS,
                          .commands = RUNS,
                          .help = "How progress is shown on standard error; auto is a bar on a "
                                  "terminal and plain lines elsewhere." },
    [LS_OPT_NODES] = { .name = "nodes",
                       .arg = "FILE",
                       .type = LS_VALUE_TEXT,
                       .section = LAYOUT,
                       .commands = PLAN,
                       .help = "Plan for machines that are not here: lines of name, memory, "
                               "cores and, when there are several, ranks, as in: node1 64G 32 "
                               "2." },
    [LS_OPT_STAGES] = { .name = "stages",
                        .arg = "S",
                        .type = LS_VALUE_NUMBER,
                        .min = 1,
                        .max = 1024,
                        .standard_note = "the number of ranks",
                        .section = LAYOUT,
                        .commands = RUNS | PLAN,
                        .help =
                            "Pipeline stages. For run this must be the number of ranks; plan "
                            "answers for any number." },
    [LS_OPT_LAYERS] = { .name = "layers",
                        .arg = "RANGES",
                        .type = LS_VALUE_TEXT,
                        .standard_note = "an even load",
                        .section = LAYOUT,
                        .commands = RUNS | PLAN,
                        .help = "Layers of each stage by hand, as in 0-3,4-7." },
    [LS_OPT_DTYPE] = { .name = "dtype",
                       .arg = "auto|f32",
                       .type = LS_VALUE_CHOICE,
                       .standard = "auto",
                       .section = MODEL,
                       .commands = RUNS | PLAN | INSPECT,
                       .help =
                           "Format of activations and KV cache: the checkpoint's own, or "
                           "float32 over the same weights. Part of the result's identity." },
    [LS_OPT_CONTEXT] = { .name = "context",
                         .arg = "TOKENS",
                         .type = LS_VALUE_NUMBER,
                         .min = 1,
                         .max = LS_MAX_CONTEXT,
                         .standard_note = "the model's own",
                         .section = MODEL,
                         .commands = RUNS | PLAN | INSPECT,
                         .help =
                             "Declared context: prompt and continuation together may be "
                             "this long. Rope kinds that depend on a length take this one." },
    [LS_OPT_THREADS] = { .name = "threads",
                         .arg = "T",
                         .type = LS_VALUE_NUMBER,
                         .min = 1,
                         .max = 1024,
                         .standard_note = "this rank's share of the cores",
                         .section = LAYOUT,
                         .commands = RUNS | PLAN,
                         .help = "Computing threads of each rank." },
    [LS_OPT_CPU] = { .name = "cpu",
                     .arg = "ref|avx2|avx512",
                     .type = LS_VALUE_CHOICE,
                     .standard_note = "the fastest whose self-test passes",
                     .section = LAYOUT,
                     .commands = RUNS | PLAN | SELFTEST,
                     .help = "Fastest kernel path to use; refused where the CPU lacks it." },
    [LS_OPT_BUDGET] = { .name = "budget",
                        .arg = "TOKENS",
                        .type = LS_VALUE_NUMBER,
                        .min = 1,
                        .max = 1 << 20,
                        .standard_note = "512",
                        .section = LAYOUT,
                        .commands = RUNS | PLAN,
                        .help = "Tokens of one step, at most." },
    [LS_OPT_CHUNK] = { .name = "chunk",
                       .arg = "TOKENS",
                       .type = LS_VALUE_NUMBER,
                       .min = 1,
                       .max = 1 << 20,
                       .standard_note = "half the budget",
                       .section = LAYOUT,
                       .commands = RUNS | PLAN,
                       .help = "Tokens of one prompt in one step, at most." },
    [LS_OPT_WINDOW] = { .name = "window",
                        .arg = "STEPS",
                        .type = LS_VALUE_NUMBER,
                        .min = 1,
                        .max = 64,
                        .standard_note = "twice the stages",
                        .section = LAYOUT,
                        .commands = RUNS | PLAN,
                        .help = "Steps in flight, at most." },
    [LS_OPT_MAX_SEQUENCES] = { .name = "max-sequences",
                               .arg = "N",
                               .type = LS_VALUE_NUMBER,
                               .min = 1,
                               .max = 1 << 16,
                               .standard_note = "64",
                               .section = LAYOUT,
                               .commands = RUNS | PLAN,
                               .help = "Sequences that run at the same time, at most." },
    [LS_OPT_KV_MEMORY] = { .name = "kv-memory",
                           .arg = "SIZE",
                           .type = LS_VALUE_SIZE,
                           .min = 1,
                           .max = (uint64_t)1 << 50,
                           .standard_note =
                               "what the sequences need, within 80 % of free memory",
                           .section = LAYOUT,
                           .commands = RUNS | PLAN,
                           .help = "KV cache of each rank, as in 512M or 2G." },
    [LS_OPT_PREFIX_REUSE] = { .name = "prefix-reuse",
                              .arg = "on|off",
                              .type = LS_VALUE_CHOICE,
                              .standard = "on",
                              .section = LAYOUT,
                              .commands = RUNS,
                              .help = "Compute equal beginnings of prompts once. A position "
                                      "whose logits are wanted is always computed." },
    [LS_OPT_CHECK_BYTES] = { .name = "check-bytes",
                             .type = LS_VALUE_FLAG,
                             .section = MODEL,
                             .commands = RUNS,
                             .help = "Digest every weight at start, so that ranks whose "
                                     "checkpoints differ in any byte are found." },
    [LS_OPT_STRICT_PLACEMENT] = { .name = "strict-placement",
                                  .type = LS_VALUE_FLAG,
                                  .section = LAYOUT,
                                  .commands = RUNS,
                                  .help = "Refuse what else is a warning: ranks that share "
                                          "cores or are bound to one, more threads than "
                                          "cores." },
    [LS_OPT_SILENCE] = { .name = "silence",
                         .arg = "SECONDS",
                         .type = LS_VALUE_NUMBER,
                         .min = 1,
                         .max = LS_MAX_SILENCE_S,
                         .standard_note = "8, or more where one layer of a full step may take "
                                          "longer; 120 for the start of MPI",
                         .section = LAYOUT,
                         .commands = RUN | PLAN,
                         .help = "Give up a rank, and with it the run, that has shown no sign "
                                 "of life for so long. Ranks show one every 2 seconds and "
                                 "between layers." },
    [LS_OPT_SEED] = { .name = "seed",
                      .arg = "N",
                      .type = LS_VALUE_NUMBER,
                      .max = UINT64_MAX,
                      .standard = "0",
                      .section = REQUESTS,
                      .commands = RUNS,
                      .help = "Seed of the run; a request's samples depend on it, on the "
                              "request's own seed and id, and on nothing else." },
    [LS_OPT_MAX_TOKENS] = { .name = "max-tokens",
                            .arg = "N",
                            .type = LS_VALUE_NUMBER,
                            .max = INT32_MAX,
                            .standard_note = "16",
                            .section = REQUESTS,
                            .commands = RUNS,
                            .help = "Tokens to generate, at most; 0 computes the prompt "
                                    "only." },
    [LS_OPT_TEMPERATURE] = { .name = "temperature",
                             .arg = "X",
                             .type = LS_VALUE_REAL,
                             .real_max = 2,
                             .standard_note = "1 for OpenAI lines, 0 for the other kinds",
                             .section = REQUESTS,
                             .commands = RUNS,
                             .help = "Sampling temperature; 0 is greedy." },
    [LS_OPT_TOP_P] = { .name = "top-p",
                       .arg = "X",
                       .type = LS_VALUE_REAL,
                       .real_max = 1,
                       .standard_note = "1",
                       .section = REQUESTS,
                       .commands = RUNS,
                       .help = "Sample from the likeliest tokens that hold this share." },
    [LS_OPT_TOP_K] = { .name = "top-k",
                       .arg = "N",
                       .type = LS_VALUE_NUMBER,
                       .max = LS_MAX_VOCAB,
                       .standard_note = "0, which means all",
                       .section = REQUESTS,
                       .commands = RUNS,
                       .help = "Sample from the N likeliest tokens." },
    [LS_OPT_MIN_P] = { .name = "min-p",
                       .arg = "X",
                       .type = LS_VALUE_REAL,
                       .real_max = 1,
                       .standard_note = "0",
                       .section = REQUESTS,
                       .commands = RUNS,
                       .help = "Leave out tokens less likely than this share of the best." },
    [LS_OPT_IGNORE_EOS] = { .name = "ignore-eos",
                            .type = LS_VALUE_FLAG,
                            .section = REQUESTS,
                            .commands = RUNS,
                            .help = "Go on after an end-of-text token." },
    [LS_OPT_CHAT_TEMPLATE] = { .name = "chat-template",
                               .arg = "FILE",
                               .type = LS_VALUE_TEXT,
                               .standard_note = "the checkpoint's own",
                               .section = REQUESTS,
                               .commands = RUNS | RENDER,
                               .help = "Jinja template that turns a chat into a prompt." },
    [LS_OPT_CHAT_TIME] = { .name = "chat-time",
                           .arg = "TIME",
                           .type = LS_VALUE_TEXT,
                           .standard_note = "the clock when the run starts",
                           .section = REQUESTS,
                           .commands = RUNS | RENDER,
                           .help = "The time that chat templates see, as in "
                                   "2026-01-31T12:00:00. Part of the result's identity when a "
                                   "template asks for it." },
    [LS_OPT_DOCUMENTS] = { .name = "documents",
                           .arg = "file|lines",
                           .type = LS_VALUE_CHOICE,
                           .standard = "file",
                           .section = SCORING,
                           .commands = SCORE,
                           .help = "What one text is when the input is not JSON: the whole "
                                   "input, or each line." },
    [LS_OPT_STRIDE] = { .name = "stride",
                        .arg = "TOKENS",
                        .type = LS_VALUE_NUMBER,
                        .min = 1,
                        .max = LS_MAX_CONTEXT,
                        .standard_note = "the context, so that windows do not overlap",
                        .section = SCORING,
                        .commands = SCORE,
                        .help = "Tokens that each window behind the first scores; the rest of "
                                "the context is what they are seen in." },
    [LS_OPT_NO_PREFIX] = { .name = "no-prefix",
                           .type = LS_VALUE_FLAG,
                           .section = SCORING,
                           .commands = SCORE,
                           .help = "Put no BOS in front of a text; its first token is then not "
                                   "scored." },
    [LS_OPT_TOKEN_LOGPROBS] = { .name = "token-logprobs",
                                .type = LS_VALUE_FLAG,
                                .section = SCORING,
                                .commands = SCORE,
                                .help = "Write the log-probability of every token of a text." },
    [LS_OPT_LINK] = { .name = "link",
                      .arg = "sealed|signed|plain",
                      .type = LS_VALUE_CHOICE,
                      .standard = "sealed",
                      .section = LINKS,
                      .commands = RUNS,
                      .help =
                          "What is done to everything that goes from rank to rank: encrypted "
                          "and authenticated, only authenticated, or neither." },
    [LS_OPT_SECRET_FILE] = { .name = "secret-file",
                             .arg = "FILE",
                             .type = LS_VALUE_TEXT,
                             .standard_note = "on one host, a secret made for this run",
                             .section = LINKS,
                             .commands = RUNS,
                             .help = "Key file of the job, the same on every rank: made by "
                                     "keygen, mode 0600, owned by the user." },
    [LS_OPT_SECRET_FD] = { .name = "secret-fd",
                           .arg = "N",
                           .type = LS_VALUE_NUMBER,
                           .min = 3,
                           .max = 1 << 20,
                           .section = LINKS,
                           .commands = RUNS,
                           .argv_only = true,
                           .help = "Read the key file from this open descriptor instead." },
    [LS_OPT_ALLOW_PLAIN_ACROSS_HOSTS] = { .name = "allow-plain-across-hosts",
                                          .type = LS_VALUE_FLAG,
                                          .section = LINKS,
                                          .commands = RUNS,
                                          .help = "Let --link plain run between hosts, where "
                                                  "others may read and change what is sent." },
    [LS_OPT_PACK] = { .name = "pack",
                      .arg = "none|lz4|auto",
                      .type = LS_VALUE_CHOICE,
                      .standard = "none",
                      .section = LINKS,
                      .commands = RUNS | PLAN,
                      .help =
                          "Make hidden states and logits smaller on the way, without losing "
                          "a bit: never, always, or between hosts where the first ones "
                          "show that it pays." },
    [LS_OPT_CONFIG] = { .name = "config",
                        .arg = "FILE",
                        .type = LS_VALUE_TEXT,
                        .section = SETTINGS,
                        .commands = RUNS | PLAN | INSPECT,
                        .argv_only = true,
                        .help = "YAML file of 'option: value' lines; the command line wins." },
    [LS_OPT_PRINT_CONFIG] = { .name = "print-config",
                              .type = LS_VALUE_FLAG,
                              .section = SETTINGS,
                              .commands = RUNS | PLAN | INSPECT,
                              .argv_only = true,
                              .help = "Print the merged options with the source of each value, "
                                      "in the form that --config reads, and end." },
    [LS_OPT_DRY_RUN] = { .name = "dry-run",
                         .type = LS_VALUE_FLAG,
                         .section = SETTINGS,
                         .commands = RUNS,
                         .help =
                             "Print the plan and end; no weight is read, nothing written." },
    [LS_OPT_JSON] = { .name = "json",
                      .type = LS_VALUE_FLAG,
                      .section = SETTINGS,
                      .commands = RUNS | PLAN | INSPECT | COMPARE | STATUS,
                      .argv_only = true,
                      .help = "Print JSON instead of a table (run: with --dry-run)." },
    [LS_OPT_HELP] = { .name = "help",
                      .type = LS_VALUE_FLAG,
                      .section = SETTINGS,
                      .commands = ALL,
                      .argv_only = true,
                      .help = "Print this list and end; also -h." },
    [LS_OPT_PLACEMENT_SEED] = { .name = "placement-seed",
                                .arg = "N",
                                .type = LS_VALUE_NUMBER,
                                .max = UINT64_MAX,
                                .standard = "0",
                                .section = TESTING,
                                .commands = RUNS,
                                .help = "Not 0: shuffle which KV blocks and slots sequences "
                                        "get. Results must not change." },
    [LS_OPT_REKEY_FRAMES] = { .name = "rekey-frames",
                              .arg = "N",
                              .type = LS_VALUE_NUMBER,
                              .min = 1,
                              .max = 1 << 30,
                              .standard_note = "far below what the cipher allows",
                              .section = TESTING,
                              .commands = RUNS,
                              .help = "Frames that a link sends under one key." },
};

static const struct ls_command commands[LS_N_CMDS] = {
    [LS_CMD_RUN] = { "run", "", 0, 0, "generate completions for a file of requests",
                     "Reads request lines, generates, and writes one result row for each line. "
                     "Started by mpirun or srun, every rank owns one stage of the pipeline; "
                     "alone, one process is the whole pipeline. The results have the same bits "
                     "either way." },
    [LS_CMD_SCORE] = { "score", "", 0, 0, "perplexity and log-likelihoods of texts",
                       "As run, for scoring: an input that is not JSON is a text (or one on "
                       "each "
                       "line), cut into windows, and its row says log-likelihood, perplexity "
                       "and "
                       "bits per byte. JSON lines may be {\"text\": ...}, {\"context\": ..., "
                       "\"continuation\": ...}, or anything that run takes." },
    [LS_CMD_RENDER] = { "render", "", 0, 0, "turn chats into completions, ahead of a run",
                        "Writes the request file again with each chat as a completion whose "
                        "prompt is the rendered text, for compute nodes without Python. Other "
                        "lines stay as they are. Ends with 10 when a chat cannot be rendered; "
                        "its "
                        "line stays, too." },
    [LS_CMD_PLAN] = { "plan", "", 0, 0, "show which layers and how many bytes each rank gets",
                      "Forms the plan that run would use, from headers alone, and prints it: "
                      "layers, threads and predicted bytes of weights, KV cache and scratch "
                      "for "
                      "each stage. Ranks are taken to share this machine, or to be on those of "
                      "--nodes." },
    [LS_CMD_INSPECT] = { "inspect", "[DIR]", 0, 1, "describe a checkpoint folder",
                         "Prints what lockstep understands of a checkpoint: architecture layer "
                         "by layer, tensors, bytes, tokenizer. Of one that it cannot run it "
                         "says "
                         "why, and ends with 3." },
    [LS_CMD_COMPARE] = { "compare", "A B", 2, 2, "compare two sets of tensors bit for bit",
                         "A and B are folders written by --logits, safetensors files, or npy "
                         "files. Says whether all bits are equal; if not, where the first "
                         "difference lies and how large differences are. Ends with 0 when "
                         "equal "
                         "and with 10 when not." },
    [LS_CMD_SHOW] = { "show", "OUT", 1, 1, "print a result file for reading",
                      "Prints prompt and completion of each row of a result file. The prompts "
                      "come from the request file when --input names it." },
    [LS_CMD_STATUS] = { "status", "OUT", 1, 1, "say how far a running or stopped job is",
                        "OUT is the output of a job. Reads its journal, lock and manifest, and "
                        "disturbs nothing: whether it runs and where, how many rows are "
                        "finished, how an earlier run ended." },
    [LS_CMD_KEYGEN] = { "keygen", "[FILE]", 0, 1, "make a job secret for links between hosts",
                        "Writes a new random key file with mode 0600; a file that is there is "
                        "never overwritten. Without FILE the key goes to standard output. Give "
                        "it to every rank of a run with --secret-file." },
    [LS_CMD_SELFTEST] = { "selftest", "", 0, 0, "check this CPU's kernel paths",
                          "Runs the start-up vectors on every kernel path that this CPU has, "
                          "and ends with 4 when one gives other bits than it must." },
    [LS_CMD_VERSION] = { "version", "", 0, 0, "print the version",
                         "Prints the version, compiler and libraries of this program." },
};

static const char *const man_config[] = {
    "",
    "A configuration file is a YAML mapping from option names without dashes to single "
    "values; a flag is true or false. Later sources win: default, file, command line. "
    "Options of other commands are checked and left out, so one file can serve run, plan "
    "and inspect. An unknown or repeated key is an error.",
    NULL
};
static const char *const man_exit[] = {
    "0",
    "All rows are good; for compare: all bits are equal.",
    "10",
    "Finished, with error rows; for compare: there are differences.",
    "2",
    "Wrong usage or configuration: unknown option, missing input, output not writable.",
    "3",
    "Refused before start: unsupported or broken checkpoint, a plan that does not fit, "
    "more ranks than layers, a CPU path that is not there, a key file that others may read, "
    "several hosts without a secret.",
    "4",
    "Failed while running. The same command goes on with the rows that are not finished.",
    "75",
    "Stopped on request (SIGUSR1, SIGINT, SIGTERM, a time limit). The same command goes on.",
    "",
    "These are the codes of rank 0; other ranks end with 0. 1, 137 and 143 are the "
    "launcher's own: scripts trust \"complete\": true in the manifest.",
    NULL
};
static const char *const man_files[] = {
    "OUT",
    "One JSON row for each request line, in input order, the same bytes for any layout.",
    "OUT.lockstep/journal",
    "Finished rows as they came, from which a stopped job goes on.",
    "OUT.lockstep/manifest.json",
    "What varies: plan, counters, times, digests, exit code.",
    NULL
};
static const char *const man_examples[] = {
    "mpirun -n 2 lockstep run --model demo --input prompts.jsonl --output out.jsonl",
    "Two ranks, half the layers each.",
    "lockstep keygen job.key; mpirun -n 4 --hostfile hosts lockstep run --secret-file job.key "
    "...",
    "Several hosts: links are sealed under a secret that every rank reads.",
    "lockstep show --input prompts.jsonl out.jsonl",
    "Read what came out.",
    "lockstep plan --model DIR --stages 4",
    "See what four ranks would get.",
    NULL
};

static const struct ls_man_section extra[] = {
    { "Configuration file", man_config },
    { "Exit status", man_exit },
    { "Files", man_files },
    { "Examples", man_examples },
};

const struct ls_option_set ls_table = {
    .program = "lockstep",
    .version = LS_VERSION,
    .tagline = "batch generation over an MPI pipeline, with logits whose bits do not move",
    .sections = sections,
    .n_sections = N_SECTIONS,
    .options = options,
    .n_options = LS_N_OPTS,
    .commands = commands,
    .n_commands = LS_N_CMDS,
    .extra = extra,
    .n_extra = sizeof extra / sizeof extra[0],
};
