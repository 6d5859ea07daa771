#include "model/model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

enum { MOST_WEIGHTS = 1 << 28 };

static tg_slot *add_slot(tg_model *m, const char *name, tg_shape shape, int producer) {
    tg_slot *slot = &m->slots[m->n_slots++];
    *slot = (tg_slot){.shape = shape, .producer = producer};
    snprintf(slot->name, sizeof slot->name, "%s", name);
    return slot;
}

tg_model *tg_model_new(const tg_model_sizes *sizes) {
    static atomic_uint_fast64_t made = 0;
    TG_ASSERT(sizes->node_features >= 0 && sizes->config_features >= 0 && sizes->graph_features >= 0);
    tg_model *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->number = ++made;
    m->digit_cols = sizes->digit_cols;
    m->digit_rows = sizes->digit_rows;
    add_slot(m, "node_feat", (tg_shape){TG_SPACE_NODE, sizes->node_features}, -1);
    add_slot(m, "config_feat", (tg_shape){TG_SPACE_CONFIG, sizes->config_features}, -1);
    add_slot(m, "graph_feat", (tg_shape){TG_SPACE_SLATE, sizes->graph_features}, -1);
    m->n_inputs = m->n_slots;
    m->scores = -1;
    return m;
}

void tg_model_free(tg_model *m) {
    if (m == NULL) return;
    tg_aligned_free(m->weights);
    free(m);
}

int tg_model_find_slot(const tg_model *m, const char *name) {
    for (int i = 0; i < m->n_slots; i++)
        if (strcmp(m->slots[i].name, name) == 0) return i;
    return -1;
}

static int find_param(const tg_model *m, const char *name) {
    for (int i = 0; i < m->n_params; i++)
        if (strcmp(m->params[i].name, name) == 0) return i;
    return -1;
}

tg_status tg_model_add_input(tg_model *m, const char *name, tg_shape shape, tg_error *err) {
    if (m->n_steps > 0 || m->n_inputs == TG_MAX_INPUTS)
        return tg_fail(err, TG_E_RECIPE, "a model has at most %d inputs, given before its steps",
                       TG_MAX_INPUTS);
    if (tg_model_find_slot(m, name) >= 0)
        return tg_fail(err, TG_E_RECIPE, "input '%.60s' is there twice", name);
    if (strcmp(name, "digits") == 0)
        return tg_fail(err, TG_E_RECIPE, "input 'digits': the digits of configs come from the graphs");
    if (shape.space == TG_SPACE_UNIQUE)
        return tg_fail(err, TG_E_RECIPE,
                       "input '%.60s': unique cells are counted when a batch is bound; feed rows of "
                       "CONFIG_NODE_CONFIG, one per cell",
                       name);
    if (shape.cols < 1 || shape.cols > TG_MAX_INPUT_COLUMNS)
        return tg_fail(err, TG_E_RECIPE, "input '%.60s': expected 1..%d columns, got %d", name,
                       TG_MAX_INPUT_COLUMNS, shape.cols);
    add_slot(m, name, shape, -1);
    m->n_inputs = m->n_slots;
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
    for (int i = 0; i < spec->n_in; i++) {
        const int slot = step->in[i] = tg_model_find_slot(m, spec->in[i]);
        if (slot < 0) return tg_fail(err, TG_E_RECIPE, "no earlier step makes '%.60s'", spec->in[i]);
        if (m->slots[slot].shape.cols == 0)
            return tg_fail(err, TG_E_RECIPE, "the model has no %s: give its columns", m->slots[slot].name);
        m->slots[slot].used = 1;
        step->info.in[i] = m->slots[slot].shape;
        m->unlike |= (step->op->flags & TG_NEEDS_UNIQUE) && m->slots[slot].shape.space == TG_SPACE_NODE &&
                     slot != TG_SLOT_NODE_FEAT;
    }
    step->n_in = step->info.n_in = spec->n_in;
    if (tg_model_find_slot(m, spec->out) >= 0)
        return tg_fail(err, TG_E_RECIPE, "'%.60s' is made twice", spec->out);
    for (int i = 0; i < m->n_steps; i++)
        if (strcmp(m->steps[i].name, spec->name) == 0)
            return tg_fail(err, TG_E_RECIPE, "the name is used twice");
    return tg_op_attrs(step->op, spec->attrs, "", step->attrs, err);
}

