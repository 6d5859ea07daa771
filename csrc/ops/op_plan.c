/* The table of ops; attributes and inputs of a step checked against what its op says about itself. */
#include <stdio.h>
#include <string.h>

#include "ops/op.h"

const tg_op *const tg_ops[] = {
#define TG_ENTRY(name) &tg_op_##name,
    TG_OP_LIST(TG_ENTRY)
#undef TG_ENTRY
        NULL};

const tg_op *tg_find_op(const char *name) {
    for (int i = 0; tg_ops[i] != NULL; i++)
        if (strcmp(tg_ops[i]->name, name) == 0) return tg_ops[i];
    return NULL;
}

const char *tg_space_name(tg_space space) {
    static const char *const names[] = {
#define TEXT(name, text, items, per) [TG_SPACE_##name] = text,
        TG_SPACE_LIST(TEXT)
#undef TEXT
    };
    return names[space];
}

void tg_space_names(unsigned spaces, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int s = 0; s < TG_SPACES; s++)
        if (spaces >> s & 1u && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? " or " : "",
                                   tg_space_name((tg_space)s));
}

int tg_op_most_in(const tg_op *op) {
    int n = 0;
    while (n < TG_MAX_IN && op->inputs[n].name != NULL) n++;
    return n;
}

int tg_op_least_in(const tg_op *op) {
    int n = 0;
    while (n < TG_MAX_IN && op->inputs[n].name != NULL && !op->inputs[n].optional) n++;
    return n;
}

static void write_attr(const tg_attr *attr, void *attrs, double value) {
    char *at = (char *)attrs + attr->offset;
    TG_ASSERT(attr->offset + sizeof value <= TG_ATTR_BYTES);
    if (attr->kind == TG_ATTR_REAL) {
        memcpy(at, &value, sizeof value);
    } else {
        const int whole = (int)value;
        memcpy(at, &whole, sizeof whole);
    }
}

tg_status tg_op_attrs(const tg_op *op, const tg_json_value *object, const char *owner, void *attrs,
                      tg_error *err) {
    tg_attr_value values[TG_MAX_ATTRS];
    memset(attrs, 0, TG_ATTR_BYTES);
    const tg_status status =
        tg_attrs_read(op->attrs, TG_MAX_ATTRS, object, NULL, owner, TG_E_RECIPE, values, err);
    for (int i = 0; status == TG_OK && i < tg_attrs_count(op->attrs, TG_MAX_ATTRS); i++)
        write_attr(&op->attrs[i], attrs, values[i].number);
    return status;
}

int tg_shared_cols(const tg_op_plan *plan, const char *name, int otherwise) {
    for (const tg_param_spec *p = plan->shared; p != NULL && p->name != NULL; p++)
        if (strcmp(p->name, name) == 0) return p->cols;
    return otherwise;
}

static tg_status check_inputs(const tg_op *op, const tg_op_plan *plan, tg_error *err) {
    const int least = tg_op_least_in(op), most = tg_op_most_in(op);
    if (least == most && plan->n_in != most)
        return tg_fail(err, TG_E_RECIPE, "takes %d input%s, got %d", most, TG_S(most), plan->n_in);
    if (plan->n_in < least || plan->n_in > most)
        return tg_fail(err, TG_E_RECIPE, "takes %d to %d inputs, got %d", least, most, plan->n_in);
    for (int i = 0; i < plan->n_in; i++) {
        if (op->inputs[i].spaces >> plan->in[i].space & 1u) continue;
        char wanted[160];
        tg_space_names(op->inputs[i].spaces, wanted, sizeof wanted);
        return tg_fail(err, TG_E_RECIPE, "input '%s' must have one row per %s, found one per %s",
                       op->inputs[i].name, wanted, tg_space_name(plan->in[i].space));
    }
    return TG_OK;
}

/* Whether the attribute of a step has the choice that its parameter goes with. */
static int chosen(const tg_attr *spec, const void *attrs) {
    int value;
    memcpy(&value, (const char *)attrs + spec->offset, sizeof value);
    return value == tg_attr_choice(spec->choices, spec->choice);
}

