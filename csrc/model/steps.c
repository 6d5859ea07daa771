/* Steps of a model as a text in JSON describes them: a ranker's file, or what a caller wrote. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"

static tg_status wrong(tg_error *err, const char *what, const char *expected, const tg_json_value *found) {
    return tg_attr_wrong(err, TG_E_RECIPE, "steps", what, expected, found);
}

/* A name into to(size); `what` is the key that it stands under. */
static tg_status take_name(char *to, size_t size, const char *what, const char *text, size_t length,
                           const tg_json_value *found, tg_error *err) {
    char expected[64];
    if (text != NULL && length < size && memchr(text, 0, length) == NULL) {
        memcpy(to, text, length + 1);
        return TG_OK;
    }
    snprintf(expected, sizeof expected, "text of at most %zu characters", size - 1);
    return wrong(err, what, expected, found);
}

static tg_status take_text(char *to, size_t size, const char *what, const tg_json_value *value,
                           tg_error *err) {
    const int text = value != NULL && value->kind == TG_JSON_STRING;
    return take_name(to, size, what, text ? value->text : NULL, text ? value->size : 0, value, err);
}

/* {"parameter of the step": "parameter of an earlier one"} */
static tg_status take_shared(tg_step_spec *spec, const tg_json_value *share, tg_error *err) {
    if (share != NULL && (share->kind != TG_JSON_OBJECT || share->count > TG_MAX_PARAMS))
        return wrong(err, "share", "{name of its parameter: name of another's}", share);
    tg_status status = TG_OK;
    for (const tg_json_value *v = share == NULL ? NULL : share->first; status == TG_OK && v != NULL;
         v = v->next) {
        tg_share_spec *s = &spec->shared[spec->n_shared++];
        status = take_name(s->param, sizeof s->param, "share", v->key, v->key_size, v, err);
        if (status == TG_OK) status = take_text(s->from, sizeof s->from, "share", v, err);
    }
    return status;
}

static tg_status take_inputs(tg_step_spec *spec, const tg_json_value *in, tg_error *err) {
    char expected[64];
    snprintf(expected, sizeof expected, "a list of at most %d slot names", TG_MAX_IN);
    if (in == NULL || in->kind != TG_JSON_ARRAY || in->count > TG_MAX_IN)
        return wrong(err, "in", expected, in);
    tg_status status = TG_OK;
    for (const tg_json_value *v = in->first; status == TG_OK && v != NULL; v = v->next, spec->n_in++)
        status = take_text(spec->in[spec->n_in], sizeof spec->in[0], "in", v, err);
    return status;
}

static tg_status add_step(tg_model *model, const tg_json_value *step, tg_error *err) {
    tg_step_spec spec = {.attrs = tg_json_find(step, "attrs")};
    if (step->kind != TG_JSON_OBJECT) return wrong(err, "every step", "an object", step);
    tg_status status = take_text(spec.op, sizeof spec.op, "op", tg_json_find(step, "op"), err);
    if (status == TG_OK)
        status = take_text(spec.name, sizeof spec.name, "name", tg_json_find(step, "name"), err);
    if (status == TG_OK) status = take_text(spec.out, sizeof spec.out, "out", tg_json_find(step, "out"), err);
    if (status == TG_OK) status = take_inputs(&spec, tg_json_find(step, "in"), err);
    if (status == TG_OK) status = take_shared(&spec, tg_json_find(step, "share"), err);
    return status == TG_OK ? tg_model_add_step(model, &spec, err) : status;
}

tg_status tg_model_add_steps(tg_model *model, const tg_json_value *list, tg_error *err) {
    if (list == NULL || list->kind != TG_JSON_ARRAY)
        return tg_attr_wrong(err, TG_E_RECIPE, "", "steps", "a list of steps of a model", list);
    tg_status status = TG_OK;
    for (const tg_json_value *v = list->first; status == TG_OK && v != NULL; v = v->next)
        status = add_step(model, v, err);
    return status;
}
