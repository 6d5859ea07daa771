/* Arguments of an op that are given by name, sorted as op_forward takes them: how many nodes and configs a call has
   follows from its arrays. */
#include "py/py_ops.h"

#include <stdio.h>
#include <string.h>

#include "py/py_model_graph.h"

typedef struct given {
    const tg_op *op;
    PyObject *all;               /* dict */
    PyArrayObject *x[TG_MAX_IN]; /* inputs; NULL: not given */
    npy_intp nodes, configs;
} given;

/* Borrowed; NULL for what is missing or None. */
static PyObject *find(const given *g, const char *name) {
    PyObject *item = PyDict_GetItemString(g->all, name);
    return item == Py_None ? NULL : item;
}

static int refuse(const given *g, const char *what) {
    tg_error err;
    tg_fail(&err, TG_E_SHAPE, "%s: %s", g->op->name, what);
    tg_raise(&err, NULL);
    return -1;
}

/* An input of as many dimensions as one of its spaces has; its sizes are checked with the call. */
static int take_input(given *g, int i) {
    const tg_in_spec *spec = &g->op->inputs[i];
    PyObject *item = find(g, spec->name);
    if (item == NULL && spec->optional) return 0;
    char shapes[128] = "";
    for (int s = 0; s < TG_SPACES; s++) {
        npy_intp dims[3] = {s == TG_SPACE_SLATE ? 1 : -1, -1, -1};
        if (!(spec->spaces >> s & 1u)) continue;
        if (item != NULL && tg_fits(item, NPY_FLOAT32, tg_py_rows_dims((tg_space)s), dims)) {
            g->x[i] = (PyArrayObject *)item;
            return 0;
        }
        const size_t used = strlen(shapes);
        snprintf(shapes + used, sizeof shapes - used, "%s%s", used > 0 ? " or " : "",
                 tg_py_rows_shape((tg_space)s));
    }
    const char *shape = spec->spaces == TG_IN_ANY ? "(rows, F) or (rows, C, F)" : shapes;
    if (item != NULL) return tg_array(item, spec->name, NPY_FLOAT32, -1, NULL, shape) == NULL ? -1 : 0;
    tg_error err;
    tg_fail(&err, TG_E_SHAPE, "%s: expected a float32 array %s, got None", spec->name, shape);
    tg_raise(&err, NULL);
    return -1;
}

static int only_configs(const tg_op *op) {
    for (int i = 0; i < TG_MAX_IN && op->inputs[i].name != NULL; i++)
        if (op->inputs[i].spaces != TG_IN(CONFIG)) return 0;
    return op->inputs[0].name != NULL;
}

int tg_py_asks_for_nodes(const tg_op *op) {
    /* without known configurable nodes, their rows are like those of any nodes */
    const int known = (op->flags & (TG_NEEDS_DIGITS | TG_NEEDS_UNIQUE | TG_NEEDS_CONFIG_NODES)) != 0;
    const unsigned nodes = known ? TG_IN_NODES : TG_IN_NODES | TG_IN_CONFIG_NODES;
    for (int i = 0; i < TG_MAX_IN && op->inputs[i].name != NULL; i++) {
        const tg_in_spec *spec = &op->inputs[i];
        if (!spec->optional && (!(spec->spaces & ~nodes) || spec->spaces == TG_IN_ANY)) return 0;
    }
    return !only_configs(op);
}

/* The input that has a row per node, or -1. One whose rows can only be those of nodes goes before others; of two
   dimensions, rows may be those of configs, and a single one the graph's. */
static int input_of_nodes(const given *g) {
    int best = -1, least = 8;
    for (int i = 0; i < TG_MAX_IN; i++) {
        if (g->x[i] == NULL || !(g->op->inputs[i].spaces & TG_IN_NODES)) continue;
        const int cost = 4 * (PyArray_NDIM(g->x[i]) < 3) + 2 * (PyArray_DIM(g->x[i], 0) == 1) +
                         ((g->op->inputs[i].spaces & ~(unsigned)TG_IN_NODES) != 0);
        if (cost < least) least = cost, best = i;
    }
    return best;
}

static int count_nodes(given *g) {
    PyObject *number = find(g, "num_nodes"), *feat = find(g, "node_feat");
    const int input = input_of_nodes(g);
    if (number != NULL) g->nodes = PyLong_AsSsize_t(number);
    else if (g->op->flags & TG_NEEDS_UNIQUE)
        g->nodes = feat != NULL && PyArray_Check(feat) && PyArray_NDIM((PyArrayObject *)feat) > 0
                       ? PyArray_DIM((PyArrayObject *)feat, 0)
                       : 1; /* the graph refuses it */
    else if (input >= 0) g->nodes = PyArray_DIM(g->x[input], 0);
    else if (only_configs(g->op)) g->nodes = 1;
    else return refuse(g, "give num_nodes, which does not follow from the inputs");
    if (PyErr_Occurred()) return -1;
    return g->nodes < 1 ? refuse(g, "expected at least one node (N >= 1), got no rows") : 0;
}

