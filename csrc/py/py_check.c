/* Whether the core was built with its own checks, and faults on purpose that show that they work. */
#include "py/pycore.h"

#include <string.h>

#include "base/check.h"

#ifdef TG_CHECKED
#include "base/parallel.h"
#include "base/attr.h"
#include "model/run.h"

/* Where an op or a loss writes too much; of "assert", a precondition is broken instead. */
#define PLACES "shared|partial|scratch|slot|tile|configs|loss|assert"
enum { SLOT = TG_MEMORIES, TILE, CONFIGS, LOSS, ASSERT };

enum { FLOATS = 20 };

typedef struct attrs {
    int place, past;
} attrs;

typedef struct room {
    float *places[TG_MEMORIES];
} room;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){TG_SPACE_NODE, 1};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)e, (void)back;
    for (int i = 0; i < TG_MEMORIES; i++) ((room *)to)->places[i] = tg_carve(c, (tg_memory)i, FLOATS);
}

static void overwrite(char *end, int past) {
    volatile char *at = end;
    for (int i = 0; i < past; i++) at[i] = 1;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const tg_slate *s = e->slate;
    for (int i = 0; i < t->rows; i++) y[i] = 1;
    char *end = (char *)(y + t->rows);
    if (a->place < TG_MEMORIES) end = (char *)(((const room *)e->room)->places[a->place] + FLOATS);
    if (a->place == CONFIGS) end = (char *)(uintptr_t)s->digits + (int64_t)s->C * s->K * s->digit_cols;
    overwrite(end, a->past);
}

static const tg_op overrunning = {.name = "overrun",
                                  .doc = "Writes past its memory.",
                                  .inputs = {{"x", TG_IN_NODES, 0}},
                                  .plan = plan,
                                  .carve = carve,
                                  .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}}};

/* A model of the op and a step that reads it. */
static tg_model *make_model(const attrs *a, tg_error *err) {
    static const char steps[] =
        "[{\"op\": \"activation\", \"name\": \"a\", \"out\": \"y\", \"in\": [\"node_feat\"]},"
        " {\"op\": \"linear\", \"name\": \"b\", \"out\": \"z\", \"in\": [\"y\"],"
        "  \"attrs\": {\"out\": 1}}]";
    tg_model *m = tg_model_new(&(tg_model_sizes){1, 0, 0, 1, 3});
    tg_json_tree tree;
    if (m == NULL) return NULL;
    tg_status status = tg_json_read(&tree, "steps", steps, strlen(steps), err);
    if (status == TG_OK) status = tg_model_add_steps(m, tree.root, err);
    tg_json_free(&tree);
    if (status == TG_OK) status = tg_model_add_output(m, "z", err);
    if (status == TG_OK) status = tg_model_draw(m, 0, err);
    if (status == TG_OK) {
        m->steps[0].op = &overrunning;
        memcpy(m->steps[0].attrs, a, sizeof *a);
        return m;
    }
    tg_model_free(m);
    return NULL;
}

/* One pass over a graph of one node. Slot y exists as a whole only if it is fetched. */
static tg_status run_model(const attrs *a, tg_error *err) {
    static const int8_t digit = 0;
    static const int64_t none, row, config_node;
    float x = 0, to[2] = {0};
    float *rows[2] = {&to[0], &to[1]};
    tg_workspace ws = {.passes = 0};
    tg_graph g = {.N = 1,
                  .F = 1,
                  .K = 1,
                  .C = 1,
                  .has_configs = 1,
                  .D = 1,
                  .digit_rows = 3,
                  .node_feat = &x,
                  .digits = &digit};
    tg_model *m = make_model(a, err);
    if (m == NULL) return TG_E_MEMORY;
    const tg_entry entry = {&g, &row, 1};
    const tg_slot_rows fetched[2] = {{tg_model_find_slot(m, "z"), &rows[0]},
                                     {tg_model_find_slot(m, "y"), &rows[1]}};
    tg_pass pass = {.n_entries = 1,
                    .entries = &entry,
                    .fetched = fetched,
                    .parts = 1,
                    .n_fetched = a->place == TILE ? 1 : 2};
    tg_status status = tg_graph_init(&g, &none, &config_node, err);
    if (status == TG_OK) status = tg_model_run(m, &ws, &pass, err);
    tg_workspace_free(&ws);
    tg_graph_free(&g);
    tg_model_free(m);
    return status;
}

/* ---- a loss ---- */

static double carve_loss(tg_scratch *c, int64_t length) {
    tg_take(c, length, sizeof(float));
    return 1;
}

static tg_reads reads(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = 0};
}

static double run_loss(const tg_list *list) {
    tg_scratch c = {.base = list->scratch};
    float *place = tg_take(&c, list->length, sizeof *place);
    list->gradient[0] = 0;
    overwrite((char *)(place + list->length), (int)list->attr[0]);
    return 0;
}

static tg_status run_losses(const attrs *a, tg_error *err) {
    static const tg_loss loss = {
        .name = "overrun", .least = 1, .reductions = 1, .reads = reads, .carve = carve_loss, .run = run_loss};
    const tg_losses losses = {.n = 1, .term = {{.loss = &loss, .attr = {a->past}, .weight = 1}}};
    const int64_t offsets[2] = {0, 1};
    float score = 0, dscore;
    double value;
    return tg_losses_run(&losses, 1, &score, &(tg_targets){.order = NULL},
                         &(tg_lists){.count = 1, .offsets = offsets}, &dscore, &value, err);
}

static PyObject *overrun(PyObject *self, PyObject *args) {
    const char *name;
    char word[16];
    tg_error err = {.code = TG_E_MEMORY};
    attrs a = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "si", &name, &a.past)) return NULL;
    while (tg_attr_word(PLACES, a.place, word, sizeof word) && strcmp(word, name) != 0) a.place++;
    if (a.place > ASSERT) return PyErr_Format(PyExc_ValueError, "place: expected one of " PLACES);
    if (a.place == ASSERT) return PyLong_FromLongLong(tg_chunks(-a.past, 1, 1));
    const tg_status status = a.place == LOSS ? run_losses(&a, &err) : run_model(&a, &err);
    if (status != TG_OK) return tg_raise(&err, NULL);
    Py_RETURN_NONE;
}
#else
static PyObject *overrun(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyErr_SetString(PyExc_RuntimeError, "the core was built without checks: build with TPUGRAPHS_DEBUG=1");
    return NULL;
}
#endif

static PyObject *checked(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyBool_FromLong(TG_REDZONE > 0);
}

PyMethodDef tg_check_methods[] = {
    {"checked", checked, METH_NOARGS, PyDoc_STR("Whether the core was built with redzones and assertions.")},
    {"overrun", overrun, METH_VARARGS,
     PyDoc_STR("(place, past): write `past` bytes too many, to see that a checked build ends the process.")},
    {NULL, NULL, 0, NULL},
};
