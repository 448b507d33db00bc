/* A plan as people and programs read it. Layer: app. Local. */
#ifndef LS_APP_PLAN_VIEW_H
#define LS_APP_PLAN_VIEW_H

#include "pipeline/plan.h"

#include <jansson.h>
#include <stdio.h>

/* "12.3 MiB"; the text stays valid until the eighth call after this one. */
const char *ls_size_text(uint64_t bytes);
/* "f32", "f16", "bf16". */
const char *ls_fmt_text(enum ls_fmt fmt);

void ls_plan_print(const struct ls_plan *plan, const struct ls_arch *arch, FILE *out);
/* A new object, or NULL when memory is exhausted. */
json_t *ls_plan_to_json(const struct ls_plan *plan, const struct ls_arch *arch);

#endif
