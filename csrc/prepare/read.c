/* A program as a text in JSON describes it: a ranker's file, or what a caller wrote. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prepare/program.h"

/* What attributes are of, for messages. */
typedef struct owner {
    char text[64];
} owner;

static owner owner_of(const tg_prepare_step *step) {
    owner o;
    snprintf(o.text, sizeof o.text, "preprocessing: step '%.32s'", step->name);
    return o;
}

/* Of text, a literal or a number. */
static char *copy_text(const tg_json_value *value) {
    char number[32];
    snprintf(number, sizeof number, "%.15g", value->number);
    const char *text = value->text == NULL ? number : value->text;
    char *copy = malloc(strlen(text) + 1);
    if (copy != NULL) strcpy(copy, text);
    return copy;
}

static tg_status no_memory(tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory for the columns of a schema");
}

/* ---- columns of a schema ---- */

static tg_status take_values(tg_column *column, owner o, const tg_json_value *values, tg_error *err) {
    static const char expected[] = "a list of 1..65536 values of a category";
    if (values == NULL || values->kind != TG_JSON_ARRAY || values->count < 1 ||
        values->count > TG_MAX_COLUMNS)
        return tg_attr_wrong(err, TG_E_CONFIG, o.text, column->name, expected, values);
    if ((column->values = calloc((size_t)values->count, sizeof *column->values)) == NULL)
        return no_memory(err);
    for (const tg_json_value *v = values->first; v != NULL; v = v->next) {
        if (v->kind != TG_JSON_STRING && v->kind != TG_JSON_LITERAL && v->kind != TG_JSON_NUMBER)
            return tg_attr_wrong(err, TG_E_CONFIG, o.text, column->name, expected, v);
        if ((column->values[column->n_values] = copy_text(v)) == NULL) return no_memory(err);
        column->n_values++;
    }
    return TG_OK;
}

/* One column from {"name": ..., "kind": ..., "values": [...]}. */
static tg_status take_column(tg_column *column, owner o, const char *attr, const tg_json_value *item,
                             tg_error *err) {
    static const char expected[] = "columns {'name': text, 'kind': one of number, log, category, flag, ...}";
    const tg_json_value *name = tg_json_find(item, "name"), *kind = tg_json_find(item, "kind");
    if (name == NULL || name->kind != TG_JSON_STRING)
        return tg_attr_wrong(err, TG_E_CONFIG, o.text, attr, expected, name == NULL ? item : name);
    if ((column->name = copy_text(name)) == NULL) return no_memory(err);
    int found = 0;
    while (found < TG_KINDS && !tg_json_is(kind, tg_kind_names[found])) found++;
    if (found == TG_KINDS) return tg_attr_wrong(err, TG_E_CONFIG, o.text, column->name, expected, kind);
    column->kind = (tg_column_kind)found;
    if (found != TG_KIND_CATEGORY) return TG_OK;
    return take_values(column, o, tg_json_find(item, "values"), err);
}

static tg_status take_columns(tg_columns *columns, owner o, const char *attr, const tg_json_value *list,
                              tg_error *err) {
    columns->column = calloc((size_t)list->count + 1, sizeof *columns->column);
    if (columns->column == NULL) return no_memory(err);
    for (const tg_json_value *v = list->first; v != NULL; v = v->next) {
        const tg_status status = take_column(&columns->column[columns->n++], o, attr, v, err);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

tg_status tg_columns_read(tg_columns *columns, const char *field, const tg_json_value *list, tg_error *err) {
    const owner o = {"schema"};
    if (list == NULL || list->kind != TG_JSON_ARRAY || list->count > TG_MAX_COLUMNS)
        return tg_attr_wrong(err, TG_E_DATA, o.text, field, "a list of columns", list);
    return take_columns(columns, o, field, list, err);
}

static tg_status take_numbers(tg_columns *list, const tg_json_value *given, tg_error *err) {
    list->number = calloc((size_t)given->count + 1, sizeof *list->number);
    if (list->number == NULL) return no_memory(err);
    for (const tg_json_value *v = given->first; v != NULL; v = v->next)
        list->number[list->n++] = (int32_t)v->number;
    return TG_OK;
}

/* ---- steps ---- */

static tg_status take_attrs(const tg_prepare_step *step, const tg_json_value *described, double *attr,
                            tg_columns *columns, tg_error *err) {
    const owner o = owner_of(step);
    tg_attr_value values[TG_STEP_ATTRS];
    tg_status status =
        tg_attrs_read(step->attrs, TG_STEP_ATTRS, described, "step", o.text, TG_E_CONFIG, values, err);
    for (int a = 0; status == TG_OK && a < tg_attrs_count(step->attrs, TG_STEP_ATTRS); a++) {
        attr[a] = values[a].number;
        if (values[a].list == NULL) continue;
        if (step->attrs[a].kind == TG_ATTR_NUMBERS) status = take_numbers(&columns[a], values[a].list, err);
        else status = take_columns(&columns[a], o, step->attrs[a].name, values[a].list, err);
    }
    return status;
}

static tg_status add_step(tg_program *program, const tg_json_value *described, tg_error *err) {
    const tg_json_value *name = tg_json_find(described, "step");
    const tg_prepare_step *step =
        name != NULL && name->kind == TG_JSON_STRING ? tg_find_step(name->text) : NULL;
    if (step == NULL)
        return tg_attr_wrong(err, TG_E_CONFIG, "preprocessing", "step",
                             "{'step': name, ...} with a name that _core.prepare_steps() lists",
                             name == NULL ? described : name);
    double attr[TG_STEP_ATTRS] = {0};
    tg_columns columns[TG_STEP_ATTRS] = {{0, NULL, NULL}};
    const tg_status status = take_attrs(step, described, attr, columns, err);
    if (status == TG_OK) return tg_program_add(program, step, attr, columns, err);
    for (int a = 0; a < TG_STEP_ATTRS; a++) tg_columns_free(&columns[a]);
    return status;
}

tg_status tg_program_read(tg_program *program, const tg_json_value *list, tg_error *err) {
    if (list == NULL || list->kind != TG_JSON_ARRAY)
        return tg_attr_wrong(err, TG_E_CONFIG, "", "preprocessing", "a list of steps", list);
    for (const tg_json_value *v = list->first; v != NULL; v = v->next) {
        const tg_status status = add_step(program, v, err);
        if (status != TG_OK) return status;
    }
    return tg_program_close(program, err);
}
