#include "app/provenance.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 256, TIME = 32 };

static const char *user_name(char text[NAME])
{
    struct passwd entry, *found = NULL;
    char buffer[4096];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) || !found)
        snprintf(text, NAME, "uid %u", (unsigned)geteuid());
    else
        snprintf(text, NAME, "%s", entry.pw_name);
    return text;
}

static const char *host_name(char text[NAME])
{
    if (gethostname(text, NAME - 1))
        snprintf(text, NAME, "unknown");
    text[NAME - 1] = '\0';
    return text;
}

static const char *time_now(char text[TIME])
{
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(text, TIME, "%Y-%m-%dT%H:%M:%SZ", &utc))
        snprintf(text, TIME, "unknown time");
    return text;
}

const char *ls_provenance_line(const struct ls_app *app, char text[LS_ERR_TEXT])
{
    char user[NAME], host[NAME], now[TIME];
    int n = snprintf(text, LS_ERR_TEXT, "lockstep %s: %s@%s, %s:", LS_VERSION, user_name(user),
                     host_name(host), time_now(now));
    for (int i = 0; i < app->argc && n > 0 && n < LS_ERR_TEXT; i++)
        n += snprintf(text + n, (size_t)(LS_ERR_TEXT - n), " %s",
                      i == 0 ? "lockstep" : app->argv[i]);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    return text;
}

/* JSON texts are UTF-8; file names need not be. */
static json_t *text_to_json(const char *text)
{
    char clean[4096];
    json_t *const good = json_string(text);
    if (good)
        return good;
    snprintf(clean, sizeof clean, "%s", text);
    for (char *p = clean; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    return json_string(clean);
}

json_t *ls_provenance_json(const struct ls_app *app)
{
    char user[NAME], host[NAME], now[TIME];
    json_t *const words = json_array();
    for (int i = 0; words && i < app->argc; i++)
        if (json_array_append_new(words, text_to_json(app->argv[i]))) {
            json_decref(words);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "program", "lockstep", "version",
                     LS_VERSION, "command", ls_table.commands[app->options.command].name,
                     "command_line", words, "user", text_to_json(user_name(user)), "host",
                     text_to_json(host_name(host)), "time", time_now(now));
}
