#include "clib/clib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "features/colnames.h"
#include "features/opcodes.h"
#include "prepare/encoding.h"

/* ---- names ---- */

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    return copy == NULL ? NULL : strcpy(copy, text);
}

static tg_status no_memory(tg_error *err) { return tg_fail(err, TG_E_MEMORY, "no memory for names"); }

/* The published columns, which files do not spell out. */
static tg_status spell(tg_columns *columns, const char *names, int n, tg_error *err) {
    tg_spelling at = {names, 0};
    char name[64];
    if ((columns->column = calloc((size_t)n, sizeof *columns->column)) == NULL) return no_memory(err);
    while (columns->n < n && tg_spell(&at, name, sizeof name)) {
        if ((columns->column[columns->n].name = copy_text(name)) == NULL) return no_memory(err);
        columns->n++;
    }
    return TG_OK;
}

static tg_status spell_digits(tg_ranker *r, tg_error *err) {
    tg_spelling at = {tg_digit_names, 0};
    char name[64];
    for (int d = 0; d < TG_DIGITS && tg_spell(&at, name, sizeof name); d++)
        if ((r->digit_names[d] = copy_text(name)) == NULL) return no_memory(err);
    return TG_OK;
}

tg_status tg_take_names(tg_ranker *r, const tg_json_value *schema, tg_error *err) {
    static const char *const fields[TG_TABLES] = {
        [TG_TABLE_NODE] = "node", [TG_TABLE_GRAPH] = "graph", [TG_TABLE_CONFIG] = "config"};
    tg_status status = TG_OK;
    if (schema == NULL) {
        status = spell(&r->columns[TG_TABLE_NODE], tg_node_names, TG_NODE_FEATURES, err);
        if (status == TG_OK && r->tile)
            status = spell(&r->columns[TG_TABLE_CONFIG], tg_tile_names, TG_TILE_FEATURES, err);
        return status == TG_OK && !r->tile ? spell_digits(r, err) : status;
    }
    for (int t = 0; status == TG_OK && t < TG_TABLES; t++)
        status = tg_columns_read(&r->columns[t], fields[t], tg_json_find(schema, fields[t]), err);
    return status;
}

/* ---- what stands for a missing feature ---- */

static float fitting(tg_column_kind kind, double x) {
    if (kind == TG_KIND_LOG) return (float)(x > 0 ? expm1(x) : 0);
    if (kind == TG_KIND_FLAG) return x >= 0.5 ? 1 : 0;
    return (float)x;
}

static float commonest(const int64_t *seen, int n) {
    int common = 0;
    for (int v = 0; v < n; v++)
        if (seen[v] > seen[common]) common = v;
    return (float)common;
}

static void learn(tg_ranker *r, tg_table t, int64_t c, tg_column_kind kind, double mean, double m2,
                  int64_t count) {
    r->fill[t][c] = fitting(kind, mean);
    r->learnt[t][c] = (tg_learnt){1, kind == TG_KIND_LOG, mean, sqrt(m2 / (double)count), NULL};
}

static void learn_encoded(tg_ranker *r, const tg_use *use) {
    const double *mean = use->state[1].f, *m2 = use->state[2].f;
    const int64_t *seen = use->state[3].i;
    for (int t = 0; t < TG_TABLES; t++)
        for (int c = 0; c < use->columns[t].n; c++, mean++, m2++) {
            const tg_column *column = &use->columns[t].column[c];
            const int64_t *own = seen;
            seen += column->n_values;
            if (r->columns[t].n != use->columns[t].n) continue;
            learn(r, (tg_table)t, c, column->kind, *mean, *m2, use->state[0].i[t]);
            if (column->kind != TG_KIND_CATEGORY) continue;
            r->fill[t][c] = commonest(own, column->n_values);
            r->learnt[t][c].seen = own;
        }
}

