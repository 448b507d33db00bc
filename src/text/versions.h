/* Which libraries decide what a letter is. Layer: text. Local, cannot fail.
 *
 * Character classes (\p{L}) come from PCRE2's tables, normal forms from utf8proc's: characters
 * that a newer Unicode added may be split otherwise with another version. */
#ifndef LS_TEXT_VERSIONS_H
#define LS_TEXT_VERSIONS_H

struct ls_text_versions {
    char pcre2[64], pcre2_unicode[64]; /* "10.42 2022-12-11", "14.0.0" */
    const char *utf8proc, *utf8proc_unicode;
};
void ls_text_versions(struct ls_text_versions *versions);

#endif
