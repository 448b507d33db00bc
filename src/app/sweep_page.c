#include "app/sweep_page.h"

#include "app/sweep_folder.h"
#include "parity/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of the folder; *out NULL when it is not there. */
static ls_status read_part(json_t **out, const char *folder, const char *name,
                           struct ls_err *err)
{
    char path[LS_SWEEP_PATH];
    json_error_t why;
    *out = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return ls_fail(err, LS_E_USAGE, "%s: the path is too long", folder);
    if (access(path, F_OK) != 0)
        return LS_OK;
    *out = json_load_file(path, 0, &why);
    if (*out)
        return LS_OK;
    return ls_fail(err, LS_E_FORMAT, "%s: line %d: %s", path, why.line, why.text);
}

/* The manifests that the arm names, under the names that it gives them. */
static ls_status add_manifests(json_t *manifests, const char *folder, const json_t *arm,
                               size_t number, struct ls_err *err)
{
    for (int p = 0; p < LS_N_PHASES; p++) {
        const char *const phase = ls_phase_name((enum ls_phase)p);
        const char *const named =
            json_string_value(json_object_get(json_object_get(arm, "manifest"), phase));
        char own[64];
        json_t *manifest;
        snprintf(own, sizeof own, "arms/%03zu/%s/manifest.json", number, phase);
        if (!named || strcmp(named, own) != 0)
            continue;
        const ls_status s = read_part(&manifest, folder, own, err);
        if (s)
            return s;
        if (manifest)
            json_object_set_new(manifests, own, manifest);
    }
    return LS_OK;
}

static ls_status add_location(json_t *locations, const char *folder, size_t number,
                              struct ls_err *err)
{
    char name[64];
    json_t *location;
    snprintf(name, sizeof name, "locate/%03zu.json", number);
    const ls_status s = read_part(&location, folder, name, err);
    if (!s)
        json_array_append_new(locations, location ? location : json_null());
    return s;
}

static ls_status check_report(const json_t *report, const char *folder, struct ls_err *err)
{
    const char *const format = json_string_value(json_object_get(report, "format"));
    if (!report)
        return ls_fail(err, LS_E_USAGE, "%s: no report.json of a sweep is there", folder);
    if (!format || strcmp(format, LS_REPORT_FORMAT) != 0 ||
        !json_is_object(json_object_get(report, "reference")) ||
        !json_is_array(json_object_get(report, "arms")))
        return ls_fail(err, LS_E_FORMAT, "%s/report.json: format is %s, expected %s", folder,
                       format ? format : "not given", LS_REPORT_FORMAT);
    return LS_OK;
}

/* The arms' files; the reference is arm 0. */
static ls_status add_arms(json_t *data, const char *folder, struct ls_err *err)
{
    const json_t *const report = json_object_get(data, "report");
    const json_t *const arms = json_object_get(report, "arms");
    json_t *const manifests = json_object(), *const locations = json_array();
    json_object_set_new(data, "manifests", manifests);
    json_object_set_new(data, "locate", locations);
    ls_status s = LS_OK;
    for (size_t i = 0; !s && i <= json_array_size(arms); i++) {
        const json_t *const arm =
            i ? json_array_get(arms, i - 1) : json_object_get(report, "reference");
        s = add_manifests(manifests, folder, arm, i, err);
        if (!s)
            s = add_location(locations, folder, i, err);
    }
    return s;
}

static ls_status gather(json_t *data, const char *folder, struct ls_err *err)
{
    json_t *report, *timings;
    ls_status s = read_part(&report, folder, "report.json", err);
    if (s)
        return s;
    json_object_set_new(data, "report", report);
    s = check_report(report, folder, err);
    if (!s)
        s = read_part(&timings, folder, "timings.json", err);
    if (s)
        return s;
    json_object_set_new(data, "timings", timings ? timings : json_null());
    json_object_set_new(data, "folder", json_string(folder));
    return add_arms(data, folder, err);
}

ls_status ls_sweep_page(const char *folder, const char *output, struct ls_err *err)
{
    char *text = NULL;
    size_t n;
    json_t *const data = json_object();
    ls_status s = gather(data, folder, err);
    if (!s)
        s = ls_page_text(&text, &n, data, err);
    if (!s)
        s = ls_write_whole(output, text, n, err);
    free(text);
    json_decref(data);
    return s;
}
