#include "model_maker.h"

#include "base/philox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writing {
    const struct maker *m;
    char *header; /* JSON, grows */
    size_t n_header, room;
    uint64_t n_data;
};

struct maker maker_small(void)
{
    return (struct maker){ .vocab = 33,
                           .hidden = 24,
                           .intermediate = 20,
                           .n_layers = 3,
                           .n_heads = 3,
                           .n_kv_heads = 1,
                           .dtype = LS_DTYPE_BF16,
                           .head = true };
}

static void add(struct writing *w, const char *name, enum ls_dtype dtype, int rows, int cols)
{
    char shape[64];
    const struct maker *m = w->m;
    if (m->without && !strcmp(m->without, name))
        return;
    if (m->odd && !strcmp(m->odd, name)) {
        dtype = m->odd_dtype;
        rows = m->odd_rows ? m->odd_rows : rows;
    }
    const uint64_t bytes = (uint64_t)rows * (uint64_t)(cols ? cols : 1) * ls_dtype_bytes(dtype);
    if (cols)
        snprintf(shape, sizeof shape, "%d,%d", rows, cols);
    else
        snprintf(shape, sizeof shape, "%d", rows);
    w->n_header += (size_t)snprintf(
        w->header + w->n_header, w->room - w->n_header,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
        w->n_data ? "," : "{", name, ls_dtype_name(dtype), shape, w->n_data, w->n_data + bytes);
    assert_true(w->n_header < w->room);
    w->n_data += bytes;
}

static void add_layer(struct writing *w, int l)
{
    const struct maker *m = w->m;
    const int dim = m->hidden / m->n_heads, kv = dim * m->n_kv_heads;
    const enum ls_dtype norm = m->norm_dtype ? m->norm_dtype : m->dtype;
    const struct {
        const char *name;
        int rows, cols;
    } tensors[] = {
        { "input_layernorm", m->hidden, 0 },
        { "self_attn.q_proj", m->hidden, m->hidden },
        { "self_attn.k_proj", kv, m->hidden },
        { "self_attn.v_proj", kv, m->hidden },
        { "self_attn.o_proj", m->hidden, m->hidden },
        { "post_attention_layernorm", m->hidden, 0 },
        { "mlp.gate_proj", m->intermediate, m->hidden },
        { "mlp.up_proj", m->intermediate, m->hidden },
        { "mlp.down_proj", m->hidden, m->intermediate },
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[200];
        snprintf(name, sizeof name, "%slayers.%d.%s.weight", m->prefix ? m->prefix : "model.",
                 l, tensors[i].name);
        add(w, name, tensors[i].cols ? m->dtype : norm, tensors[i].rows, tensors[i].cols);
    }
}

static void add_all(struct writing *w)
{
    const struct maker *m = w->m;
    const char *prefix = m->prefix ? m->prefix : "model.";
    char name[200];
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    add(w, name, m->dtype, m->vocab, m->hidden);
    for (int l = 0; l < m->n_layers; l++)
        add_layer(w, l);
    snprintf(name, sizeof name, "%snorm.weight", prefix);
    add(w, name, m->norm_dtype ? m->norm_dtype : m->dtype, m->hidden, 0);
    if (m->head)
        add(w, "lm_head.weight", m->dtype, m->vocab, m->hidden);
    if (m->extra)
        add(w, m->extra, m->dtype, 2, 0);
    w->header[w->n_header++] = '}';
    w->header[w->n_header] = 0;
}

static void write_config(const struct maker *m, const struct rig_folder *f)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":%d,"
             "\"intermediate_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
             "\"num_key_value_heads\":%d,\"tie_word_embeddings\":%s,\"dtype\":\"bfloat16\"}",
             m->vocab, m->hidden, m->intermediate, m->n_layers, m->n_heads, m->n_kv_heads,
             m->tied ? "true" : "false");
    rig_put_text(f, "config.json", text);
}

void maker_write(const struct maker *m, const struct rig_folder *f)
{
    struct writing w = { .m = m, .room = 1 << 20 };
    w.header = malloc(w.room);
    assert_non_null(w.header);
    add_all(&w);
    struct rig_bytes b = rig_image(w.header, w.n_data);
    unsigned char *data = b.bytes + b.size - w.n_data;
    /* All bit patterns occur, NaN and infinities with them: weights are data. */
    for (uint64_t i = 0; i + 16 <= w.n_data; i += 16) {
        uint32_t r[4];
        const uint32_t counter[4] = { (uint32_t)i, 0, 0, 0 }, key[2] = { 7, 7 };
        ls_philox4x32(r, counter, key);
        memcpy(data + i, r, sizeof r);
    }
    rig_put(f, "model.safetensors", b.bytes, b.size);
    write_config(m, f);
    free(b.bytes);
    free(w.header);
}