/* Shapes of the parameters that the step takes from others. */
static tg_status find_shared(const tg_model *m, const tg_step_spec *spec, tg_param_spec *shared, int *from,
                             tg_error *err) {
    for (int i = 0; i < spec->n_shared; i++) {
        from[i] = find_param(m, spec->shared[i].from);
        if (from[i] < 0)
            return tg_fail(err, TG_E_RECIPE, "cannot share '%.100s' as its %.60s: no earlier step has it",
                           spec->shared[i].from, spec->shared[i].param);
        const tg_param *p = &m->params[from[i]];
        shared[i] = (tg_param_spec){.name = spec->shared[i].param, .rows = p->rows, .cols = p->cols};
    }
    shared[spec->n_shared].name = NULL;
    return TG_OK;
}

static int shared_as(const tg_step_spec *spec, const char *name) {
    for (int i = 0; i < spec->n_shared; i++)
        if (strcmp(spec->shared[i].param, name) == 0) return i;
    return -1;
}

static tg_status add_params(tg_model *m, const tg_step_spec *spec, tg_step *step, const int *from,
                            tg_error *err) {
    for (int i = 0; i < TG_MAX_PARAMS; i++) {
        const tg_param_spec *p = &step->info.params[i];
        step->param[i] = -1;
        if (p->name == NULL) continue;
        const int shared = shared_as(spec, p->name);
        if (shared >= 0) {
            step->param[i] = from[shared];
            continue;
        }
        tg_param *param = &m->params[m->n_params];
        const int64_t size = tg_param_floats(p->rows, p->cols);
        if (m->n_params == TG_MAX_MODEL_PARAMS)
            return tg_fail(err, TG_E_RECIPE, "a model has at most %d parameters", TG_MAX_MODEL_PARAMS);
        if (m->P + size > MOST_WEIGHTS) return tg_fail(err, TG_E_RECIPE, "a model has at most 2^28 weights");
        *param =
            (tg_param){.rows = p->rows, .cols = p->cols, .offset = m->P, .init = p->init, .value = p->value};
        snprintf(param->name, sizeof param->name, "%s.%s", spec->name, p->name);
        m->P += size;
        step->param[i] = m->n_params++;
    }
    return TG_OK;
}

/* What fusion allows. */
static tg_status check_plan(const tg_model *m, const tg_step_spec *spec, const tg_step *step, tg_error *err) {
    const tg_op_plan *info = &step->info;
    if (info->needs_stats && !m->slots[step->in[0]].has_stats)
        return tg_fail(err, TG_E_RECIPE, "norm needs the statistics of '%.60s': set stats where it is made",
                       spec->in[0]);
    return TG_OK;
}

static tg_status plan_step(tg_model *m, const tg_step_spec *spec, tg_step *step, tg_error *err) {
    tg_param_spec shared[TG_MAX_PARAMS + 1];
    int from[TG_MAX_PARAMS];
    tg_status status = find_shared(m, spec, shared, from, err);
    if (status != TG_OK) return status;
    step->info.attrs = step->attrs;
    step->info.digit_cols = m->digit_cols;
    step->info.digit_rows = m->digit_rows;
    step->info.shared = shared;
    status = tg_plan_op(step->op, &step->info, err);
    step->info.shared = NULL;
    if (status == TG_OK) status = check_plan(m, spec, step, err);
    if (status == TG_OK) status = add_params(m, spec, step, from, err);
    return status;
}

