#include "app/facts.h"

#include "app/plan_view.h"
#include "base/alloc.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 30 };

void ls_digest_text(char out[LS_DIGEST_TEXT], const unsigned char digest[32])
{
    memcpy(out, "b2:", 3);
    sodium_bin2hex(out + 3, LS_DIGEST_TEXT - 3, digest, 32);
}

bool ls_file_digest(char out[LS_DIGEST_TEXT], const char *folder, const char *name)
{
    char path[LS_MAX_PATH + 64], *bytes = NULL;
    unsigned char digest[32];
    size_t n;
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    if (ls_file_read(path, MAX_FILE_BYTES, &bytes, &n, NULL))
        return false;
    crypto_generichash(digest, sizeof digest, (const unsigned char *)bytes, n, NULL, 0);
    ls_free(bytes);
    ls_digest_text(out, digest);
    return true;
}

void ls_facts_tell(struct ls_job *job, const struct ls_session *session,
                   const struct ls_run_wish *wish, const char *template)
{
    static const char *const files[] = { "config.json", "generation_config.json",
                                         "tokenizer.json", "tokenizer_config.json",
                                         "chat_template.jinja" };
    const struct ls_checkpoint *const ckpt = ls_session_checkpoint(session);
    unsigned char digest[32];
    char text[LS_DIGEST_TEXT];
    ls_job_fact(job, "profile", "exact-1");
    ls_checkpoint_digest(ckpt, false, digest);
    ls_digest_text(text, digest);
    ls_job_fact(job, "model", text);
    if (wish->check_bytes) {
        ls_checkpoint_digest(ckpt, true, digest);
        ls_digest_text(text, digest);
        ls_job_fact(job, "weight bytes", text);
    }
    ls_job_fact(job, "activations", ls_fmt_text(ls_session_arch(session)->dtype));
    for (int i = 0; i < (int)(sizeof files / sizeof files[0]); i++)
        ls_job_fact(job, files[i], ls_file_digest(text, wish->model, files[i]) ? text : NULL);
    ls_job_fact(job, "chat template",
                template && ls_file_digest(text, NULL, template) ? text : NULL);
}