/* Name the parameters of the step; those go that belong to choices of attributes which were not made. */
static void name_params(const tg_op *op, tg_op_plan *plan) {
    for (int i = 0; i < TG_MAX_PARAMS; i++) {
        TG_ASSERT(plan->params[i].rows == 0 || op->params[i] != NULL);
        plan->params[i].name = plan->params[i].rows > 0 ? op->params[i] : NULL;
        for (int j = 0; j < tg_attrs_count(op->attrs, TG_MAX_ATTRS) && plan->params[i].name != NULL; j++) {
            const tg_attr *attr = &op->attrs[j];
            if (attr->param != NULL && strcmp(attr->param, op->params[i]) == 0 && !chosen(attr, plan->attrs))
                plan->params[i] = (tg_param_spec){.name = NULL};
        }
    }
}

/* An op that combines the rows of a graph has all of them, or all of its configurable nodes; statistics for a norm are
   those of all nodes. Inputs that take other named spaces have been checked. */
static tg_status check_graph(const tg_op *op, const tg_op_plan *plan, tg_error *err) {
    const unsigned fine = plan->needs_stats ? TG_IN_NODES : TG_IN_NODES | TG_IN_CONFIG_NODES;
    for (int i = 0; i < plan->n_in && (plan->flags & TG_PER_GRAPH); i++)
        if ((op->inputs[i].spaces == TG_IN_ANY || plan->needs_stats) && !(fine >> plan->in[i].space & 1u))
            return tg_fail(err, TG_E_RECIPE,
                           "combines the rows of all nodes of a graph: give it rows per node, not per %s",
                           tg_space_name(plan->in[i].space));
    return TG_OK;
}

/* Parameters that are shared must have the shape the op wants. */
static tg_status check_shared(const tg_op_plan *plan, tg_error *err) {
    for (const tg_param_spec *s = plan->shared; s != NULL && s->name != NULL; s++) {
        int at = 0;
        while (at < TG_MAX_PARAMS &&
               (plan->params[at].name == NULL || strcmp(plan->params[at].name, s->name) != 0))
            at++;
        if (at == TG_MAX_PARAMS) return tg_fail(err, TG_E_RECIPE, "has no parameter '%s' to share", s->name);
        const tg_param_spec *p = &plan->params[at];
        if (p->rows != s->rows || p->cols != s->cols)
            return tg_fail(err, TG_E_RECIPE, "the shared '%s' must have the shape (%d, %d), found (%d, %d)",
                           s->name, p->rows, p->cols, s->rows, s->cols);
    }
    return TG_OK;
}

/* Declarations that an op must not make. */
static void check_own(const tg_op *op, const tg_op_plan *plan) {
    int saves = 0;
    for (int j = 0; j < TG_MAX_SAVED; j++) saves |= plan->saved[j].cols != 0;
    const int fused = plan->pulls || plan->recompute || plan->makes_stats || plan->needs_stats;
    TG_ASSERT(plan->out.space < TG_SPACES && plan->inplace_in < plan->n_in);
    TG_ASSERT(!saves || (!plan->recompute && plan->saved[0].cols != 0));
    TG_ASSERT(!plan->pulls || plan->n_in > 0);
    TG_ASSERT(!fused || !op->forward[0].by_config);
    (void)saves, (void)fused, (void)op;
}

tg_status tg_plan_op(const tg_op *op, tg_op_plan *plan, tg_error *err) {
    enum { MOST_COLUMNS = 1 << 20 };
    plan->inplace_in = -1;
    plan->flags = op->flags;
    tg_status status = check_inputs(op, plan, err);
    if (status == TG_OK) status = op->plan(plan, err);
    if (status == TG_OK) status = check_graph(op, plan, err);
    if (status == TG_OK) name_params(op, plan);
    if (status == TG_OK) check_own(op, plan);
    if (status == TG_OK) status = check_shared(plan, err);
    if (status == TG_OK && (plan->out.cols < 1 || plan->out.cols > MOST_COLUMNS))
        status = tg_fail(err, TG_E_RECIPE, "the result would have more than %d columns", MOST_COLUMNS);
    return status;
}
