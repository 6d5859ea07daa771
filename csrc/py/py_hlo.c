/* Graphs out of protocol buffers of HLO. */
#include "py/pycore.h"

#include <stdlib.h>
#include <string.h>

#include "hlo/fusions.h"
#include "hlo/work.h"

/* What was asked for. */
typedef struct request {
    PyObject *(*read)(tg_hlo *hlo, tg_hlo_graph *graph, struct request *q); /* of every program */
    int padding, extra, sorted;
    int64_t limit, total; /* bytes of arrays: at most, so far */
} request;

/* Add a new array to a dict and return its memory, or NULL with an exception set. */
static void *add_array(PyObject *dict, const char *name, int typenum, int ndim, npy_intp a, npy_intp b,
                       npy_intp c) {
    const npy_intp dims[3] = {a, b, c};
    PyArrayObject *array = tg_new_array(typenum, ndim, dims);
    if (array == NULL) return NULL;
    void *data = PyArray_DATA(array);
    if (PyDict_SetItemString(dict, name, (PyObject *)array) < 0) data = NULL;
    Py_DECREF((PyObject *)array);
    return data;
}

enum { EDGE = 16 }; /* bytes */

/* Bytes that the arrays of a graph take without its edges, which are counted when they are read. */
static int64_t bytes_of(const tg_hlo_graph *g, int extra) {
    const int64_t row = TG_NODE_FEATURES * 4 + 8 + 1 + (extra ? TG_EXTRA_FEATURES * 4 : 0);
    int64_t config = g->tile ? TG_TILE_FEATURES * 4 : 0, nodes, configs, total;
    if (!g->tile && __builtin_mul_overflow(g->K, TG_DIGITS, &config)) return INT64_MAX;
    if (__builtin_add_overflow(config, 16, &config) || __builtin_mul_overflow(g->C, config, &configs) ||
        __builtin_mul_overflow(g->N, row, &nodes) || __builtin_add_overflow(nodes, configs, &total))
        return INT64_MAX;
    return total;
}

/* Whether there is room for more bytes of arrays; if not, the error is set. */
static int account(request *q, int64_t bytes, tg_error *err) {
    if (!__builtin_add_overflow(q->total, bytes, &q->total) && q->total <= q->limit) return 1;
    tg_bad_field(err, "file", "arrays of at most max_bytes together", "raise max_bytes if the file is right",
                 "%lld bytes and more, max_bytes is %lld", (long long)q->total, (long long)q->limit);
    return 0;
}

static int add_arrays(PyObject *dict, tg_hlo_graph *g, int extra) {
    const npy_intp N = (npy_intp)g->N, C = (npy_intp)g->C, K = (npy_intp)g->K;
    g->node_feat = add_array(dict, "node_feat", NPY_FLOAT32, 2, N, TG_NODE_FEATURES, 0);
    g->node_opcode = add_array(dict, "node_opcode", NPY_UINT8, 1, N, 0, 0);
    if (extra) g->extra = add_array(dict, "extra", NPY_FLOAT32, 2, N, TG_EXTRA_FEATURES, 0);
    g->instruction_ids = add_array(dict, "instruction_ids", NPY_INT64, 1, N, 0, 0);
    g->computation_sizes =
        add_array(dict, "computation_sizes", NPY_INT64, 1, (npy_intp)g->computations, 0, 0);
    g->node_splits = add_array(dict, "node_splits", NPY_INT64, 1, (npy_intp)g->S, 0, 0);
    g->node_config_ids = add_array(dict, "node_config_ids", NPY_INT64, 1, K, 0, 0);
    if (g->tile) g->config_feat = add_array(dict, "config_feat", NPY_FLOAT32, 2, C, TG_TILE_FEATURES, 0);
    else g->node_config_feat = add_array(dict, "node_config_feat", NPY_INT8, 3, C, K, TG_DIGITS);
    g->config_runtime = add_array(dict, "config_runtime", NPY_INT64, 1, C, 0, 0);
    g->runtime_normalizers = add_array(dict, "config_runtime_normalizers", NPY_INT64, 1, C, 0, 0);
    return PyErr_Occurred() == NULL;
}

static int add_item(PyObject *dict, const char *name, PyObject *item) {
    const int failed = item == NULL || PyDict_SetItemString(dict, name, item) < 0;
    Py_XDECREF(item);
    return !failed;
}

static int add_edges(PyObject *dict, tg_ids *edges, int sorted) {
    Py_BEGIN_ALLOW_THREADS
    if (sorted) tg_hlo_sort_edges(edges);
    Py_END_ALLOW_THREADS
    int64_t *to = add_array(dict, "edge_index", NPY_INT64, 2, (npy_intp)(edges->count / 2), 2, 0);
    if (to == NULL) return 0;
    Py_BEGIN_ALLOW_THREADS
    if (edges->count > 0) memcpy(to, edges->items, (size_t)edges->count * sizeof *to);
    Py_END_ALLOW_THREADS
    return 1;
}

