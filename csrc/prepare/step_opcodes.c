/* Steps that change opcodes. */
#include <string.h>

#include "features/opcodes.h"
#include "prepare/step.h"

/* Elementwise opcodes of one operand that the fifth place of the Kaggle competition took for one. */
static const char unary[] = "abs ceil cosine sine exponential exponential-minus-one floor is-finite log "
                            "log-plus-one logistic not negate "
                            "round-nearest-even round-nearest-afz sqrt rsqrt cbrt sign tan tanh ";

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    (void)use, (void)err;
    if (d->opcode == NULL || !tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    tg_opcode_table table;
    uint8_t merged[UINT8_MAX + 1], first = 0;
    tg_opcode_table_fill(&table);
    for (int i = 0; i <= UINT8_MAX; i++) merged[i] = (uint8_t)i;
    for (const char *name = unary; *name != 0; name += strcspn(name, " ") + 1) {
        const uint8_t opcode = tg_opcode_of(&table, (const uint8_t *)name, strcspn(name, " "));
        if (first == 0) first = opcode;
        merged[opcode] = first;
    }
    for (int64_t n = 0; n < d->N; n++) d->opcode[n] = merged[d->opcode[n]];
    return TG_OK;
}

const tg_prepare_step tg_step_merge_opcodes = {
    .name = "merge-opcodes",
    .doc = "Give 21 elementwise opcodes of one operand (abs, ceil, cosine, ...) the number of the first.",
    .apply = apply,
};
