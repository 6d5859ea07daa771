/* What the values of a column may be. This is the one home of these rules: for graphs at the door, for tables, and
   for steps that read the arrays of C programs. */
#ifndef TG_RULES_H
#define TG_RULES_H

#include <float.h>
#include <math.h>
#include <stdint.h>

/* A category is stored as its position in the values of the schema, a flag as 0 or 1. */
typedef enum { TG_KIND_NUMBER, TG_KIND_LOG, TG_KIND_CATEGORY, TG_KIND_FLAG, TG_KINDS } tg_column_kind;
extern const char *const tg_kind_names[TG_KINDS];

/* The rule of a column. A category has `values` positions; a negative number: the schema may have more. */
typedef struct tg_rule {
    tg_column_kind kind;
    int values;
} tg_rule;

/* Comparisons are false of NaN. */
static inline int tg_rule_allows(tg_rule rule, double x) {
    switch (rule.kind) {
    case TG_KIND_LOG: return x >= 0 && x <= FLT_MAX;
    case TG_KIND_FLAG: return x == 0 || x == 1;
    case TG_KIND_CATEGORY:
        if (rule.values < 0) return fabs(x) <= FLT_MAX && x == floor(x);
        return x >= 0 && x < rule.values && x == (int)x;
    default: return fabs(x) <= FLT_MAX;
    }
}

/* What x must be, if the rule does not allow it; else NULL. */
const char *tg_rule_expects(tg_rule rule, double x);

/* The first cell of a table (rows,F), counted row by row, that the rule of its column (F) does not allow, or -1. */
int64_t tg_rules_misfit(const tg_rule *rules, int64_t F, const float *table, int64_t rows);
int64_t tg_rules_misfit_f64(const tg_rule *rules, int64_t F, const double *table, int64_t rows);

#endif
