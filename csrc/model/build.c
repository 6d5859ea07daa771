#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MOST_PARAMETERS = 1 << 28, MOST_COLUMNS = 1 << 20 };

static void add_input(tg_model *m, const char *name, tg_shape shape) {
    tg_slot *slot = &m->slots[m->n_slots++];
    *slot = (tg_slot){.shape = shape, .producer = -1};
    snprintf(slot->name, sizeof slot->name, "%s", name);
}

tg_model *tg_model_new(int node_features, int config_features) {
    tg_model *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    add_input(m, "node_feat", (tg_shape){TG_SPACE_NODE, node_features});
    add_input(m, "config_feat", (tg_shape){TG_SPACE_CONFIG, config_features});
    m->scores = -1;
    return m;
}

void tg_model_free(tg_model *m) {
    if (m == NULL) return;
    tg_aligned_free(m->weights);
    tg_arena_free(&m->arena);
    free(m);
}

static int find_slot(const tg_model *m, const char *name) {
    for (int i = 0; i < m->n_slots; i++)
        if (strcmp(m->slots[i].name, name) == 0) return i;
    return -1;
}

static int find_param(const tg_model *m, const char *name) {
    for (int i = 0; i < m->n_params; i++)
        if (strcmp(m->params[i].name, name) == 0) return i;
    return -1;
}

/* Position of `word` in "none|relu|gelu", or -1. */
static int choice(const char *choices, const char *word) {
    const size_t length = strlen(word);
    for (int i = 0; choices != NULL; i++) {
        const char *end = strchr(choices, '|');
        const size_t size = end == NULL ? strlen(choices) : (size_t)(end - choices);
        if (size == length && memcmp(choices, word, size) == 0) return i;
        choices = end == NULL ? NULL : end + 1;
    }
    return -1;
}

tg_status tg_resolve_attrs(const tg_op *op, int n, const tg_attr_value *values, double *attr, tg_error *err) {
    int count = 0;
    while (count < TG_MAX_ATTRS && op->attrs[count].name != NULL) {
        attr[count] = op->attrs[count].fallback;
        count++;
    }
    for (int i = 0; i < n; i++) {
        const tg_attr_value *v = &values[i];
        int at = 0;
        while (at < count && strcmp(op->attrs[at].name, v->key) != 0) at++;
        if (at == count) return tg_fail(err, TG_E_RECIPE, "op %s has no attribute '%s'", op->name, v->key);
        const tg_attr_spec *spec = &op->attrs[at];
        if (spec->choices == NULL) {
            if (v->is_word || !(fabs(v->number) <= INT32_MAX) ||
                (!spec->real && v->number != floor(v->number)))
                return tg_fail(err, TG_E_RECIPE, "op %s: attribute '%s' must be a %s number", op->name,
                               v->key, spec->real ? "finite" : "whole");
            attr[at] = v->number;
        } else {
            const int chosen = v->is_word ? choice(spec->choices, v->word) : -1;
            if (chosen < 0)
                return tg_fail(err, TG_E_RECIPE, "op %s: attribute '%s' must be one of %s", op->name, v->key,
                               spec->choices);
            attr[at] = chosen;
        }
    }
    return TG_OK;
}

static tg_status in_step(const tg_step_spec *spec, tg_error *err, tg_status status) {
    if (err == NULL) return status;
    char text[sizeof err->message];
    memcpy(text, err->message, sizeof text);
    snprintf(err->message, sizeof err->message, "step '%.60s' (%.60s): %.360s", spec->name, spec->op, text);
    return status;
}

static tg_status connect(tg_model *m, const tg_step_spec *spec, tg_step *step, tg_error *err) {
    const tg_op *op = step->op;
    if (spec->n_in < op->min_in || spec->n_in > op->max_in)
        return tg_fail(err, TG_E_RECIPE, "takes %d to %d inputs, got %d", op->min_in, op->max_in, spec->n_in);
    for (int i = 0; i < spec->n_in; i++) {
        step->in[i] = find_slot(m, spec->in[i]);
        if (step->in[i] == TG_SLOT_CONFIG_FEAT && m->slots[step->in[i]].shape.cols == 0)
            return tg_fail(err, TG_E_RECIPE, "the model has no config features: give config_features");
        if (step->in[i] < 0) return tg_fail(err, TG_E_RECIPE, "no earlier step makes '%.60s'", spec->in[i]);
        m->slots[step->in[i]].used = 1;
        step->info.in[i] = m->slots[step->in[i]].shape;
    }
    step->n_in = step->info.n_in = spec->n_in;
    if (find_slot(m, spec->out) >= 0) return tg_fail(err, TG_E_RECIPE, "'%.60s' is made twice", spec->out);
    for (int i = 0; i < m->n_steps; i++)
        if (strcmp(m->steps[i].name, spec->name) == 0)
            return tg_fail(err, TG_E_RECIPE, "the name is used twice");
    return tg_resolve_attrs(op, spec->n_attrs, spec->attrs, step->attr, err);
}

static tg_status add_params(tg_model *m, const tg_step_spec *spec, tg_step *step, int shared, tg_error *err) {
    step->n_params = step->info.n_params;
    for (int i = 0; i < step->n_params; i++) {
        const tg_param_spec *p = &step->info.params[i];
        if (shared >= 0 && i == step->op->wants_table) {
            step->param[i] = shared;
            continue;
        }
        tg_param *param = &m->params[m->n_params];
        const int64_t size = (int64_t)p->rows * (p->cols == 0 ? 1 : p->cols);
        if (m->P + size > MOST_PARAMETERS)
            return tg_fail(err, TG_E_RECIPE, "the model has more than 2^28 parameters");
        *param =
            (tg_param){.rows = p->rows, .cols = p->cols, .offset = m->P, .init = p->init, .value = p->value};
        snprintf(param->name, sizeof param->name, "%s.%s", spec->name, p->name);
        m->P += size;
        step->param[i] = m->n_params++;
    }
    return TG_OK;
}

