#include "model/families/families.h"

#include <string.h>

static const struct ls_family *const table[] = {
    &ls_family_llama,    &ls_family_mistral, &ls_family_qwen2,       &ls_family_qwen3,
    &ls_family_smollm3,  &ls_family_gemma,   &ls_family_gemma2,      &ls_family_gemma3_text,
    &ls_family_phi3,     &ls_family_olmo2,   &ls_family_granite,     &ls_family_cohere2,
    &ls_family_glm4,     &ls_family_mixtral, &ls_family_qwen2_moe,   &ls_family_qwen3_moe,
    &ls_family_glm4_moe, &ls_family_gpt_oss, &ls_family_llama4_text, &ls_family_gemma4_text,
};

enum { N_FAMILIES = sizeof table / sizeof *table };

const struct ls_family *ls_family_at(int i)
{
    return i >= 0 && i < N_FAMILIES ? table[i] : NULL;
}

const struct ls_family *ls_family_find(const char *model_type)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(table[i]->model_type, model_type))
            return table[i];
    return NULL;
}
