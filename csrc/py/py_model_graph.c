#include "py/py_model_graph.h"

#include "model/segment.h"
#include "py/py_configs.h"

#include <stdlib.h>
#include <string.h>

/* `pair` is (codes (C,K,3), table (T,6)). */
static int take_codes(tg_graph *g, PyObject *pair) {
    tg_codes codes;
    npy_intp table[2] = {-1, TG_LAYOUT_DIGITS};
    if (PyTuple_Size(pair) != 2 || g->D != TG_DIGITS || g->config_feat != NULL) {
        PyErr_SetString(PyExc_TypeError,
                        "digits: expected an array, or a pair (codes, table) without config_feat");
        return -1;
    }
    PyArrayObject *entries = tg_array(PyTuple_GetItem(pair, 1), "table", NPY_INT8, 2, table, "(T, 6)");
    if (entries == NULL || tg_codes_array(PyTuple_GetItem(pair, 0), tg_all_config_nodes(g), &codes) < 0)
        return -1;
    tg_error err;
    if (tg_graph_set_codes(g, codes.data, codes.size, codes.C, TG_I8(entries), table[0], &err) == TG_OK)
        return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* The configs of a graph: digits, features of whole configs (which a prepared one has already), or both. */
static int take_configs(tg_graph *g, PyObject *digits, PyObject *config_feat) {
    npy_intp wide[3] = {g->config_feat != NULL ? (npy_intp)g->C : -1, tg_all_config_nodes(g),
                        g->D > 0 ? g->D : -1};
    npy_intp flat[2] = {-1, -1};
    PyArrayObject *a;
    if (config_feat != Py_None) {
        if ((a = tg_array(config_feat, "config_feat", NPY_FLOAT32, 2, flat, "(C, T)")) == NULL) return -1;
        if (flat[1] < 1 || flat[1] > 65536) {
            PyErr_Format(PyExc_ValueError, "config_feat: expected 1..65536 columns, got %zd", flat[1]);
            return -1;
        }
        g->config_feat = TG_F32(a);
        g->C = wide[0] = flat[0];
        g->T = (int)flat[1];
        g->has_configs = 1;
        if (digits == Py_None) g->D = 0;
    }
    if (digits == Py_None) return 0;
    if (PyTuple_Check(digits)) return take_codes(g, digits);
    const char *shape = wide[2] == TG_DIGITS ? "(C, K, 18)" : "(C, K, D)";
    if ((a = tg_array(digits, "digits", NPY_INT8, 3, wide, shape)) == NULL) return -1;
    if (wide[2] < 1 || wide[2] > TG_MOST_DIGITS) {
        PyErr_Format(PyExc_ValueError, "digits: expected 1..%d columns, got %zd", TG_MOST_DIGITS, wide[2]);
        return -1;
    }
    g->D = (int)wide[2];
    g->digits = TG_I8(a);
    g->C = wide[0];
    g->has_configs = 1;
    return 0;
}

/* The optional arrays with a row per node or for the graph. */
static int take_optional(tg_graph *g, PyObject *opcode, PyObject *layout, PyObject *graph_feat) {
    npy_intp ids[1] = {g->N}, digits[2] = {g->N, TG_LAYOUT_DIGITS}, columns[1] = {-1};
    PyArrayObject *a;
    if (opcode != Py_None) {
        if ((a = tg_array(opcode, "node_opcode", NPY_UINT8, 1, ids, "(N,)")) == NULL) return -1;
        g->opcode = TG_U8(a);
    }
    if (layout != Py_None) {
        if ((a = tg_array(layout, "layout_digits", NPY_INT8, 2, digits, "(N, 6)")) == NULL) return -1;
        g->layout = TG_I8(a);
    }
    if (graph_feat == Py_None) return 0;
    if ((a = tg_array(graph_feat, "graph_feat", NPY_FLOAT32, 1, columns, "(G,)")) == NULL) return -1;
    if (columns[0] < 1 || columns[0] > 65536) {
        PyErr_Format(PyExc_ValueError, "graph_feat: expected 1..65536 columns, got %zd", columns[0]);
        return -1;
    }
    g->graph_feat = TG_F32(a);
    g->G = (int)columns[0];
    return 0;
}

/* Sizes and borrowed pointers from the arguments; arrays end up in self->keep. */
static int take_arrays(tg_py_model_graph *self, PyObject *args[TG_GRAPH_ARGS], PyArrayObject **edges,
                       PyArrayObject **nodes) {
    tg_graph *g = &self->graph;
    npy_intp feat[2] = {-1, -1}, edge[2] = {-1, 2}, node[1] = {-1};
    PyArrayObject *a = tg_array(args[0], "node_feat", NPY_FLOAT32, 2, feat, "(N, F)");
    if (a == NULL) return -1;
    if (feat[0] < 1 || feat[0] > INT32_MAX / 2 || feat[1] > 65536) {
        PyErr_Format(PyExc_ValueError,
                     "node_feat: expected 1..2^30 nodes and 0..65536 columns, got (%zd, %zd)", feat[0],
                     feat[1]);
        return -1;
    }
    g->N = (int32_t)feat[0];
    g->F = (int32_t)feat[1];
    g->node_feat = TG_F32(a);
    if (take_optional(g, args[1], args[2], args[7]) < 0) return -1;
    if ((*edges = tg_array(args[3], "edge_index", NPY_INT64, 2, edge, "(E, 2)")) == NULL) return -1;
    if ((*nodes = tg_array(args[4], "config_nodes", NPY_INT64, 1, node, "(K,)")) == NULL) return -1;
    if (edge[0] > INT32_MAX / 2 || node[0] > feat[0]) {
        PyErr_Format(PyExc_ValueError, "a graph has at most 2^30 edges and N config nodes, got %zd and %zd",
                     edge[0], node[0]);
        return -1;
    }
    g->E = (int32_t)edge[0];
    g->K = (int32_t)node[0];
    const int from[4] = {0, 1, 2, 7}, to[4] = {0, 1, 2, 5};
    for (int i = 0; i < 4; i++) {
        Py_INCREF(args[from[i]]);
        self->keep[to[i]] = args[from[i]];
    }
    return tg_py_model_graph_configs(self, args[5], args[6]);
}

int tg_py_model_graph_configs(tg_py_model_graph *self, PyObject *digits, PyObject *config_feat) {
    PyObject *const given[2] = {digits, config_feat};
    for (int i = 0; i < 2; i++) {
        Py_INCREF(given[i]);
        self->keep[3 + i] = given[i];
    }
    return take_configs(&self->graph, digits, config_feat);
}

tg_py_model_graph *tg_py_model_graph_new(PyTypeObject *type, int digit_rows) {
    if (digit_rows != 0 && (digit_rows < 4 || digit_rows > TG_MOST_DIGIT_VALUES + 2)) {
        PyErr_Format(PyExc_ValueError, "digit_rows: expected 4..%d, got %d", TG_MOST_DIGIT_VALUES + 2,
                     digit_rows);
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tg_py_model_graph *self = (tg_py_model_graph *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->graph.D = digit_rows == 0 ? TG_DIGITS : 0;
    self->graph.digit_rows = digit_rows == 0 ? TG_DIGIT_STATES : digit_rows;
    return self;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"node_feat", "node_opcode", "layout_digits", "edge_index", "config_nodes",
                            "digits",    "config_feat", "graph_feat",    "digit_rows", NULL};
    PyObject *a[TG_GRAPH_ARGS] = {NULL};
    int digit_rows = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO|OOOi", names, &a[0], &a[1], &a[2], &a[3], &a[4],
                                     &a[5], &a[6], &a[7], &digit_rows))
        return NULL;
    for (int i = 5; i < TG_GRAPH_ARGS; i++)
        if (a[i] == NULL) a[i] = Py_None;
    tg_py_model_graph *self = tg_py_model_graph_new(type, digit_rows);
    if (self == NULL) return NULL;
    PyArrayObject *edges, *nodes;
    if (take_arrays(self, a, &edges, &nodes) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    edges = tg_private_copy(edges);
    nodes = tg_private_copy(nodes);
    tg_error err;
    tg_status status = TG_E_MEMORY;
    if (edges != NULL && nodes != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        status = tg_graph_init(&self->graph, TG_I64(edges), TG_I64(nodes), &err);
        Py_END_ALLOW_THREADS;
    } else tg_fail(&err, status, "no memory for a graph");
    Py_XDECREF((PyObject *)edges);
    Py_XDECREF((PyObject *)nodes);
    if (status != TG_OK) {
        Py_DECREF(self);
        return tg_raise(&err, NULL);
    }
    return (PyObject *)self;
}

static void graph_dealloc(PyObject *object) {
    tg_py_model_graph *self = (tg_py_model_graph *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->base == NULL || self->cut) tg_graph_free(&self->graph);
    else free((void *)(uintptr_t)self->graph.codes.table);
    Py_XDECREF(self->base);
    for (int i = 0; i < TG_GRAPH_KEPT; i++) Py_XDECREF(self->keep[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* with_configs(digits, config_feat=None) -> Graph */
static PyObject *with_configs(PyObject *object, PyObject *args) {
    PyObject *digits, *config_feat = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:with_configs", &digits, &config_feat)) return NULL;
    tg_py_model_graph *self = (tg_py_model_graph *)object, *other = tg_py_model_graph_new(Py_TYPE(object), 0);
    if (other == NULL) return NULL;
    tg_graph *g = &other->graph;
    *g = self->graph;
    g->C = 0, g->has_configs = 0, g->T = 0;
    g->digits = NULL, g->config_feat = NULL;
    g->codes = (tg_codes){0};
    other->base = self->base != NULL && !self->cut ? self->base : object;
    Py_INCREF(other->base);
    if (tg_py_model_graph_configs(other, digits, config_feat) == 0) return (PyObject *)other;
    Py_DECREF(other);
    return NULL;
}

/* Segment `which`, with the configs of the whole. */
static PyObject *cut_one(tg_py_model_graph *self, int64_t most, int32_t which) {
    tg_py_model_graph *other = tg_py_model_graph_new(Py_TYPE((PyObject *)self), 0);
    if (other == NULL) return NULL;
    tg_error err;
    const tg_status status = tg_graph_cut(&other->graph, &self->graph, most, which, &err);
    if (status != TG_OK) {
        Py_DECREF((PyObject *)other);
        return tg_raise(&err, NULL);
    }
    other->cut = 1;
    other->base = (PyObject *)self;
    Py_INCREF(other->base);
    return (PyObject *)other;
}

/* cut(nodes) -> (Graph, ...) */
static PyObject *cut(PyObject *object, PyObject *args) {
    tg_py_model_graph *self = (tg_py_model_graph *)object;
    long long most;
    if (!PyArg_ParseTuple(args, "L:cut", &most)) return NULL;
    if (most < 1) {
        PyErr_Format(PyExc_ValueError, "nodes: expected at least 1, got %lld", most);
        return NULL;
    }
    const int32_t n = tg_segments(self->graph.N, most);
    PyObject *all = PyTuple_New(n);
    for (int32_t p = 0; all != NULL && p < n; p++) {
        PyObject *segment = cut_one(self, most, p);
        if (segment == NULL || PyTuple_SetItem(all, p, segment) < 0) Py_CLEAR(all);
    }
    return all;
}

static PyMethodDef graph_methods[] = {
    {"with_configs", with_configs, METH_VARARGS,
     PyDoc_STR(
         "with_configs(digits, config_feat=None): the same graph with other configs; the rest is shared.")},
    {"cut", cut, METH_VARARGS,
     PyDoc_STR("cut(nodes): tuple of the graph's segments of at most that many consecutive nodes, with the "
               "edges inside of each and all configs.")},
    {NULL, NULL, 0, NULL},
};

static PyObject *get_size(PyObject *object, void *which) {
    const tg_graph *g = &((tg_py_model_graph *)object)->graph;
    const int64_t sizes[] = {g->N, g->E, g->K, g->C, g->F, g->G, g->T};
    return PyLong_FromLongLong(sizes[(intptr_t)which]);
}

/* What a model reads, as read-only views. */
static PyObject *get_array(PyObject *object, void *which) {
    const tg_graph *g = &((tg_py_model_graph *)object)->graph;
    const struct {
        const void *data;
        int type, ndim;
        npy_intp dims[2];
    } arrays[] = {{g->node_feat, NPY_FLOAT32, 2, {g->N, g->F}},
                  {g->opcode, NPY_UINT8, 1, {g->N}},
                  {g->layout, NPY_INT8, 2, {g->N, TG_LAYOUT_DIGITS}},
                  {g->graph_feat, NPY_FLOAT32, 1, {g->G}},
                  {g->config_feat, NPY_FLOAT32, 2, {(npy_intp)g->C, g->T}}},
      *a = &arrays[(intptr_t)which];
    if (a->data == NULL) Py_RETURN_NONE;
    return (PyObject *)tg_view(a->type, a->ndim, a->dims, (void *)(uintptr_t)a->data, object, 0);
}

static PyGetSetDef graph_getset[] = {
    {"num_nodes", get_size, NULL, PyDoc_STR("N"), (void *)0},
    {"num_edges", get_size, NULL, PyDoc_STR("E"), (void *)1},
    {"num_config_nodes", get_size, NULL, PyDoc_STR("K"), (void *)2},
    {"num_configs", get_size, NULL, PyDoc_STR("C"), (void *)3},
    {"num_features", get_size, NULL, PyDoc_STR("F"), (void *)4},
    {"num_graph_features", get_size, NULL, PyDoc_STR("G"), (void *)5},
    {"num_config_features", get_size, NULL, PyDoc_STR("T"), (void *)6},
    {"node_feat", get_array, NULL, PyDoc_STR("(N, F) float32, read-only"), (void *)0},
    {"node_opcode", get_array, NULL, PyDoc_STR("(N,) uint8, read-only, or None"), (void *)1},
    {"layout_digits", get_array, NULL, PyDoc_STR("(N, 6) int8, read-only, or None"), (void *)2},
    {"graph_feat", get_array, NULL, PyDoc_STR("(G,) float32, read-only, or None"), (void *)3},
    {"config_feat", get_array, NULL, PyDoc_STR("(C, T) float32, read-only, or None"), (void *)4},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_getset, graph_getset},
    {Py_tp_methods, graph_methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "A prepared graph: scaled node features, opcodes, layout digits, edges, packed configs.")},
    {0, NULL},
};

static PyType_Spec model_graph_spec = {.name = "tpugraphs._core.ModelGraph",
                                       .basicsize = sizeof(tg_py_model_graph),
                                       .flags = Py_TPFLAGS_DEFAULT,
                                       .slots = graph_slots};

int tg_add_model_graph_type(PyObject *module) {
    return tg_add_type(module, &model_graph_spec, "ModelGraph",
                       &((tg_state *)PyModule_GetState(module))->model_graph);
}
