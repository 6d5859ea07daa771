#include "py/py_trees.h"

#include <stdlib.h>

#include "features/schema.h"
#include "trees/forest.h"
#include "trees/layouttable.h"
#include "trees/table.h"

typedef struct py_forest {
    PyObject_HEAD tg_forest forest;
    PyObject *text, *columns;
} py_forest;

/* The bytes of a text; a TG_E_DATA for one that no encoding has. NULL with an exception. */
static const char *bytes_of(PyObject *text, Py_ssize_t *size) {
    const char *bytes = PyUnicode_AsUTF8AndSize(text, size);
    tg_error err;
    if (bytes != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeError)) return bytes;
    PyErr_Clear();
    tg_fail_field(&err, "trees", "a text of LightGBM", "one with half a character");
    return tg_raise(&err, NULL), NULL;
}

static int fill(py_forest *self, PyObject *text, PyArrayObject *columns, int width) {
    Py_ssize_t size;
    const char *bytes = bytes_of(text, &size);
    if (bytes == NULL || (self->columns = (PyObject *)tg_private_copy(columns)) == NULL) return -1;
    PyArray_CLEARFLAGS((PyArrayObject *)self->columns, NPY_ARRAY_WRITEABLE);
    self->text = Py_NewRef(text);
    const int64_t *own = TG_I64((PyArrayObject *)self->columns), n = PyArray_SIZE(columns);
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_forest_read(&self->forest, bytes, (size_t)size, own, n, width, &err);
    Py_END_ALLOW_THREADS
    return status == TG_OK ? 0 : (tg_raise(&err, NULL), -1);
}

static PyObject *forest_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"text", "columns", "width", NULL};
    PyObject *text, *given;
    int width;
    npy_intp dims[1] = {-1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOi:Forest", names, &text, &given, &width)) return NULL;
    PyArrayObject *columns = tg_array(given, "columns", NPY_INT64, 1, dims, "(n,)");
    if (columns == NULL) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_forest *self = (py_forest *)alloc(type, 0);
    if (self != NULL && fill(self, text, columns, width) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void forest_dealloc(PyObject *object) {
    py_forest *self = (py_forest *)object;
    PyTypeObject *type = Py_TYPE(object);
    tg_forest_free(&self->forest);
    Py_XDECREF(self->text);
    Py_XDECREF(self->columns);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* scores(rows, trees, chances=False) -> (n,) float64 */
static PyObject *scores(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"rows", "trees", "chances", NULL};
    const tg_forest *forest = &((py_forest *)object)->forest;
    PyObject *given;
    int trees, chances = 0;
    npy_intp dims[2] = {-1, -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|p:scores", names, &given, &trees, &chances))
        return NULL;
    PyArrayObject *rows = tg_array(given, "rows", NPY_FLOAT32, 2, dims, "(n, F)");
    if (rows == NULL) return NULL;
    if (trees < 1 || (chances && forest->sigmoid == 0)) {
        PyErr_SetString(PyExc_ValueError,
                        "scores: expected at least one tree; chances need a binary objective");
        return NULL;
    }
    PyArrayObject *sums = tg_new_array(NPY_FLOAT64, 1, dims);
    if (sums == NULL) return NULL;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_forest_sums(forest, TG_F32(rows), dims[0], dims[1], trees, TG_F64(sums), &cancel, &err);
    if (status == TG_OK && chances) tg_forest_chances(forest, trees, TG_F64(sums), dims[0]);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)sums;
    Py_DECREF(sums);
    return tg_raise(&err, NULL);
}

/* against(rows, others, trees) -> (n,) float32 */
static PyObject *against(PyObject *object, PyObject *args) {
    const tg_forest *forest = &((py_forest *)object)->forest;
    PyObject *given[2];
    int trees;
    npy_intp dims[2] = {-1, -1}, other_dims[2] = {-1, -1};
    if (!PyArg_ParseTuple(args, "OOi:against", &given[0], &given[1], &trees)) return NULL;
    PyArrayObject *rows = tg_array(given[0], "rows", NPY_FLOAT32, 2, dims, "(n, F)");
    if (rows == NULL) return NULL;
    other_dims[1] = dims[1];
    PyArrayObject *others = tg_array(given[1], "others", NPY_FLOAT32, 2, other_dims, "(m, F)");
    if (others == NULL) return NULL;
    if (trees < 1 || forest->sigmoid == 0 || other_dims[0] < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "against: expected a binary objective, at least one tree and one other");
        return NULL;
    }
    PyArrayObject *means = tg_new_array(NPY_FLOAT32, 1, dims);
    if (means == NULL) return NULL;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_forest_against(forest, TG_F32(rows), dims[0], TG_F32(others), other_dims[0], dims[1], trees,
                               TG_F32(means), &cancel, &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)means;
    Py_DECREF(means);
    return tg_raise(&err, NULL);
}

/* gains(trees) -> (n,) float64 */
static PyObject *gains(PyObject *object, PyObject *arg) {
    py_forest *self = (py_forest *)object;
    PyArrayObject *columns = (PyArrayObject *)self->columns;
    const long trees = PyLong_AsLong(arg);
    if (trees == -1 && PyErr_Occurred()) return NULL;
    const npy_intp n = PyArray_SIZE(columns);
    PyArrayObject *made = tg_new_array(NPY_FLOAT64, 1, &n);
    if (made == NULL) return NULL;
    const int32_t most = trees < 0 ? 0 : trees < INT32_MAX ? (int32_t)trees : INT32_MAX;
    tg_forest_gains(&self->forest, most, TG_I64(columns), n, TG_F64(made));
    return (PyObject *)made;
}

/* What makes it again. */
static PyObject *reduce(PyObject *object, PyObject *unused) {
    py_forest *self = (py_forest *)object;
    (void)unused;
    return Py_BuildValue("O(OOi)", Py_TYPE(object), self->text, self->columns, (int)self->forest.width);
}

static PyObject *get_text(PyObject *object, void *unused) {
    (void)unused;
    return Py_NewRef(((py_forest *)object)->text);
}

static PyObject *get_columns(PyObject *object, void *unused) {
    (void)unused;
    return Py_NewRef(((py_forest *)object)->columns);
}

static PyObject *get_number(PyObject *object, void *which) {
    const tg_forest *forest = &((py_forest *)object)->forest;
    return PyLong_FromLong(which == NULL ? forest->trees : forest->width);
}

static PyObject *get_binary(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((py_forest *)object)->forest.sigmoid != 0);
}