/* Of columns as they are stored: no step before has changed them. */
static void learn_scaled(tg_ranker *r, const tg_use *use, tg_table t, int log) {
    const int64_t n = use->state[1].n < r->columns[t].n ? use->state[1].n : r->columns[t].n;
    for (int64_t c = 0; c < n; c++)
        learn(r, t, c, log ? TG_KIND_LOG : TG_KIND_NUMBER, use->state[1].f[c], use->state[2].f[c],
              use->state[0].i[0]);
}

static int changes_nodes(const char *step) {
    static const char *const keeping[] = {"prune",      "dedup",         "layout-digits", "node-padding",
                                          "self-loops", "merge-opcodes", "segments",      "virtual-node"};
    for (size_t i = 0; i < sizeof keeping / sizeof *keeping; i++)
        if (strcmp(step, keeping[i]) == 0) return 0;
    return 1;
}

tg_status tg_take_fill(tg_ranker *r, tg_error *err) {
    int changed = 0;
    for (int t = 0; t < TG_TABLES; t++)
        if ((r->fill[t] = calloc((size_t)r->columns[t].n + 1, sizeof *r->fill[t])) == NULL ||
            (r->learnt[t] = calloc((size_t)r->columns[t].n + 1, sizeof *r->learnt[t])) == NULL)
            return tg_fail(err, TG_E_MEMORY, "no memory for means");
    for (int i = 0; i < r->program.n; i++) {
        const tg_use *use = &r->program.use[i];
        const char *name = use->step->name;
        if (strcmp(name, "encode") == 0) learn_encoded(r, use);
        if (strcmp(name, "standardize") == 0 && !changed) learn_scaled(r, use, TG_TABLE_NODE, 0);
        if (strcmp(name, "standardize-configs") == 0)
            learn_scaled(r, use, TG_TABLE_CONFIG, use->attr[1] != 0);
        changed |= changes_nodes(name);
    }
    return TG_OK;
}

/* ---- public ---- */

static int64_t count(const tg_ranker *r, tg_group group) {
    if (group != TG_DIGIT) return r->columns[group].n;
    return r->tile ? 0 : r->digits;
}

static const char *name_of(const tg_ranker *r, tg_group group, int64_t i) {
    return group == TG_DIGIT ? r->digit_names[i] : r->columns[group].column[i].name;
}

static int is_group(tg_group group) { return (int)group >= TG_NODE && (int)group <= TG_DIGIT; }

int32_t tg_feature_count(const tg_ranker *r, tg_group group) {
    return r == NULL || !is_group(group) ? 0 : (int32_t)count(r, group);
}

const char *tg_feature_name(const tg_ranker *r, tg_group group, int32_t i) {
    return i < 0 || i >= tg_feature_count(r, group) ? NULL : name_of(r, group, i);
}

int32_t tg_feature_index(const tg_ranker *r, tg_group group, const char *name) {
    const int32_t n = name == NULL ? 0 : tg_feature_count(r, group);
    for (int32_t i = 0; i < n; i++) {
        const char *own = name_of(r, group, i);
        if (own != NULL && strcmp(own, name) == 0) return i;
    }
    return -1;
}

float tg_feature_fill(const tg_ranker *r, tg_group group, int32_t i) {
    if (i < 0 || i >= tg_feature_count(r, group)) return 0;
    return group == TG_DIGIT ? TG_DIGIT_MIN : r->fill[group][i];
}

int32_t tg_feature_value(const tg_ranker *r, tg_group group, int32_t i, const char *value) {
    if (i < 0 || i >= tg_feature_count(r, group) || group == TG_DIGIT || value == NULL) return -1;
    const tg_column *column = &r->columns[group].column[i];
    for (int v = 0; v < column->n_values; v++)
        if (strcmp(column->values[v], value) == 0) return v;
    return -1;
}

int32_t tg_opcode_index(const char *name) {
    const size_t length = name == NULL ? 0 : strlen(name);
    const char *at = tg_opcode_names;
    for (int32_t number = 1; length > 0; number++) {
        const size_t own = strcspn(at, " ");
        if (own == length && memcmp(at, name, length) == 0) return number;
        if (at[own] == 0) break;
        at += own + 1;
    }
    return 0;
}
