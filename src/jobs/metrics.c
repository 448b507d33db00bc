#include "jobs/metrics.h"

#include "base/open.h"
#include "jobs/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put_label(struct ls_out *out, const char *output)
{
    ls_out_text(out, "{output=\"");
    for (const char *p = output; *p; p++) {
        if (*p == '\n') {
            ls_out_text(out, "\\n");
            continue;
        }
        if (*p == '"' || *p == '\\')
            ls_out_text(out, "\\");
        ls_out_add(out, p, 1);
    }
    ls_out_text(out, "\"} ");
}

static void begin(struct ls_out *out, const char *name, const char *type, const char *help)
{
    const char *const parts[] = { "# HELP lockstep_",   name, " ", help,
                                  "\n# TYPE lockstep_", name, " ", type,
                                  "\nlockstep_",        name };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ls_out_text(out, parts[i]);
}

static void fill(struct ls_out *out, const struct ls_metrics *m,
                 const struct ls_metrics_values *v, uint64_t now_us)
{
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } numbers[] = {
        { "rows_total", "counter", "Finished rows, earlier runs' included.", v->counts.rows },
        { "error_rows_total", "counter", "Error rows among them.", v->counts.error_rows },
        { "resumed_rows", "gauge", "Rows of earlier runs.", v->counts.resumed_rows },
        { "prompt_tokens_total", "counter", "Tokens of the prompts of finished rows.",
          v->counts.prompt_tokens },
        { "generated_tokens_total", "counter", "Tokens generated in finished rows.",
          v->counts.generated_tokens },
        { "run_tokens_total", "counter", "Tokens that this run has seen.", v->tokens },
        { "sequences_running", "gauge", "Sequences in the pipeline.", v->running },
        { "lines_read_total", "counter", "Request lines read.", v->lines_read },
        { "journal_bytes", "gauge", "Size of the journal.", v->journal_bytes },
        { "output_bytes", "gauge", "Size of the output.", v->counts.bytes_written },
        { "state", "gauge", "0 running, 1 stopped, 2 complete.", v->state },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        begin(out, numbers[i].name, numbers[i].type, numbers[i].help);
        put_label(out, m->output);
        ls_out_u64(out, numbers[i].value);
        ls_out_text(out, "\n");
    }
    begin(out, "run_seconds", "gauge", "Seconds since this run began.");
    put_label(out, m->output);
    ls_out_f64(out, (double)(now_us - m->begin_us) / 1e6);
    ls_out_text(out, "\n");
}

/* A file is replaced as a whole; a device is written to, and stays one. */
static ls_status replace(const struct ls_metrics *m, const struct ls_out *text,
                         struct ls_err *err)
{
    char *part;
    struct stat st;
    const bool device = !stat(m->path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    if (text->failed || asprintf(&part, "%s%s", m->path, device ? "" : ".part") < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for metrics");
    int fd = ls_open_write(part, O_WRONLY | O_CREAT | O_TRUNC);
    const bool good = fd >= 0 && write(fd, text->data, text->n) == (ssize_t)text->n;
    ls_status status = LS_OK;
    if (!good || (!device && rename(part, m->path)))
        status = ls_fail(err, ls_io_status(errno), "cannot write metrics %s: %s", m->path,
                         strerror(errno));
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && status && !device)
        unlink(part);
    free(part);
    return status;
}

static ls_status write_file(struct ls_metrics *m, const struct ls_metrics_values *values,
                            uint64_t now_us, struct ls_err *err)
{
    struct ls_out text = { 0 };
    fill(&text, m, values, now_us);
    ls_status status = replace(m, &text, err);
    ls_out_finish(&text);
    m->written_us = now_us;
    return status;
}

ls_status ls_metrics_start(struct ls_metrics *m, const char *path, const char *output,
                           uint64_t now_us, struct ls_err *err)
{
    const struct ls_metrics_values none = { .state = LS_JOB_RUNNING };
    *m = (struct ls_metrics){ .path = path, .output = output, .begin_us = now_us };
    return path ? write_file(m, &none, now_us, err) : LS_OK;
}

void ls_metrics_show(struct ls_metrics *m, const struct ls_metrics_values *values,
                     uint64_t now_us, bool last)
{
    if (m->path && (last || now_us - m->written_us >= LS_METRICS_EVERY_US))
        write_file(m, values, now_us, NULL);
}
