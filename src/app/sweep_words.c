#include "app/sweep_words.h"

#include "app/table.h"

#include <stdio.h>
#include <string.h>

extern char **environ;

struct list {
    struct ls_arena *arena;
    const char **words;
    size_t n;
    bool failed;
};

static void add(struct list *l, const char *word)
{
    l->words[l->n++] = word;
    l->failed |= !word;
}

static void add_copy(struct list *l, const char *word)
{
    add(l, ls_arena_text(l->arena, word, strlen(word)));
}

/* A word of the launcher, with {ranks} replaced. */
static void add_launcher(struct list *l, const char *word, int ranks)
{
    char digits[16];
    const char *const at = strstr(word, "{ranks}");
    snprintf(digits, sizeof digits, "%d", ranks);
    if (!at) {
        add(l, word);
        return;
    }
    const size_t size = strlen(word) + sizeof digits;
    char *const text = ls_arena_take(l->arena, size);
    if (text)
        snprintf(text, size, "%.*s%s%s", (int)(at - word), word, digits, at + 7);
    add(l, text);
}

static void add_option(struct list *l, const struct ls_setting *setting)
{
    const int option = ls_options_find(&ls_table, setting->key);
    char name[80];
    snprintf(name, sizeof name, "--%.70s", setting->key);
    if (option < 0 || ls_option_at(&ls_table, option)->type != LS_VALUE_FLAG) {
        add_copy(l, name);
        add(l, setting->value);
    } else if (!strcmp(setting->value, "true")) {
        add_copy(l, name);
    }
}

const char **ls_sweep_words(const struct ls_sweep *sweep, const struct ls_arm *arm,
                            const struct ls_sweep_words *how, struct ls_arena *arena)
{
    struct list l = { .arena = arena };
    const size_t most = sweep->n_launcher + 2 * arm->options.n + 16;
    l.words = ls_arena_take(arena, most * sizeof *l.words);
    if (!l.words)
        return NULL;
    for (size_t i = 0; arm->ranks > 1 && i < sweep->n_launcher; i++)
        add_launcher(&l, sweep->launcher[i], arm->ranks);
    add(&l, arm->binary ? arm->binary : how->program);
    add(&l, "run");
    for (size_t i = 0; i < arm->options.n; i++)
        add_option(&l, &arm->options.list[i]);
    add(&l, "--input");
    add_copy(&l, how->input);
    add(&l, "--output");
    add_copy(&l, how->rows);
    if (how->logits) {
        add(&l, "--logits");
        add_copy(&l, how->logits);
    }
    add(&l, "--digest");
    add(&l, "all");
    add(&l, "--progress");
    add(&l, "none");
    return l.failed ? NULL : l.words;
}

static bool is_set_by(const struct ls_settings *env, const char *variable)
{
    for (size_t i = 0; i < env->n; i++) {
        const size_t n = strlen(env->list[i].key);
        if (!strncmp(variable, env->list[i].key, n) && variable[n] == '=')
            return true;
    }
    return false;
}

const char **ls_sweep_env(const struct ls_arm *arm, struct ls_arena *arena)
{
    size_t n = 0;
    while (environ[n])
        n++;
    struct list l = { .arena = arena };
    l.words = ls_arena_take(arena, (n + arm->env.n + 1) * sizeof *l.words);
    if (!l.words)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_set_by(&arm->env, environ[i]))
            add(&l, environ[i]);
    for (size_t i = 0; i < arm->env.n; i++) {
        const struct ls_setting *const s = &arm->env.list[i];
        const size_t size = strlen(s->key) + strlen(s->value) + 2;
        char *const text = ls_arena_take(arena, size);
        if (text)
            snprintf(text, size, "%s=%s", s->key, s->value);
        add(&l, text);
    }
    return l.failed ? NULL : l.words;
}

json_t *ls_sweep_words_json(const char *const *words)
{
    json_t *const list = json_array();
    for (size_t i = 0; words && words[i]; i++)
        if (json_array_append_new(list, json_string(words[i]))) {
            json_decref(list);
            return NULL;
        }
    return words ? list : NULL;
}