tg_status tg_model_add_step(tg_model *m, const tg_step_spec *spec, tg_error *err) {
    if (m->n_steps == TG_MAX_STEPS)
        return tg_fail(err, TG_E_RECIPE, "a model has at most %d steps", TG_MAX_STEPS);
    tg_step *step = &m->steps[m->n_steps];
    memset(step, 0, sizeof *step);
    step->op = tg_find_op(spec->op);
    if (step->op == NULL) return in_step(spec, err, tg_fail(err, TG_E_RECIPE, "there is no such op"));
    snprintf(step->name, sizeof step->name, "%s", spec->name);
    tg_status status = connect(m, spec, step, err);
    if (status != TG_OK) return in_step(spec, err, status);

    int shared = -1;
    if (spec->table[0] != '\0') {
        shared = find_param(m, spec->table);
        if (step->op->wants_table < 0 || shared < 0 || m->params[shared].cols == 0)
            return in_step(spec, err,
                           tg_fail(err, TG_E_RECIPE, "cannot share '%.100s' as its table", spec->table));
        step->info.table_cols = m->params[shared].cols;
    }
    step->info.attr = step->attr;
    step->info.inplace_in = -1;
    status = step->op->plan(&step->info, err);
    if (status == TG_OK && (step->info.out.cols < 1 || step->info.out.cols > MOST_COLUMNS))
        status = tg_fail(err, TG_E_RECIPE, "the result would have more than %d columns", MOST_COLUMNS);
    if (status == TG_OK && shared >= 0 &&
        m->params[shared].rows != step->info.params[step->op->wants_table].rows)
        status = tg_fail(err, TG_E_RECIPE, "the shared table must have %d rows",
                         step->info.params[step->op->wants_table].rows);
    if (status == TG_OK && step->info.needs_stats && !m->slots[step->in[0]].has_stats)
        status = tg_fail(err, TG_E_RECIPE, "norm needs the statistics of '%.60s': set stats where it is made",
                         spec->in[0]);
    if (status == TG_OK) status = add_params(m, spec, step, shared, err);
    if (status != TG_OK) return in_step(spec, err, status);

    tg_slot *slot = &m->slots[m->n_slots];
    *slot = (tg_slot){.shape = step->info.out, .producer = m->n_steps, .has_stats = step->info.makes_stats};
    snprintf(slot->name, sizeof slot->name, "%s", spec->out);
    step->out = m->n_slots++;
    m->n_steps++;
    return TG_OK;
}

/* Parameter i, element j, always draws the same number for a seed. Normal: Box-Muller. */
static void initialise(const tg_model *m, uint64_t seed) {
    for (int i = 0; i < m->n_params; i++) {
        const tg_param *p = &m->params[i];
        const int64_t size = (int64_t)p->rows * (p->cols == 0 ? 1 : p->cols);
        const uint64_t key = tg_key(tg_key(seed, 0x1a17), (uint64_t)i);
        for (int64_t j = 0; j < size; j++) {
            double value = 1;
            if (p->init == TG_INIT_UNIFORM) value = 2 * tg_uniform(key, (uint64_t)j) - 1;
            if (p->init == TG_INIT_NORMAL)
                value = sqrt(-2 * log(1 - tg_uniform(key, 2 * (uint64_t)j))) *
                        cos(6.283185307179586 * tg_uniform(key, 2 * (uint64_t)j + 1));
            m->weights[p->offset + j] = (float)(value * (double)p->value);
        }
    }
}

tg_status tg_model_finish(tg_model *m, uint64_t seed, tg_error *err) {
    m->scores = find_slot(m, "scores");
    if (m->scores < TG_EXTERNAL_SLOTS) return tg_fail(err, TG_E_RECIPE, "no step makes 'scores'");
    const tg_shape shape = m->slots[m->scores].shape;
    if (shape.space != TG_SPACE_CONFIG || shape.cols != 1)
        return tg_fail(err, TG_E_RECIPE, "'scores' must have one row per config and one column");
    for (int i = TG_EXTERNAL_SLOTS; i < m->n_slots; i++)
        if (!m->slots[i].used != (i == m->scores))
            return tg_fail(err, TG_E_RECIPE, "'%s' is %s", m->slots[i].name,
                           i == m->scores ? "used as an input" : "never used");
    /* Four vectors of P floats, each starting on a cache line, and not a multiple of a page apart: the optimizer
       goes through all of them at once, and a load that agrees with an earlier store in its low bits waits. */
    enum { PAGE = 4096 };
    const int64_t stride =
        (((m->P * (int64_t)sizeof(float) + PAGE - 1) & -(int64_t)PAGE) + PAGE / 4) / (int64_t)sizeof(float);
    m->weights = tg_aligned_alloc(4 * (size_t)stride * sizeof(float));
    if (m->weights == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld parameters", (long long)m->P);
    memset(m->weights, 0, 4 * (size_t)stride * sizeof(float));
    m->grads = m->weights + stride;
    m->moment1 = m->grads + stride;
    m->moment2 = m->moment1 + stride;
    initialise(m, seed);
    for (int i = 0; i < TG_PLANS; i++) tg_plan_make(&m->plans[i], m, (tg_plan_kind)i);
    return TG_OK;
}
