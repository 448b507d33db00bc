#include "text/versions.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stddef.h>
#include <stdio.h>
#include <utf8proc.h>

/* PCRE2 asks for the length first. */
static void ask_pcre2(uint32_t what, char text[64])
{
    const int n = pcre2_config(what, NULL);
    if (n <= 0 || n > 64 || pcre2_config(what, text) < 0)
        snprintf(text, 64, "unknown");
}

void ls_text_versions(struct ls_text_versions *versions)
{
    ask_pcre2(PCRE2_CONFIG_VERSION, versions->pcre2);
    ask_pcre2(PCRE2_CONFIG_UNICODE_VERSION, versions->pcre2_unicode);
    versions->utf8proc = utf8proc_version();
    versions->utf8proc_unicode = utf8proc_unicode_version();
}