/* Digits give the number of configs, then inputs with an axis of configs, then rows that are not those of nodes. */
static int count_configs(given *g) {
    PyObject *digits = find(g, "digits");
    npy_intp dims[3] = {-1, -1, -1}, found = -1;
    if (digits != NULL && tg_array(digits, "digits", NPY_INT8, 3, dims, "(C, K, D)") == NULL) return -1;
    if (digits != NULL) found = dims[0];
    for (int i = 0; i < TG_MAX_IN && found < 0; i++) {
        if (g->x[i] == NULL) continue;
        if (PyArray_NDIM(g->x[i]) == 3) found = PyArray_DIM(g->x[i], 1);
        else if (g->op->inputs[i].spaces == TG_IN(CONFIG)) found = PyArray_DIM(g->x[i], 0);
    }
    for (int i = 0; i < TG_MAX_IN && found < 0; i++)
        if (g->x[i] != NULL && g->op->inputs[i].spaces == (TG_IN_NODES | TG_IN(CONFIG)) &&
            PyArray_DIM(g->x[i], 0) != g->nodes)
            found = PyArray_DIM(g->x[i], 0);
    g->configs = found < 0 ? 1 : found;
    return g->configs < 1 ? refuse(g, "expected at least one config (C >= 1), got C = 0") : 0;
}

static PyObject *zeros(int typenum, int ndim, npy_intp rows, npy_intp cols) {
    npy_intp dims[2] = {rows, cols};
    return PyArray_ZEROS(ndim, dims, typenum, 0);
}

/* The graph of a call, or the number of its nodes if the op needs nothing else. */
static PyObject *make_graph(const given *g, const tg_state *state) {
    const unsigned needy = TG_NEEDS_EDGES | TG_NEEDS_DIGITS | TG_NEEDS_OPCODE | TG_NEEDS_LAYOUT |
                           TG_NEEDS_UNIQUE | TG_NEEDS_CONFIG_NODES;
    if (!(g->op->flags & needy)) return PyLong_FromSsize_t(g->nodes);
    static const char *const names[] = {"node_feat",  "node_opcode",  "layout_digits",
                                        "edge_index", "config_nodes", "digits"};
    PyObject *rows = find(g, "digit_rows"), *arguments = PyList_New(0), *graph = NULL;
    for (int i = 0; arguments != NULL && i < 6; i++) {
        PyObject *item = find(g, names[i]);
        if (i == 0 && !(g->op->flags & TG_NEEDS_UNIQUE)) item = zeros(NPY_FLOAT32, 2, g->nodes, 1);
        else if (item == NULL && i == 3) item = zeros(NPY_INT64, 2, 0, 2);
        else if (item == NULL && i == 4) item = zeros(NPY_INT64, 1, 0, 0);
        else item = Py_NewRef(item == NULL ? Py_None : item);
        tg_append(&arguments, item);
    }
    PyObject *tuple = arguments == NULL ? NULL : PyList_AsTuple(arguments);
    PyObject *more = rows == NULL ? Py_BuildValue("{s:i}", "digit_rows", TG_DIGIT_STATES)
                                  : Py_BuildValue("{s:O}", "digit_rows", rows);
    if (tuple != NULL && more != NULL) graph = PyObject_Call((PyObject *)state->model_graph, tuple, more);
    Py_XDECREF(arguments);
    Py_XDECREF(tuple);
    Py_XDECREF(more);
    return graph;
}

/* Appends what is given under a name, and the name to `names`. */
static void add(const given *g, const char *name, PyObject **list, PyObject **names) {
    PyObject *item = find(g, name);
    if (item == NULL) return;
    tg_append(list, Py_NewRef(item));
    tg_append(names, PyUnicode_FromString(name));
}

