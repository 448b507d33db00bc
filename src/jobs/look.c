#include "jobs/look.h"

#include "jobs/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct visit {
    struct ls_job_look *look;
    uint64_t last; /* the highest line */
};

static ls_status see(void *arg, uint64_t off, const struct ls_row_record *row, const char *text,
                     size_t n, struct ls_err *err)
{
    (void)off, (void)err;
    struct visit *v = arg;
    struct ls_job_counts *c = &v->look->counts;
    if (!row) {
        v->look->identity = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
        return LS_OK;
    }
    c->rows++;
    c->error_rows += row->is_error;
    c->prompt_tokens += row->prompt_tokens;
    c->generated_tokens += row->generated_tokens;
    v->last = row->line > v->last ? row->line : v->last;
    return LS_OK;
}

static ls_status read_journal(struct ls_job_look *look, struct ls_err *err)
{
    struct ls_journal j;
    struct stat st;
    struct visit v = { .look = look };
    ls_status status = ls_journal_open(&j, look->folder, false, &look->has_journal, err);
    if (status || !look->has_journal)
        return status;
    status = ls_journal_scan(&j, see, &v, &look->counts.torn_bytes, err);
    look->journal_bytes = j.end;
    look->last_line = v.last;
    if (!fstat(j.fd, &st))
        look->idle_s = difftime(time(NULL), st.st_mtime);
    ls_journal_close(&j);
    return status;
}

ls_status ls_job_look(struct ls_job_look *look, const char *output, struct ls_err *err)
{
    struct stat st;
    struct ls_job_look l = { 0 };
    if (asprintf(&l.folder, "%s.lockstep", output) < 0)
        return ls_fail(err, LS_E_MEMORY, "out of memory for the path of a job");
    ls_status status = LS_OK;
    if (stat(l.folder, &st) || !S_ISDIR(st.st_mode))
        status = ls_fail(err, LS_E_USAGE, "%s: no job has this output; there is no folder %s",
                         output, l.folder);
    if (!status)
        status = ls_lock_look(l.folder, &l.held, l.owner, err);
    if (!status)
        status = read_journal(&l, err);
    if (status)
        ls_job_look_finish(&l);
    else
        *look = l;
    return status;
}

void ls_job_look_finish(struct ls_job_look *look)
{
    json_decref(look->identity);
    free(look->folder);
    *look = (struct ls_job_look){ 0 };
}