static PyObject *text_of(tg_wire text) {
    return PyUnicode_DecodeUTF8((const char *)text.at, text.end - text.at, "replace");
}

static PyObject *text_or_none(const char *text) {
    return text == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(text);
}

/* Read a graph that was measured, as a dict; NULL with an exception or the reader's error set. */
static PyObject *read_graph(tg_hlo *hlo, tg_hlo_graph *g, request *q) {
    if (!account(q, bytes_of(g, q->extra), hlo->reader.err)) return NULL;
    g->most_edges = (q->limit - q->total) / EDGE;
    PyObject *dict = PyDict_New();
    if (dict == NULL || !add_arrays(dict, g, q->extra)) {
        Py_XDECREF(dict);
        return NULL;
    }
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_hlo_read(hlo, g);
    Py_END_ALLOW_THREADS
    q->total += g->edges.count / 2 * EDGE;
    if (status != TG_OK || !add_edges(dict, &g->edges, q->sorted) ||
        !add_item(dict, "name", text_of(g->name)) || !add_item(dict, "runs", PyLong_FromLongLong(g->runs)) ||
        !add_item(dict, "unusable", text_or_none(g->unusable)))
        Py_CLEAR(dict);
    return dict;
}

/* Lists of both names of every node; NULL with an exception or the reader's error set. */
static PyObject *read_names(tg_hlo *hlo, tg_hlo_graph *g, request *q) {
    (void)q;
    tg_wire(*names)[2] = malloc((size_t)g->N * sizeof *names);
    if (names == NULL) return PyErr_NoMemory();
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_hlo_names(hlo, g, names);
    Py_END_ALLOW_THREADS
    PyObject *lists[2] = {NULL, NULL};
    for (int k = 0; k < 2 && status == TG_OK; k++) {
        lists[k] = PyList_New((Py_ssize_t)g->N);
        for (int64_t i = 0; i < g->N && lists[k] != NULL; i++) {
            PyObject *text = text_of(names[i][k]);
            if (text == NULL || PyList_SetItem(lists[k], (Py_ssize_t)i, text) < 0) Py_CLEAR(lists[k]);
        }
    }
    free(names);
    if (lists[0] != NULL && lists[1] != NULL) return Py_BuildValue("(NN)", lists[0], lists[1]);
    Py_XDECREF(lists[0]), Py_XDECREF(lists[1]);
    return NULL;
}

/* A list of the fusions of a program as read_graph makes them; NULL with an exception or the reader's error set. */
static PyObject *read_fusions(tg_hlo *hlo, tg_hlo_graph *g, request *q) {
    PyObject *list = PyList_New(0);
    tg_hlo_fusions fusions;
    tg_status status;
    int more = 1;
    Py_BEGIN_ALLOW_THREADS
    status = tg_hlo_find_fusions(hlo, g, &fusions);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) Py_CLEAR(list);
    while (list != NULL && more) {
        tg_hlo_graph fusion;
        Py_BEGIN_ALLOW_THREADS
        status = tg_hlo_next_fusion(hlo, g, &fusions, &fusion, &more);
        Py_END_ALLOW_THREADS
        if (status != TG_OK) Py_CLEAR(list);
        else if (more) tg_append(&list, read_graph(hlo, &fusion, q));
        tg_hlo_free_graph(&fusion);
    }
    tg_hlo_free_fusions(&fusions);
    return list;
}

/* The work of a program, (TG_WORK_COLUMNS); NULL with an exception or the reader's error set. */
static PyObject *read_work(tg_hlo *hlo, tg_hlo_graph *g, request *q) {
    const npy_intp columns = TG_WORK_COLUMNS;
    if (!account(q, tg_hlo_work_bytes(g), hlo->reader.err)) return NULL;
    PyArrayObject *array = tg_new_array(NPY_FLOAT32, 1, &columns);
    if (array == NULL) return NULL;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_hlo_work(hlo, g, TG_F32(array));
    Py_END_ALLOW_THREADS
    if (status != TG_OK) Py_CLEAR(array);
    return (PyObject *)array;
}