static PyObject *sort(const given *g, PyObject *graph) {
    PyObject *inputs = PyList_New(0), *params = PyList_New(0), *names = PyList_New(0), *attrs = PyDict_New();
    PyObject *key = find(g, "key"), *training = find(g, "training"), *result = NULL;
    for (int i = 0; i < TG_MAX_IN && g->op->inputs[i].name != NULL; i++)
        add(g, g->op->inputs[i].name, &inputs, &names);
    for (int i = 0; i < TG_MAX_PARAMS && g->op->params[i] != NULL; i++)
        add(g, g->op->params[i], &params, &names);
    if (g->op->flags & TG_NEEDS_DIGITS) tg_append(&names, PyUnicode_FromString("digits"));
    for (int i = 0; attrs != NULL && i < tg_attrs_count(g->op->attrs, TG_MAX_ATTRS); i++) {
        PyObject *item = PyDict_GetItemString(g->all, g->op->attrs[i].name);
        if (item != NULL && PyDict_SetItemString(attrs, g->op->attrs[i].name, item) < 0) Py_CLEAR(attrs);
    }
    const unsigned long long number = key == NULL ? 0 : PyLong_AsUnsignedLongLongMask(key);
    const int random = training == NULL ? 0 : PyObject_IsTrue(training);
    if (inputs != NULL && params != NULL && names != NULL && attrs != NULL && !PyErr_Occurred())
        result = Py_BuildValue("((sONNOnKi)O)", g->op->name, attrs, PyList_AsTuple(inputs),
                               PyList_AsTuple(params), graph, g->configs, number, random, names);
    Py_XDECREF(inputs);
    Py_XDECREF(params);
    Py_XDECREF(names);
    Py_XDECREF(attrs);
    return result;
}

/* Whether an array has a shape: numbers are demanded, letters take any length, "..." any dimensions in front. */
static int has_shape(PyObject *array, int typenum, PyObject *shape) {
    npy_intp dims[NPY_MAXDIMS + 8];
    const int n = (int)PyTuple_Size(shape);
    int ndim = 0;
    for (int i = 0; i < n && n <= 8; i++) {
        PyObject *item = PyTuple_GetItem(shape, i);
        if (PyLong_Check(item)) dims[ndim++] = (npy_intp)PyLong_AsSsize_t(item);
        else if (!PyUnicode_Check(item) || PyUnicode_CompareWithASCIIString(item, "...") != 0)
            dims[ndim++] = -1;
        else
            for (int k = PyArray_NDIM((PyArrayObject *)array) - n + 1; k > 0; k--) dims[ndim++] = -1;
    }
    return tg_fits(array, typenum, ndim, dims);
}

/* Appends a shape as documentation shows it: letters without quotes. */
static int add_shape(PyObject *shape, char *text, size_t size) {
    PyObject *shown = PyObject_Str(shape);
    const char *utf8 = shown == NULL ? NULL : tg_utf8(shown, NULL);
    if (utf8 != NULL && text[0] != 0) strncat(text, " or ", size - strlen(text) - 1);
    for (size_t at = strlen(text); utf8 != NULL && *utf8 != 0 && at + 1 < size; utf8++)
        if (*utf8 != '\'') text[at++] = *utf8, text[at] = 0;
    Py_XDECREF(shown);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *tg_py_require(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *dtype = kwargs == NULL ? NULL : PyDict_GetItemString(kwargs, "dtype");
    const Py_ssize_t n = PyTuple_Size(args);
    PyArray_Descr *type = NULL;
    char shapes[256] = "";
    (void)self;
    const char *name = n < 3 ? NULL : tg_utf8(PyTuple_GetItem(args, 1), NULL);
    if (name == NULL)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "require: a shape is missing");
    if (dtype != NULL && !PyArray_DescrConverter(dtype, &type)) return NULL;
    const int typenum = type == NULL ? NPY_FLOAT32 : type->type_num;
    Py_XDECREF((PyObject *)type);
    PyObject *array = PyTuple_GetItem(args, 0);
    for (Py_ssize_t i = 2; i < n; i++) {
        PyObject *shape = PyTuple_GetItem(args, i);
        if (!PyTuple_Check(shape))
            return PyErr_Format(PyExc_TypeError, "require: expected a tuple, got %R", shape);
        if (PyArray_Check(array) && has_shape(array, typenum, shape)) Py_RETURN_NONE;
        if (add_shape(shape, shapes, sizeof shapes) < 0) return NULL;
    }
    return (PyObject *)tg_array(array, name, typenum, -1, NULL, shapes);
}

PyObject *tg_py_op_arguments(PyObject *self, PyObject *args) {
    const char *name;
    given g = {.op = NULL};
    if (!PyArg_ParseTuple(args, "sO!:op_arguments", &name, &PyDict_Type, &g.all)) return NULL;
    if ((g.op = tg_find_op(name)) == NULL) return PyErr_Format(PyExc_ValueError, "no op '%s'", name);
    for (int i = 0; i < TG_MAX_IN && g.op->inputs[i].name != NULL; i++)
        if (take_input(&g, i) < 0) return NULL;
    if (count_nodes(&g) < 0 || count_configs(&g) < 0) return NULL;
    PyObject *graph = make_graph(&g, PyModule_GetState(self));
    PyObject *result = graph == NULL ? NULL : sort(&g, graph);
    Py_XDECREF(graph);
    return result;
}
