#include "parity/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Text of an attribute or element; control characters are not XML and become spaces. */
static void put_escaped(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*c < ' ' || *c == 127 ? ' ' : *c, out);
        }
}

static void put_difference(FILE *out, const char *phase, const json_t *comparison)
{
    const json_t *const first = json_object_get(comparison, "first_difference");
    const char *const mismatch =
        json_string_value(json_object_get(comparison, "first_mismatch"));
    fprintf(out, "%s: %" PRId64 " of %" PRId64 " rows differ", phase,
            (int64_t)json_integer_value(json_object_get(comparison, "rows_different")),
            (int64_t)json_integer_value(json_object_get(comparison, "rows")));
    if (json_is_object(first)) {
        fputs(", first in ", out);
        put_escaped(out, json_string_value(json_object_get(first, "request")));
        fprintf(out, " at position %" PRId64,
                (int64_t)json_integer_value(json_object_get(first, "position")));
    }
    if (mismatch) {
        fputs("; ", out);
        put_escaped(out, mismatch);
    }
    fputs(". ", out);
}

static void put_case(FILE *out, const struct ls_report *report, size_t i, double seconds)
{
    const struct ls_outcome *const o = &report->outcomes[i];
    const enum ls_arm_status status = ls_outcome_status(o);
    fputs("  <testcase classname=\"", out);
    put_escaped(out, report->sweep->name);
    fputs("\" name=\"", out);
    put_escaped(out, report->sweep->arms[i].name);
    fprintf(out, "\" time=\"%.3f\"", seconds);
    if (status == LS_ARM_EQUAL) {
        fputs("/>\n", out);
        return;
    }
    fputs(status == LS_ARM_FAILED ? ">\n    <error message=\"" : ">\n    <failure message=\"",
          out);
    if (status == LS_ARM_FAILED)
        put_escaped(out, o->reason);
    for (int p = 0; status == LS_ARM_DIFFERENT && p < LS_N_PHASES; p++)
        if (o->comparison[p] && !json_is_true(json_object_get(o->comparison[p], "equal")))
            put_difference(out, ls_phase_name((enum ls_phase)p), o->comparison[p]);
    fputs("\"/>\n  </testcase>\n", out);
}

char *ls_report_junit(const struct ls_report *report, const double *seconds)
{
    char *text = NULL;
    size_t n, counts[3] = { 0 };
    double sum = 0;
    FILE *const out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    for (size_t i = 1; i < report->sweep->n; i++) {
        counts[ls_outcome_status(&report->outcomes[i])]++;
        sum += seconds[i];
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", out);
    put_escaped(out, report->sweep->name);
    fprintf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" time=\"%.3f\">\n",
            report->sweep->n - 1, counts[LS_ARM_DIFFERENT], counts[LS_ARM_FAILED], sum);
    for (size_t i = 1; i < report->sweep->n; i++)
        put_case(out, report, i, seconds[i]);
    fputs("</testsuite>\n", out);
    const int failed = ferror(out);
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}
