/* tokenizer.json, and behind a zero byte tokenizer_config.json: whatever the text is, it is
 * refused in one line, or gives a tokenizer whose ids are its own and whose text is valid. */
#include "text/detok.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void check_text(const struct ls_tokenizer *tok, const struct ls_ids *ids)
{
    struct ls_bytes out = { 0 };
    struct ls_err err = { 0 };
    if (!ls_tokenizer_decode(tok, ids->data, ids->n, true, &out, &err))
        must(ls_utf8_check(out.data, out.n) == out.n);
    else
        must(*err.text != 0);
    ls_bytes_finish(&out);
}

static void check(const struct ls_tokenizer *tok)
{
    static const char text[] = "ab <s>a\xe4\xbd\xa0  12 don't\n\xe2\x96\x81 b\xcc\x81 C";
    struct ls_ids ids = { 0 };
    struct ls_err err = { 0 };
    if (!ls_tokenizer_encode(tok, text, sizeof text - 1, true, &ids, &err))
        for (size_t i = 0; i < ids.n; i++)
            must(ls_tokenizer_has_id(tok, ids.data[i]) &&
                 ids.data[i] < ls_tokenizer_vocab_size(tok));
    else
        must(err.status != LS_OK && *err.text);
    ids.n = 0;
    for (int32_t id = -1; id < 40 && id <= ls_tokenizer_vocab_size(tok); id++)
        ls_ids_push(&ids, id, &err);
    check_text(tok, &ids);
    must(ls_tokenizer_bos(tok) < ls_tokenizer_vocab_size(tok));
    must(ls_tokenizer_eos(tok) < ls_tokenizer_vocab_size(tok));
    ls_ids_finish(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    const size_t n = zero ? (size_t)(zero - data) : size;
    struct ls_tokenizer *tok = NULL;
    struct ls_err err = { 0 };
    ls_status s =
        ls_tokenizer_create(&tok, (const char *)data, n, zero ? (const char *)zero + 1 : NULL,
                            zero ? size - n - 1 : 0, &err);
    if (!s)
        check(tok);
    else
        must(!tok && err.status == s && *err.text && !strchr(err.text, '\n'));
    ls_tokenizer_destroy(tok);
    return 0;
}
