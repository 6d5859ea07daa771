/* A model as a text in JSON describes it: a ranker's file, or what a caller wrote. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"

static tg_status wrong(tg_error *err, const char *what, const char *expected, const tg_json_value *found) {
    return tg_attr_wrong(err, TG_E_RECIPE, "", what, expected, found);
}

/* A name into to(size); `what` says where it stands. */
static tg_status take_text(char *to, size_t size, const char *what, const tg_json_value *value,
                           tg_error *err) {
    char expected[64];
    if (value != NULL && value->kind == TG_JSON_STRING && value->size < size &&
        memchr(value->text, 0, value->size) == NULL) {
        memcpy(to, value->text, value->size + 1);
        return TG_OK;
    }
    snprintf(expected, sizeof expected, "text of at most %zu characters", size - 1);
    return wrong(err, what, expected, value);
}

static tg_status take_key(char *to, size_t size, const char *what, const tg_json_value *entry,
                          tg_error *err) {
    const tg_json_value key = {.kind = TG_JSON_STRING, .text = entry->key, .size = entry->key_size};
    return take_text(to, size, what, &key, err);
}

/* {"parameter of the step": "parameter of an earlier one"} */
static tg_status take_shared(tg_step_spec *spec, const tg_json_value *share, tg_error *err) {
    if (share != NULL && (share->kind != TG_JSON_OBJECT || share->count > TG_MAX_PARAMS))
        return wrong(err, "steps: share", "{name of its parameter: name of another's}", share);
    tg_status status = TG_OK;
    for (const tg_json_value *v = share == NULL ? NULL : share->first; status == TG_OK && v != NULL;
         v = v->next) {
        tg_share_spec *s = &spec->shared[spec->n_shared++];
        status = take_key(s->param, sizeof s->param, "steps: share", v, err);
        if (status == TG_OK) status = take_text(s->from, sizeof s->from, "steps: share", v, err);
    }
    return status;
}

static tg_status take_inputs(tg_step_spec *spec, const tg_json_value *in, tg_error *err) {
    char expected[64];
    snprintf(expected, sizeof expected, "a list of at most %d slot names", TG_MAX_IN);
    if (in == NULL || in->kind != TG_JSON_ARRAY || in->count > TG_MAX_IN)
        return wrong(err, "steps: in", expected, in);
    tg_status status = TG_OK;
    for (const tg_json_value *v = in->first; status == TG_OK && v != NULL; v = v->next, spec->n_in++)
        status = take_text(spec->in[spec->n_in], sizeof spec->in[0], "steps: in", v, err);
    return status;
}

static tg_status add_step(tg_model *model, const tg_json_value *step, tg_error *err) {
    tg_step_spec spec = {.attrs = tg_json_find(step, "attrs")};
    if (step->kind != TG_JSON_OBJECT) return wrong(err, "steps: every step", "an object", step);
    tg_status status = take_text(spec.op, sizeof spec.op, "steps: op", tg_json_find(step, "op"), err);
    if (status == TG_OK)
        status = take_text(spec.name, sizeof spec.name, "steps: name", tg_json_find(step, "name"), err);
    if (status == TG_OK)
        status = take_text(spec.out, sizeof spec.out, "steps: out", tg_json_find(step, "out"), err);
    if (status == TG_OK) status = take_inputs(&spec, tg_json_find(step, "in"), err);
    if (status == TG_OK) status = take_shared(&spec, tg_json_find(step, "share"), err);
    return status == TG_OK ? tg_model_add_step(model, &spec, err) : status;
}

tg_status tg_model_add_steps(tg_model *model, const tg_json_value *list, tg_error *err) {
    if (list == NULL || list->kind != TG_JSON_ARRAY)
        return wrong(err, "steps", "a list of steps of a model", list);
    tg_status status = TG_OK;
    for (const tg_json_value *v = list->first; status == TG_OK && v != NULL; v = v->next)
        status = add_step(model, v, err);
    return status;
}

static tg_status add_input(tg_model *model, const tg_json_value *input, tg_error *err) {
    enum { ROWS, COLUMNS, ATTRS };
    static const tg_attr attrs[ATTRS] = {
#define WORD(name, text, items, per) "|" #name
        [ROWS] = {"rows", TG_ATTR_CHOICE, .choices = &(TG_SPACE_LIST(WORD))[1]},
#undef WORD
        [COLUMNS] = {"columns", TG_ATTR_INT, .low = 1, .high = TG_MAX_INPUT_COLUMNS},
    };
    char name[TG_MAX_NAME], owner[TG_MAX_NAME + 8];
    tg_attr_value v[ATTRS];
    tg_status status = take_key(name, sizeof name, "inputs", input, err);
    if (status != TG_OK) return status;
    if (input->kind != TG_JSON_ARRAY || input->count != ATTRS)
        return tg_attr_wrong(err, TG_E_RECIPE, "inputs", name, "[rows, columns]", input);
    snprintf(owner, sizeof owner, "inputs: %s", name);
    status = tg_attr_read(&attrs[ROWS], input->first, owner, TG_E_RECIPE, &v[ROWS], err);
    if (status == TG_OK)
        status = tg_attr_read(&attrs[COLUMNS], input->first->next, owner, TG_E_RECIPE, &v[COLUMNS], err);
    if (status != TG_OK) return status;
    const tg_shape shape = {(tg_space)v[ROWS].number, (int)v[COLUMNS].number};
    return tg_model_add_input(model, name, shape, err);
}

static tg_status add_inputs(tg_model *model, const tg_json_value *inputs, tg_error *err) {
    if (inputs != NULL && inputs->kind != TG_JSON_OBJECT)
        return wrong(err, "inputs", "an object {name: [rows, columns]}", inputs);
    tg_status status = TG_OK;
    for (const tg_json_value *v = inputs == NULL ? NULL : inputs->first; status == TG_OK && v != NULL;
         v = v->next)
        status = add_input(model, v, err);
    return status;
}

static tg_status add_outputs(tg_model *model, const tg_json_value *list, tg_error *err) {
    if (list == NULL) return tg_model_add_output(model, "scores", err);
    if (list->kind != TG_JSON_ARRAY) return wrong(err, "outputs", "a list of slot names", list);
    tg_status status = TG_OK;
    for (const tg_json_value *v = list->first; status == TG_OK && v != NULL; v = v->next) {
        char name[TG_MAX_NAME];
        status = take_text(name, sizeof name, "outputs", v, err);
        if (status == TG_OK) status = tg_model_add_output(model, name, err);
    }
    return status;
}

tg_status tg_model_read(tg_model *model, const tg_json_value *inputs, const tg_json_value *steps,
                        const tg_json_value *outputs, tg_error *err) {
    tg_status status = add_inputs(model, inputs, err);
    if (status == TG_OK) status = tg_model_add_steps(model, steps, err);
    if (status == TG_OK) status = add_outputs(model, outputs, err);
    return status == TG_OK ? tg_model_finish(model, err) : status;
}