static PyMethodDef methods[] = {
    {"scores", (PyCFunction)(void (*)(void))scores, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "scores(rows, trees, chances=False): sums of the first trees, or chances of the first class.")},
    {"against", against, METH_VARARGS,
     PyDoc_STR("against(rows, others, trees): mean chances of rows [one | one - other].")},
    {"gains", gains, METH_O, PyDoc_STR("gains(trees): what splits gained on each of .columns.")},
    {"__reduce__", reduce, METH_NOARGS, PyDoc_STR("Text, columns and width.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"text", get_text, NULL, PyDoc_STR("As it was read."), NULL},
    {"columns", get_columns, NULL, PyDoc_STR("(n,) int64: columns of the rows that the trees know."), NULL},
    {"trees", get_number, NULL, PyDoc_STR("Number of trees."), NULL},
    {"width", get_number, NULL, PyDoc_STR("Columns of the rows."), (void *)1},
    {"binary", get_binary, NULL, PyDoc_STR("Whether sums stand for chances."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, forest_new},
    {Py_tp_dealloc, forest_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, (void *)PyDoc_STR("Forest(text, columns, width): the trees in LightGBM's text of a model.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Forest",
                           .basicsize = sizeof(py_forest),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

/* An array, borrowed, or NULL for None; -1 with an exception. */
static int optional(PyObject *object, const char *name, int type, int ndim, npy_intp *dims, const char *shape,
                    PyArrayObject **array) {
    *array = NULL;
    if (object == Py_None) return 0;
    *array = tg_array(object, name, type, ndim, dims, shape);
    return *array == NULL ? -1 : 0;
}

/* config_table(node_feat, graph_feat, config_feat, digits) -> (n, F) float32 */
static PyObject *config_table(PyObject *self, PyObject *args) {
    PyObject *o[4];
    npy_intp nodes[2] = {-1, -1}, graph[1] = {-1}, configs[2] = {-1, -1}, cells[3] = {-1, -1, -1};
    PyArrayObject *feat, *whole, *own, *digits;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO:config_table", &o[0], &o[1], &o[2], &o[3])) return NULL;
    if ((feat = tg_array(o[0], "node_feat", NPY_FLOAT32, 2, nodes, "(N, F)")) == NULL ||
        (digits = tg_array(o[3], "digits", NPY_INT8, 3, cells, "(n, K, D)")) == NULL ||
        optional(o[1], "graph_feat", NPY_FLOAT32, 1, graph, "(G,)", &whole) < 0)
        return NULL;
    configs[0] = cells[0];
    if (optional(o[2], "config_feat", NPY_FLOAT32, 2, configs, "(n, T)", &own) < 0) return NULL;
    const tg_config_rows c = {.N = nodes[0],
                              .F = nodes[1],
                              .G = whole == NULL ? 0 : graph[0],
                              .node_feat = TG_F32(feat),
                              .graph_feat = whole == NULL ? NULL : TG_F32(whole),
                              .config_feat = own == NULL ? NULL : TG_F32(own),
                              .digits = TG_I8(digits),
                              .T = own == NULL ? 0 : configs[1],
                              .cells = cells[1] * cells[2]};
    const npy_intp dims[2] = {cells[0], (npy_intp)tg_table_width(&c)};
    PyArrayObject *rows = tg_new_array(NPY_FLOAT32, 2, dims);
    float *shared = rows == NULL ? NULL : PyMem_Malloc((size_t)(tg_table_shared(&c) + 1) * sizeof *shared);
    if (shared == NULL) {
        Py_XDECREF((PyObject *)rows);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    tg_table_graph(&c, shared);
    tg_table_rows(&c, shared, 0, dims[0], TG_F32(rows));
    Py_END_ALLOW_THREADS
    PyMem_Free(shared);
    return (PyObject *)rows;
}

/* layout_table(node_feat, node_opcode, edge_index, config_nodes, digits, bins) -> (n, F) float32 */
static PyObject *layout_table(PyObject *self, PyObject *args) {
    PyObject *o[5];
    int bins;
    npy_intp nodes[2] = {-1, TG_NODE_FEATURES}, edges[2] = {-1, 2}, own[1] = {-1},
             cells[3] = {-1, -1, TG_DIGITS};
    PyArrayObject *feat, *opcode, *edge, *config, *digits;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOi:layout_table", &o[0], &o[1], &o[2], &o[3], &o[4], &bins)) return NULL;
    if ((feat = tg_array(o[0], "node_feat", NPY_FLOAT32, 2, nodes, "(N, 140)")) == NULL ||
        optional(o[1], "node_opcode", NPY_UINT8, 1, nodes, "(N,)", &opcode) < 0 ||
        (edge = tg_array(o[2], "edge_index", NPY_INT64, 2, edges, "(E, 2)")) == NULL ||
        (config = tg_array(o[3], "config_nodes", NPY_INT64, 1, own, "(K,)")) == NULL)
        return NULL;
    cells[1] = own[0];
    if ((digits = tg_array(o[4], "digits", NPY_INT8, 3, cells, "(n, K, 18)")) == NULL) return NULL;
    if (bins < 1) return PyErr_SetString(PyExc_ValueError, "layout_table: expected bins >= 1"), NULL;
    PyArrayObject *private_edges = tg_private_copy(edge), *private_nodes = tg_private_copy(config);
    const npy_intp dims[2] = {cells[0], (npy_intp)tg_layout_table_width(bins)};
    PyArrayObject *rows = tg_new_array(NPY_FLOAT32, 2, dims);
    tg_error err = {0};
    tg_status status = TG_E_MEMORY;
    if (private_edges != NULL && private_nodes != NULL && rows != NULL) {
        const tg_layout_graph graph = {.N = nodes[0],
                                       .E = edges[0],
                                       .K = own[0],
                                       .node_feat = TG_F32(feat),
                                       .node_opcode = opcode == NULL ? NULL : TG_U8(opcode),
                                       .edges = TG_I64(private_edges),
                                       .config_nodes = TG_I64(private_nodes)};
        tg_layout_table *table;
        Py_BEGIN_ALLOW_THREADS
        status = tg_layout_table_open(&table, &graph, bins, &err);
        if (status == TG_OK) tg_layout_table_rows(table, TG_I8(digits), dims[0], TG_F32(rows));
        tg_layout_table_free(table);
        Py_END_ALLOW_THREADS
        if (status != TG_OK) tg_raise(&err, NULL);
    }
    Py_XDECREF((PyObject *)private_edges);
    Py_XDECREF((PyObject *)private_nodes);
    if (status != TG_OK) Py_CLEAR(rows);
    return (PyObject *)rows;
}

/* layout_rates(cells (C, K, n) of whole numbers that are equal where layouts are) -> (C, 3) float32 */
static PyObject *layout_rates(PyObject *self, PyObject *arg) {
    (void)self;
    PyArrayObject *cells = (PyArrayObject *)arg;
    if (!PyArray_Check(arg) || PyArray_NDIM(cells) != 3 || !PyArray_ISCARRAY_RO(cells) ||
        !PyArray_ISINTEGER(cells)) {
        PyErr_SetString(PyExc_ValueError,
                        "layout_rates: expected a C-contiguous array of whole numbers (C, K, n)");
        return NULL;
    }
    const npy_intp C = PyArray_DIM(cells, 0), K = PyArray_DIM(cells, 1), dims[2] = {C, 3};
    const int64_t width = (int64_t)PyArray_DIM(cells, 2) * PyArray_ITEMSIZE(cells);
    PyArrayObject *rates = tg_new_array(NPY_FLOAT32, 2, dims);
    if (rates == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_layout_rates(TG_F32(rates), TG_U8(cells), C, K, width, &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)rates;
    Py_DECREF(rates);
    return tg_raise(&err, NULL);
}

PyMethodDef tg_tree_methods[] = {
    {"layout_table", layout_table, METH_VARARGS,
     PyDoc_STR("layout_table(node_feat, node_opcode, edge_index, config_nodes, digits, bins) -> rows")},
    {"layout_rates", layout_rates, METH_O,
     PyDoc_STR("layout_rates(cells (C, K, n)) -> how often layouts of nodes occur, per config (C, 3)")},
    {"config_table", config_table, METH_VARARGS,
     PyDoc_STR("config_table(node_feat, graph_feat, config_feat, digits) -> rows that trees learn from")},
    {NULL, NULL, 0, NULL},
};

int tg_add_forest_type(PyObject *module) { return tg_add_type(module, &spec, "Forest", NULL); }
