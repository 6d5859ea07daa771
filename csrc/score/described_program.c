#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "prepare/program.h"
#include "score/described.h"

/* About an attribute of a step: "preprocessing: step 'prune', method". */
static tg_status wrong(tg_error *err, const char *step, const char *what, const char *expected,
                       const tg_json_value *found) {
    char field[96];
    snprintf(field, sizeof field, "preprocessing: step '%.32s', %.32s", step, what);
    return tg_described_wrong(err, field, expected, NULL, found);
}

static char *copy_text(const tg_json_value *text) {
    char *copy = malloc(text->size + 1);
    if (copy != NULL) memcpy(copy, text->text, text->size + 1);
    return copy;
}

static tg_status no_memory(tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory for the columns of a schema");
}

/* ---- columns of a schema ---- */

static tg_status take_values(tg_column *column, const char *step, const tg_json_value *values,
                             tg_error *err) {
    static const char expected[] = "a list of 1..65536 values of a category";
    if (values == NULL || values->kind != TG_JSON_ARRAY || values->count < 1 ||
        values->count > TG_MAX_COLUMNS)
        return wrong(err, step, column->name, expected, values);
    if ((column->values = calloc((size_t)values->count, sizeof *column->values)) == NULL)
        return no_memory(err);
    for (const tg_json_value *v = values->first; v != NULL; v = v->next) {
        if (v->kind != TG_JSON_STRING) return wrong(err, step, column->name, expected, v);
        if ((column->values[column->n_values] = copy_text(v)) == NULL) return no_memory(err);
        column->n_values++;
    }
    return TG_OK;
}

/* One column from {"name": ..., "kind": ..., "values": [...]}. */
static tg_status take_column(tg_column *column, const char *step, const char *attr, const tg_json_value *item,
                             tg_error *err) {
    static const char expected[] = "columns {'name': text, 'kind': one of number, log, category, flag, ...}";
    const tg_json_value *name = tg_json_find(item, "name"), *kind = tg_json_find(item, "kind");
    if (name == NULL || name->kind != TG_JSON_STRING) return wrong(err, step, attr, expected, name);
    if ((column->name = copy_text(name)) == NULL) return no_memory(err);
    int found = 0;
    while (found < TG_KINDS && !tg_json_is(kind, tg_kind_names[found])) found++;
    if (found == TG_KINDS) return wrong(err, step, column->name, expected, kind);
    column->kind = (tg_column_kind)found;
    if (found != TG_KIND_CATEGORY) return TG_OK;
    return take_values(column, step, tg_json_find(item, "values"), err);
}

static tg_status take_columns(tg_columns *columns, const char *step, const char *attr,
                              const tg_json_value *list, tg_error *err) {
    if (list->kind != TG_JSON_ARRAY || list->count > TG_MAX_COLUMNS)
        return wrong(err, step, attr, "a list of at most 65536 columns", list);
    columns->column = calloc((size_t)list->count + 1, sizeof *columns->column);
    if (columns->column == NULL) return no_memory(err);
    for (const tg_json_value *v = list->first; v != NULL; v = v->next) {
        const tg_status status = take_column(&columns->column[columns->n++], step, attr, v, err);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

static tg_status take_numbers(tg_columns *list, const char *step, const tg_step_attr *attr,
                              const tg_json_value *given, tg_error *err) {
    char expected[96];
    snprintf(expected, sizeof expected, "a list of at most %d whole numbers in %.0f..%.0f", TG_MAX_COLUMNS,
             attr->low, attr->high);
    if (given->kind != TG_JSON_ARRAY || given->count > TG_MAX_COLUMNS)
        return wrong(err, step, attr->name, expected, given);
    list->number = calloc((size_t)given->count + 1, sizeof *list->number);
    if (list->number == NULL) return no_memory(err);
    for (const tg_json_value *v = given->first; v != NULL; v = v->next) {
        if (!v->is_whole || v->number < attr->low || v->number > attr->high)
            return wrong(err, step, attr->name, expected, v);
        list->number[list->n++] = (int32_t)v->number;
    }
    return TG_OK;
}

/* ---- attributes ---- */

static tg_status take_value(double *to, tg_columns *columns, const char *step, const tg_step_attr *attr,
                            const tg_json_value *value, tg_error *err) {
    char name[32], expected[192] = "one of ";
    if (attr->type == TG_STEP_COLUMNS) return take_columns(columns, step, attr->name, value, err);
    if (attr->type == TG_STEP_NUMBERS) return take_numbers(columns, step, attr, value, err);
    for (int i = 0; attr->type == TG_STEP_CHOICE && tg_word(attr->choices, i, name, sizeof name); i++) {
        *to = i;
        if (tg_json_is(value, name)) return TG_OK;
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? ", " : "", name);
    }
    if (attr->type == TG_STEP_FLAG) {
        *to = value->kind == TG_JSON_LITERAL && value->text[0] == 't';
        if (value->kind == TG_JSON_LITERAL && value->text[0] != 'n') return TG_OK;
        snprintf(expected, sizeof expected, "true or false");
    }
    if (attr->type == TG_STEP_INT) {
        *to = value->number;
        if (value->is_whole && *to >= attr->low && *to <= attr->high) return TG_OK;
        snprintf(expected, sizeof expected, "a whole number in %.0f..%.0f", attr->low, attr->high);
    }
    return wrong(err, step, attr->name, expected, value);
}

/* Every entry is an attribute of the step; those that are required are there. */
static tg_status take_attrs(const tg_prepare_step *step, const tg_json_value *described, double *attr,
                            tg_columns *columns, tg_error *err) {
    int attrs = 0, known = 1; /* known: entries, "step" among them, that are attributes */
    for (; attrs < TG_STEP_ATTRS && step->attrs[attrs].name != NULL; attrs++) {
        const tg_step_attr *a = &step->attrs[attrs];
        const tg_json_value *value = tg_json_find(described, a->name);
        attr[attrs] = a->fallback;
        if (value == NULL && a->required) return wrong(err, step->name, a->name, "a value", NULL);
        if (value == NULL) continue;
        known++;
        const tg_status status = take_value(&attr[attrs], &columns[attrs], step->name, a, value, err);
        if (status != TG_OK) return status;
    }
    if (known == described->count) return TG_OK;
    return wrong(err, step->name, "attributes", "only those that the step has", described);
}

static tg_status add_step(tg_program *program, const tg_json_value *described, tg_error *err) {
    const tg_json_value *name = tg_json_find(described, "step");
    const tg_prepare_step *step =
        name != NULL && name->kind == TG_JSON_STRING ? tg_find_step(name->text) : NULL;
    if (step == NULL)
        return tg_described_wrong(err, "preprocessing", "steps that this version has", NULL,
                                  name == NULL ? described : name);
    double attr[TG_STEP_ATTRS] = {0};
    tg_columns columns[TG_STEP_ATTRS] = {{0, NULL, NULL}};
    const tg_status status = take_attrs(step, described, attr, columns, err);
    if (status == TG_OK) return tg_program_add(program, step, attr, columns, err);
    for (int a = 0; a < TG_STEP_ATTRS; a++) tg_columns_free(&columns[a]);
    return status;
}

tg_status tg_described_program(tg_program *program, const tg_json_value *list, tg_error *err) {
    if (list == NULL || list->kind != TG_JSON_ARRAY)
        return tg_described_wrong(err, "preprocessing", "a list of steps", NULL, list);
    for (const tg_json_value *v = list->first; v != NULL; v = v->next) {
        const tg_status status = add_step(program, v, err);
        if (status != TG_OK) return status;
    }
    return tg_program_close(program, err);
}
