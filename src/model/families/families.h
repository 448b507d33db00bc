/* The table of all families. Layer: model. Local, cannot fail. */
#ifndef LS_MODEL_FAMILIES_FAMILIES_H
#define LS_MODEL_FAMILIES_FAMILIES_H

#include "model/arch.h"

extern const struct ls_family ls_family_llama, ls_family_mistral, ls_family_qwen2,
    ls_family_qwen3, ls_family_smollm3, ls_family_gemma, ls_family_gemma2,
    ls_family_gemma3_text, ls_family_phi3, ls_family_olmo2, ls_family_granite,
    ls_family_cohere2, ls_family_glm4, ls_family_mixtral, ls_family_qwen2_moe,
    ls_family_qwen3_moe, ls_family_glm4_moe, ls_family_gpt_oss, ls_family_llama4_text,
    ls_family_gemma4_text;

/* NULL for a model_type that is not supported. */
const struct ls_family *ls_family_find(const char *model_type);

/* i-th family, in the order of the table; NULL past the end. */
const struct ls_family *ls_family_at(int i);

#endif
