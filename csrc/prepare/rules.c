#include "prepare/rules.h"

#include <stddef.h>

const char *const tg_kind_names[TG_KINDS] = {"number", "log", "category", "flag"};

const char *tg_rule_expects(tg_rule rule, double x) {
    if (tg_rule_allows(rule, x)) return NULL;
    if (!isfinite(x)) return "finite numbers";
    if (fabs(x) > FLT_MAX) return "numbers that float32 can hold";
    if (rule.kind == TG_KIND_LOG) return "numbers >= 0 in a log column";
    if (rule.kind == TG_KIND_FLAG) return "0 or 1 in a flag";
    return "positions in the values of a category";
}

int64_t tg_rules_misfit(const tg_rule *rules, int64_t F, const float *table, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < F; c++)
            if (!tg_rule_allows(rules[c], (double)table[i * F + c])) return i * F + c;
    return -1;
}

int64_t tg_rules_misfit_f64(const tg_rule *rules, int64_t F, const double *table, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < F; c++)
            if (!tg_rule_allows(rules[c], table[i * F + c])) return i * F + c;
    return -1;
}
