/* The commands of the option table, and what the manual page says besides. */
#include "app/table_parts.h"

const struct ls_command ls_table_commands[LS_N_CMDS] = {
    [LS_CMD_RUN] = { "run", "", 0, 0, "generate completions for a file of requests",
                     "Reads request lines, generates, and writes one result row for each line. "
                     "Started by mpirun or srun, every rank owns one stage of a pipeline; "
                     "alone, one process is the whole pipeline. Stages (parts of the model on "
                     "different ranks) make room for a model that one rank cannot hold; "
                     "replicas (whole pipelines side by side) make more of the ranks when it "
                     "can. The results have the same bits in every layout." },
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
                      "--nodes. It says when replicas would be faster than stages." },
    [LS_CMD_INSPECT] = { "inspect", "[DIR]", 0, 1, "describe a checkpoint folder",
                         "Prints what lockstep understands of a checkpoint: architecture layer "
                         "by layer, tensors, bytes, tokenizer. Of one that it cannot run it "
                         "says "
                         "why, and ends with 3." },
    [LS_CMD_COMPARE] = { "compare", "A B", 2, 2, "compare two sets of tensors bit for bit",
                         "A and B are folders written by --logits, safetensors files, npy "
                         "files, or the arms that a sweep keeps. Says whether all bits are "
                         "equal; if not, where the first "
                         "difference lies and how large differences are. Ends with 0 when "
                         "equal "
                         "and with 10 when not." },
    [LS_CMD_EXPORT] = { "export", "A OUT", 2, 2, "write a set of tensors as safetensors",
                        "A is anything that compare reads, as an arm that a sweep keeps as "
                        "differences; OUT becomes one safetensors file of the same tensors." },
    [LS_CMD_PARITY] = { "parity", "", 0, 0, "say whether arms are equal, and where they part",
                        "With --config: runs the same requests as a reference and as every arm "
                        "of the sweep that it describes (layouts, CPU paths, links, models, "
                        "programs, other programs' dumps), compares all logits and texts with "
                        "the reference's, and writes report.json, junit.xml and timings.json. "
                        "Stopped or killed, the same command goes on. With --locate: runs the "
                        "prompts of --input as --model and its options say, and once more as "
                        "the --against options say; finds the first row of logits that "
                        "differs, names the layer, the operation and the element where the "
                        "difference begins, and what may be its cause. With --tap: writes one "
                        "arm's values to a file. Ends with 0 when every bit is equal, with 10 "
                        "when one differs, with 11 when an arm of a sweep failed." },
    [LS_CMD_REPORT] = { "report", "DIR", 1, 1, "make a sweep's page for a browser",
                        "DIR is the folder of a sweep. Writes report.html there, or --output: "
                        "one file that needs no network, with the verdict, a table of the "
                        "arms, plots, and how to repeat each arm. parity writes it, too; make "
                        "it again when DIR/locate/NNN.json (what parity --locate --json "
                        "printed on arm NNN) are there." },
    [LS_CMD_SHOW] = { "show", "OUT", 1, 1, "print a result file for reading",
                      "Prints prompt and completion of each row of a result file. The prompts "
                      "come from the request file when --input names it." },
    [LS_CMD_STATUS] = { "status", "OUT", 1, 1, "say how far a running or stopped job is",
                        "OUT is the output of a job. Reads its journal, lock and manifest, and "
                        "disturbs nothing: whether it runs and where, how many rows are "
                        "finished, how an earlier run ended." },
    [LS_CMD_BENCH] = { "bench", "[PART...]", 0, 6, "measure machine, kernels, model and jobs",
                       "Parts: machine and kernels (the default), model, job, pipeline, link. "
                       "Each number is the median of at least ten repeats behind a warm-up, "
                       "with "
                       "its "
                       "10th and 90th percentile, beside what this machine's own peaks, "
                       "measured "
                       "in the same run, allow. null: the same work measured against itself; "
                       "cpu%: how much of the time the machine gave, below 100 others were "
                       "running." },
    [LS_CMD_KEYGEN] = { "keygen", "[FILE]", 0, 1,
                        "make a job secret for links between hosts, or a key that signs",
                        "Writes a new random key file with mode 0600; a file that is there is "
                        "never overwritten. Without FILE the key goes to standard output. Give "
                        "it to every rank of a run with --secret-file; or, made with --sign, "
                        "to "
                        "run with --sign-key." },
    [LS_CMD_VERIFY] = { "verify", "CERT", 1, 1, "check a certificate of a run",
                        "Checks the certificate itself, every tensor and tokenizer file of "
                        "--model, every line of --input, every row of --output and --logits "
                        "when they are given, and recomputes leaves on one core: those named "
                        "by --leaf, or --random ones, with all that lie before them in their "
                        "sequences. Ends with 0, or with 10 and the names of what differs." },
    [LS_CMD_SELFTEST] = { "selftest", "", 0, 0, "check that this machine computes what it must",
                          "Runs the start-up vectors on every kernel path that this CPU has. "
                          "With --model, a few hundred tokens through that checkpoint as well: "
                          "that logits repeat, that no later token and no neighbour changes "
                          "them, and that windows end where they must. Ends with 4 when a bit "
                          "is wrong." },
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
    "Finished, with error rows; for compare and parity: there are differences.",
    "11",
    "For parity: an arm failed; the report says why.",
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

const struct ls_man_section ls_table_extra[LS_N_MAN_SECTIONS] = {
    { "Configuration file", man_config },
    { "Exit status", man_exit },
    { "Files", man_files },
    { "Examples", man_examples },
};