tg_status tg_model_add_step(tg_model *m, const tg_step_spec *spec, tg_error *err) {
    if (m->n_steps == TG_MAX_STEPS)
        return tg_fail(err, TG_E_RECIPE, "a model has at most %d steps", TG_MAX_STEPS);
    TG_ASSERT(spec->n_in >= 0 && spec->n_in <= TG_MAX_IN && spec->n_shared >= 0 &&
              spec->n_shared <= TG_MAX_PARAMS);
    tg_step *step = &m->steps[m->n_steps];
    memset(step, 0, sizeof *step);
    step->op = tg_find_op(spec->op);
    if (step->op == NULL) return in_step(spec, err, tg_fail(err, TG_E_RECIPE, "there is no such op"));
    snprintf(step->name, sizeof step->name, "%s", spec->name);
    tg_status status = connect(m, spec, step, err);
    if (status == TG_OK) status = plan_step(m, spec, step, err);
    if (status != TG_OK) return in_step(spec, err, status);
    step->out = m->n_slots;
    tg_slot *out = add_slot(m, spec->out, step->info.out, m->n_steps);
    out->has_stats = step->info.makes_stats;
    out->joins_nodes = (step->info.flags & TG_PER_GRAPH) != 0;
    for (int i = 0; i < step->n_in; i++) out->joins_nodes |= m->slots[step->in[i]].joins_nodes;
    m->flags |= step->info.flags;
    m->per_graph |=
        out->joins_nodes && out->shape.space != TG_SPACE_CONFIG && out->shape.space != TG_SPACE_SLATE;
    m->per_config |= step->info.out.space == TG_SPACE_NODE_CONFIG ||
                     step->info.out.space == TG_SPACE_CONFIG_NODE_CONFIG ||
                     step->info.out.space == TG_SPACE_EDGE_CONFIG;
    m->n_steps++;
    return TG_OK;
}

tg_status tg_model_add_output(tg_model *m, const char *name, tg_error *err) {
    const int slot = tg_model_find_slot(m, name);
    if (slot < m->n_inputs) return tg_fail(err, TG_E_RECIPE, "no step makes '%.60s'", name);
    m->slots[slot].output = 1;
    if (strcmp(name, "scores") != 0) return TG_OK;
    const tg_shape shape = m->slots[slot].shape;
    if (shape.space != TG_SPACE_CONFIG || shape.cols != 1)
        return tg_fail(err, TG_E_RECIPE, "'scores' must have one row per config and one column");
    if (m->slots[slot].used) return tg_fail(err, TG_E_RECIPE, "'scores' is used as an input");
    m->scores = slot;
    return TG_OK;
}

/* Parameter i, element j, always draws the same number for a seed. Normal: Box-Muller. */
static void initialise(const tg_model *m, uint64_t seed) {
    for (int i = 0; i < m->n_params; i++) {
        const tg_param *p = &m->params[i];
        const int64_t size = tg_param_floats(p->rows, p->cols);
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

float *tg_model_vectors(const tg_model *m, int vectors, int64_t *stride) {
    enum { PAGE = 4096 };
    TG_ASSERT(vectors >= 1);
    const int64_t bytes = ((m->P * (int64_t)sizeof(float) + PAGE - 1) & -(int64_t)PAGE) + PAGE / 4;
    float *block = tg_aligned_alloc((size_t)vectors * (size_t)bytes);
    *stride = bytes / (int64_t)sizeof(float);
    if (block != NULL) memset(block, 0, (size_t)vectors * (size_t)bytes);
    return block;
}

tg_status tg_model_finish(const tg_model *m, tg_error *err) {
    for (int i = m->n_inputs; i < m->n_slots; i++)
        if (!m->slots[i].used && !m->slots[i].output)
            return tg_fail(err, TG_E_RECIPE, "'%s' is never used", m->slots[i].name);
    return TG_OK;
}

tg_status tg_model_draw(tg_model *m, uint64_t seed, tg_error *err) {
    int64_t stride;
    TG_ASSERT(m->weights == NULL);
    m->weights = tg_model_vectors(m, 1, &stride);
    if (m->weights == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld parameters", (long long)m->P);
    initialise(m, seed);
    return TG_OK;
}