/* Whatever `read` makes of each program, as a list; NULL with an exception or the reader's error set. */
static PyObject *read_each(tg_hlo *hlo, request *q) {
    PyObject *list = PyList_New(0);
    while (list != NULL) {
        tg_hlo_graph g;
        tg_status status;
        int more;
        Py_BEGIN_ALLOW_THREADS
        status = tg_hlo_next_graph(hlo, &g, &more);
        Py_END_ALLOW_THREADS
        PyObject *made = status == TG_OK && more ? q->read(hlo, &g, q) : NULL;
        tg_hlo_free_graph(&g);
        if (status == TG_OK && !more) break;
        if (made == NULL) Py_CLEAR(list);
        else tg_append(&list, made);
    }
    return list;
}

/* Read a file, by its path, or what is in memory: (message, [of every program what q->read makes of it]). */
static PyObject *read_source(PyObject *from, request *q) {
    PyObject *path = NULL, *result = NULL;
    Py_buffer buffer = {0};
    const int in_memory = PyObject_CheckBuffer(from);
    if (in_memory ? PyObject_GetBuffer(from, &buffer, PyBUF_SIMPLE) < 0 : !PyUnicode_FSConverter(from, &path))
        return NULL;
    const char *file = in_memory ? NULL : PyBytes_AsString(path);
    tg_error err = {0};
    tg_source source = {.fd = -1};
    tg_wire content = {NULL, NULL};
    tg_hlo hlo;
    tg_cancel cancel = tg_python_cancel();
    tg_status status = TG_OK;
    Py_BEGIN_ALLOW_THREADS
    if (in_memory) {
        if (buffer.len > 0) content = (tg_wire){buffer.buf, (const uint8_t *)buffer.buf + buffer.len};
    } else {
        status = tg_source_open(file, "a file of a protocol buffer", &source, NULL, &err);
        if (status == TG_OK && source.size > 0) status = tg_source_map(&source, &err);
        if (status == TG_OK && source.size > 0) content = (tg_wire){source.bytes, source.bytes + source.size};
    }
    if (status == TG_OK)
        status = tg_hlo_open(&hlo, content, in_memory ? NULL : &source, q->padding, &cancel, &err);
    Py_END_ALLOW_THREADS
    PyObject *list = status == TG_OK ? read_each(&hlo, q) : NULL;
    if (list != NULL) result = Py_BuildValue("(sN)", tg_hlo_kind_name(hlo.kind), list);
    tg_source_close(&source);
    if (in_memory) PyBuffer_Release(&buffer);
    Py_XDECREF(path);
    if (result == NULL && !PyErr_Occurred()) tg_raise(&err, NULL);
    return result;
}

static PyObject *hlo_read(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *from;
    request q = {.read = read_graph};
    long long limit;
    if (!PyArg_ParseTuple(args, "OippL", &from, &q.padding, &q.extra, &q.sorted, &limit)) return NULL;
    q.limit = limit;
    return read_source(from, &q);
}

static PyObject *hlo_names(PyObject *self, PyObject *from) {
    (void)self;
    request q = {.read = read_names, .limit = INT64_MAX};
    return read_source(from, &q);
}

/* (source, max_bytes): what `read` makes of each program. */
static PyObject *read_within(PyObject *args, request q) {
    PyObject *from;
    long long limit;
    if (!PyArg_ParseTuple(args, "OL", &from, &limit)) return NULL;
    q.limit = limit;
    return read_source(from, &q);
}

static PyObject *hlo_fusions(PyObject *self, PyObject *args) {
    (void)self;
    return read_within(args, (request){.read = read_fusions, .sorted = 1});
}

static PyObject *hlo_work(PyObject *self, PyObject *args) {
    (void)self;
    return read_within(args, (request){.read = read_work});
}

static PyObject *hlo_work_columns(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int column = 0; column < TG_WORK_COLUMNS && list != NULL; column++) {
        char name[64];
        tg_hlo_work_name(column, name, sizeof name);
        tg_append(&list, PyUnicode_FromString(name));
    }
    return list;
}

PyMethodDef tg_hlo_methods[] = {
    {"hlo_read", hlo_read, METH_VARARGS,
     PyDoc_STR("hlo_read(source, padding, extra, sorted, max_bytes) -> (message, [{field: array}]).")},
    {"hlo_names", hlo_names, METH_O,
     PyDoc_STR("hlo_names(source) -> (message, [(names, op_names)]) of the nodes of every program.")},
    {"hlo_fusions", hlo_fusions, METH_VARARGS,
     PyDoc_STR("hlo_fusions(source, max_bytes) -> (message, [[{field: array}]]) of every program's fused "
               "computations, each with what it calls.")},
    {"hlo_work", hlo_work, METH_VARARGS,
     PyDoc_STR("hlo_work(source, max_bytes) -> (message, [work]) of every program, by hlo_work_columns().")},
    {"hlo_work_columns", hlo_work_columns, METH_NOARGS, PyDoc_STR("Names of the columns of hlo_work.")},
    {NULL, NULL, 0, NULL},
};
