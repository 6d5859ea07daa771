#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "score/described.h"

/* A name into to(size); `what` is the key that it stands under. */
static tg_status take_name(char *to, size_t size, const char *what, const char *text, size_t length,
                           tg_error *err) {
    if (text == NULL || length >= size || memchr(text, 0, length) != NULL) {
        char expected[80];
        snprintf(expected, sizeof expected, "text of at most %zu characters as a step's '%s'", size - 1,
                 what);
        return tg_fail_field(err, "steps", expected, "%s%.40s", text == NULL ? "none" : "",
                             text == NULL ? "" : text);
    }
    memcpy(to, text, length + 1);
    return TG_OK;
}

static tg_status take_text(char *to, size_t size, const char *what, const tg_json_value *value,
                           tg_error *err) {
    const int text = value != NULL && value->kind == TG_JSON_STRING;
    return take_name(to, size, what, text ? value->text : NULL, text ? value->size : 0, err);
}

static tg_status take_attr(tg_attr_value *to, const tg_json_value *value, tg_error *err) {
    *to = (tg_attr_value){.number = value->number, .is_word = value->kind == TG_JSON_STRING};
    tg_status status = take_name(to->key, sizeof to->key, "attrs", value->key, value->key_size, err);
    if (status != TG_OK) return status;
    if (to->is_word) return take_text(to->word, sizeof to->word, "attrs", value, err);
    const int truth = value->kind == TG_JSON_LITERAL && value->text[0] != 'n';
    if (truth) to->number = value->text[0] == 't';
    if (truth || value->kind == TG_JSON_NUMBER) return TG_OK;
    return tg_described_wrong(err, "steps", "numbers, truth values or text as 'attrs'", NULL, value);
}

/* {"name": value, ...}, of at most `most` entries, or nothing. */
static tg_status take_object(const tg_json_value *value, const char *what, int most, tg_error *err) {
    if (value == NULL || (value->kind == TG_JSON_OBJECT && value->count <= most)) return TG_OK;
    char expected[64];
    snprintf(expected, sizeof expected, "an object of at most %d entries as '%s'", most, what);
    return tg_described_wrong(err, "steps", expected, NULL, value);
}

static tg_status take_attrs(tg_step_spec *spec, const tg_json_value *attrs, tg_error *err) {
    tg_status status = take_object(attrs, "attrs", TG_MAX_ATTRS, err);
    for (const tg_json_value *v = attrs == NULL ? NULL : attrs->first; status == TG_OK && v != NULL;
         v = v->next)
        status = take_attr(&spec->attrs[spec->n_attrs++], v, err);
    return status;
}

/* {"parameter of the step": "parameter of an earlier one"} */
static tg_status take_shared(tg_step_spec *spec, const tg_json_value *share, tg_error *err) {
    tg_status status = take_object(share, "share", TG_MAX_PARAMS, err);
    for (const tg_json_value *v = share == NULL ? NULL : share->first; status == TG_OK && v != NULL;
         v = v->next) {
        tg_share_spec *s = &spec->shared[spec->n_shared++];
        status = take_name(s->param, sizeof s->param, "share", v->key, v->key_size, err);
        if (status == TG_OK) status = take_text(s->from, sizeof s->from, "share", v, err);
    }
    return status;
}

static tg_status take_inputs(tg_step_spec *spec, const tg_json_value *in, tg_error *err) {
    if (in == NULL || in->kind != TG_JSON_ARRAY || in->count > TG_MAX_IN)
        return tg_described_wrong(err, "steps", "a list of slot names as 'in', at most as many as ops take",
                                  NULL, in);
    tg_status status = TG_OK;
    for (const tg_json_value *v = in->first; status == TG_OK && v != NULL; v = v->next, spec->n_in++)
        status = take_text(spec->in[spec->n_in], sizeof spec->in[0], "in", v, err);
    return status;
}

static tg_status add_step(tg_model *model, const tg_json_value *step, tg_error *err) {
    tg_step_spec spec = {.n_in = 0};
    if (step->kind != TG_JSON_OBJECT)
        return tg_described_wrong(err, "steps", "an object for each", NULL, step);
    tg_status status = take_text(spec.op, sizeof spec.op, "op", tg_json_find(step, "op"), err);
    if (status == TG_OK)
        status = take_text(spec.name, sizeof spec.name, "name", tg_json_find(step, "name"), err);
    if (status == TG_OK) status = take_text(spec.out, sizeof spec.out, "out", tg_json_find(step, "out"), err);
    if (status == TG_OK) status = take_inputs(&spec, tg_json_find(step, "in"), err);
    if (status == TG_OK) status = take_attrs(&spec, tg_json_find(step, "attrs"), err);
    if (status == TG_OK) status = take_shared(&spec, tg_json_find(step, "share"), err);
    return status == TG_OK ? tg_model_add_step(model, &spec, err) : status;
}

tg_status tg_described_model(tg_model *model, const tg_json_value *list, tg_error *err) {
    if (list == NULL || list->kind != TG_JSON_ARRAY)
        return tg_described_wrong(err, "steps", "a list of steps of a model", NULL, list);
    for (const tg_json_value *v = list->first; v != NULL; v = v->next) {
        const tg_status status = add_step(model, v, err);
        if (status != TG_OK) return status;
    }
    const tg_status status = tg_model_add_output(model, "scores", err);
    return status == TG_OK ? tg_model_finish(model, err) : status;
}
