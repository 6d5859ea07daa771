/* Pruning, config digits, scaling and sampling over NumPy arrays. */
#include "py/pycore.h"

#include <string.h>

#include "base/rng.h"
#include "data/configs.h"
#include "data/distinct.h"
#include "data/sample.h"
#include "data/scaler.h"
#include "graph/prune.h"
#include "py/py_pack.h"

/* Raise for a failed status and drop the arrays made so far (any may be NULL). */
static PyObject *fail(const tg_error *err, PyArrayObject *a, PyArrayObject *b) {
    Py_XDECREF((PyObject *)a);
    Py_XDECREF((PyObject *)b);
    return err == NULL ? NULL : tg_raise(err, NULL);
}

/* A new array holding the first `n` entries of `a`; steals the reference to `a`. */
static PyArrayObject *head_of(PyArrayObject *a, npy_intp n) {
    if (a == NULL || PyArray_DIM(a, 0) == n) return a;
    PyArrayObject *head = tg_new_array(NPY_INT64, 1, &n);
    if (head != NULL) memcpy(PyArray_DATA(head), PyArray_DATA(a), (size_t)n * sizeof(int64_t));
    Py_DECREF(a);
    return head;
}

static PyObject *copied(int ndim, const npy_intp *dims, const int64_t *data, npy_intp items) {
    PyArrayObject *array = tg_new_array(NPY_INT64, ndim, dims);
    if (array != NULL && items > 0) memcpy(PyArray_DATA(array), data, (size_t)items * sizeof *data);
    return (PyObject *)array;
}

/* prune(edge_index, num_nodes, config_nodes, method, hops) -> nodes, edge_index, config_nodes */
static PyObject *prune(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *edges, *configs;
    long long N, hops;
    const char *method;
    if (!PyArg_ParseTuple(args, "OLOsL:prune", &edges, &N, &configs, &method, &hops)) return NULL;
    npy_intp e[2] = {-1, 2}, k[1] = {-1};
    PyArrayObject *edge_index = tg_array(edges, "edge_index", NPY_INT64, 2, e, "(E, 2)");
    if (edge_index == NULL) return NULL;
    PyArrayObject *config_nodes = tg_array(configs, "config_nodes", NPY_INT64, 1, k, "(K,)");
    if (config_nodes == NULL) return NULL;
    config_nodes = tg_private_copy(config_nodes);
    if (config_nodes == NULL) return NULL;
    tg_prune_input in = {N, e[0], k[0], TG_I64(edge_index), TG_I64(config_nodes), hops};
    tg_pruned out;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_prune(&out, method, &in, &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(config_nodes);
    if (status != TG_OK) return tg_raise(&err, NULL);
    npy_intp n[1] = {(npy_intp)out.N};
    e[0] = (npy_intp)out.E;
    PyObject *nodes = copied(1, n, out.nodes, n[0]);
    PyObject *kept_edges = copied(2, e, out.edge_index, 2 * e[0]);
    PyObject *kept_configs = copied(1, k, out.config_nodes, k[0]);
    tg_pruned_free(&out);
    PyObject *result = NULL;
    if (nodes != NULL && kept_edges != NULL && kept_configs != NULL)
        result = PyTuple_Pack(3, nodes, kept_edges, kept_configs);
    Py_XDECREF((PyObject *)nodes);
    Py_XDECREF(kept_edges);
    Py_XDECREF(kept_configs);
    return result;
}

/* The equal rows among C rows of `width` bytes -> (first, inverse). */
static PyObject *dedup_bytes(const void *rows, npy_intp C, int64_t width) {
    PyArrayObject *first = tg_new_array(NPY_INT64, 1, &C), *inverse = tg_new_array(NPY_INT64, 1, &C);
    if (first == NULL || inverse == NULL) return fail(NULL, first, inverse);
    int64_t distinct = 0;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_rows_dedup(TG_I64(first), TG_I64(inverse), &distinct, rows, C, width, &err);
    Py_END_ALLOW_THREADS;
    if (status != TG_OK) return fail(&err, first, inverse);
    first = head_of(first, (npy_intp)distinct);
    if (first == NULL) return fail(NULL, NULL, inverse);
    return Py_BuildValue("NN", first, inverse);
}

static PyObject *dedup_configs(PyObject *self, PyObject *arg) {
    (void)self;
    npy_intp dims[3] = {-1, -1, -1};
    PyArrayObject *digits = tg_array(arg, "digits", NPY_INT8, 3, dims, "(C, K, D)");
    return digits == NULL ? NULL : dedup_bytes(PyArray_DATA(digits), dims[0], (int64_t)dims[1] * dims[2]);
}

static PyObject *dedup_codes(PyObject *self, PyObject *arg) {
    (void)self;
    tg_codes codes;
    if (tg_codes_array(arg, -1, &codes) < 0) return NULL;
    return dedup_bytes(codes.data, (npy_intp)codes.C, codes.K * TG_TENSORS * codes.size);
}

static PyObject *dedup_rows(PyObject *self, PyObject *arg) {
    (void)self;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *rows = tg_array(arg, "rows", NPY_FLOAT32, 2, dims, "(C, F)");
    return rows == NULL ? NULL
                        : dedup_bytes(PyArray_DATA(rows), dims[0], (int64_t)dims[1] * (int64_t)sizeof(float));
}

/* merge_configs(first, inverse, runtime, normalizers or None, keep) -> rows, runtimes, normalizers or None */
static PyObject *merge_configs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *objects[4];
    const char *word;
    if (!PyArg_ParseTuple(args, "OOOOs:merge_configs", &objects[0], &objects[1], &objects[2], &objects[3],
                          &word))
        return NULL;
    static const char *const words[] = {"first", "min", "mean"};
    int keep = 0;
    while (keep < 3 && strcmp(word, words[keep]) != 0) keep++;
    if (keep == 3) {
        tg_error unknown;
        tg_fail(&unknown, TG_E_CONFIG, "keep: expected 'first', 'min' or 'mean', got '%.64s'", word);
        return tg_raise(&unknown, NULL);
    }
    npy_intp U[1] = {-1}, C[1] = {-1};
    PyArrayObject *first = tg_array(objects[0], "first", NPY_INT64, 1, U, "(U,)");
    PyArrayObject *inverse = first == NULL ? NULL : tg_array(objects[1], "inverse", NPY_INT64, 1, C, "(C,)");
    PyArrayObject *runtime =
        inverse == NULL ? NULL : tg_array(objects[2], "runtime", NPY_INT64, 1, C, "(C,)");
    if (runtime == NULL) return NULL;
    PyArrayObject *norm = NULL;
    if (objects[3] != Py_None &&
        (norm = tg_array(objects[3], "normalizers", NPY_INT64, 1, C, "(C,)")) == NULL)
        return NULL;
    PyArrayObject *out[3] = {NULL, NULL, NULL};
    first = tg_private_copy(first);
    inverse = tg_private_copy(inverse);
    if (first == NULL || inverse == NULL) goto failed;
    for (int i = 0; i < (norm == NULL ? 2 : 3); i++)
        if ((out[i] = tg_new_array(NPY_INT64, 1, U)) == NULL) goto failed;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_rows_merge(TG_I64(out[0]), TG_I64(out[1]), norm == NULL ? NULL : TG_I64(out[2]),
                           (tg_keep)keep, TG_I64(first), U[0], TG_I64(inverse), C[0], TG_I64(runtime),
                           norm == NULL ? NULL : TG_I64(norm), &err);
    Py_END_ALLOW_THREADS;
    if (status != TG_OK) {
        tg_raise(&err, NULL);
        goto failed;
    }
    Py_DECREF(first);
    Py_DECREF(inverse);
    if (norm == NULL) return Py_BuildValue("NNO", out[0], out[1], Py_None);
    return Py_BuildValue("NNN", out[0], out[1], out[2]);
failed:
    Py_XDECREF((PyObject *)first);
    Py_XDECREF((PyObject *)inverse);
    for (int i = 0; i < 3; i++) Py_XDECREF((PyObject *)out[i]);
    return NULL;
}

/* encode_base7(digits, out=None) -> codes */
static PyObject *encode_base7(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given, *out = NULL;
    if (!PyArg_ParseTuple(args, "O|O:encode_base7", &given, &out)) return NULL;
    npy_intp dims[3] = {-1, -1, TG_DIGITS};
    PyArrayObject *digits = tg_array(given, "digits", NPY_INT8, 3, dims, "(C, K, 18)");
    if (digits == NULL) return NULL;
    dims[2] = 3;
    PyArrayObject *codes = tg_out_array(out, "out", NPY_INT32, 3, dims, 1, &digits);
    if (codes == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_base7_encode(TG_I32(codes), TG_I8(digits), dims[0], dims[1], &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? (PyObject *)codes : fail(&err, codes, NULL);
}

/* decode_base7(codes, out=None) -> digits */
static PyObject *decode_base7(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given, *out = NULL;
    if (!PyArg_ParseTuple(args, "O|O:decode_base7", &given, &out)) return NULL;
    npy_intp dims[3] = {-1, -1, TG_TENSORS};
    PyArrayObject *codes = tg_array(given, "codes", NPY_INT32, 3, dims, "(C, K, 3)");
    if (codes == NULL) return NULL;
    dims[2] = TG_DIGITS;
    PyArrayObject *digits = tg_out_array(out, "out", NPY_INT8, 3, dims, 1, &codes);
    if (digits == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_base7_decode(TG_I8(digits), TG_I32(codes), dims[0], dims[1], &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? (PyObject *)digits : fail(&err, digits, NULL);
}

static PyObject *layout_digits(PyObject *self, PyObject *arg) {
    (void)self;
    npy_intp dims[2] = {-1, TG_NODE_FEATURES};
    PyArrayObject *feat = tg_array(arg, "node_feat", NPY_FLOAT32, 2, dims, "(N, 140)");
    if (feat == NULL) return NULL;
    dims[1] = TG_LAYOUT_DIGITS;
    PyArrayObject *digits = tg_new_array(NPY_INT8, 2, dims);
    if (digits == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_layout_digits(TG_I8(digits), TG_F32(feat), dims[0], -1, &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? (PyObject *)digits : fail(&err, digits, NULL);
}

/* scaler_merge(count, mean, m2, x) -> count: mean and m2 are updated in place */
static PyObject *scaler_merge(PyObject *self, PyObject *args) {
    (void)self;
    long long given;
    PyObject *objects[3];
    if (!PyArg_ParseTuple(args, "LOOO:scaler_merge", &given, &objects[0], &objects[1], &objects[2]))
        return NULL;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *x = tg_array(objects[2], "x", NPY_FLOAT32, 2, dims, "(n, F)");
    PyArrayObject *mean = x == NULL ? NULL : tg_array(objects[0], "mean", NPY_FLOAT64, 1, dims + 1, "(F,)");
    PyArrayObject *m2 = mean == NULL ? NULL : tg_array(objects[1], "m2", NPY_FLOAT64, 1, dims + 1, "(F,)");
    if (m2 == NULL) return NULL;
    if (given < 0 || !PyArray_ISWRITEABLE(mean) || !PyArray_ISWRITEABLE(m2) ||
        PyArray_DATA(mean) == PyArray_DATA(m2)) {
        PyErr_SetString(PyExc_ValueError,
                        "scaler_merge: count must be >= 0, mean and m2 distinct writable arrays");
        return NULL;
    }
    int64_t count = given;
    const tg_rows rows = {TG_F32(x), dims[0], dims[1], dims[1], "x"};
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_scaler_merge(&count, TG_F64(mean), TG_F64(m2), &rows, &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? PyLong_FromLongLong(count) : tg_raise(&err, NULL);
}

/* scaler_scale(count, m2) -> scale */
static PyObject *scaler_scale(PyObject *self, PyObject *args) {
    (void)self;
    long long count;
    PyObject *object;
    npy_intp F[1] = {-1};
    if (!PyArg_ParseTuple(args, "LO:scaler_scale", &count, &object)) return NULL;
    PyArrayObject *m2 = tg_array(object, "m2", NPY_FLOAT64, 1, F, "(F,)");
    PyArrayObject *scale = m2 == NULL ? NULL : tg_new_array(NPY_FLOAT64, 1, F);
    if (scale != NULL) tg_scaler_scale(TG_F64(scale), TG_F64(m2), count, F[0]);
    return (PyObject *)scale;
}

/* scaler_transform(x, mean, scale) -> y */
static PyObject *scaler_transform(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *objects[3];
    if (!PyArg_ParseTuple(args, "OOO:scaler_transform", &objects[0], &objects[1], &objects[2])) return NULL;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *mean = tg_array(objects[1], "mean", NPY_FLOAT64, 1, dims + 1, "(F,)");
    PyArrayObject *scale =
        mean == NULL ? NULL : tg_array(objects[2], "scale", NPY_FLOAT64, 1, dims + 1, "(F,)");
    PyArrayObject *x = scale == NULL ? NULL : tg_array(objects[0], "x", NPY_FLOAT32, 2, dims, "(n, F)");
    PyArrayObject *y = x == NULL ? NULL : tg_new_array(NPY_FLOAT32, 2, dims);
    if (y == NULL) return NULL;
    const tg_rows rows = {TG_F32(x), dims[0], dims[1], dims[1], "x"};
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_scaler_transform(TG_F32(y), &rows, TG_F64(mean), TG_F64(scale), &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? (PyObject *)y : fail(&err, y, NULL);
}

/* The key of a tuple of integers, each taken modulo 2^64. */
static int key_of(PyObject *labels, uint64_t *key) {
    *key = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(labels); i++) {
        unsigned long long label = PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(labels, i));
        if (label == (unsigned long long)-1 && PyErr_Occurred()) return 0;
        *key = tg_key(*key, label);
    }
    return 1;
}

/* Both samplers: n, k, key, and `how`: whether sorted, or the step. */
static PyObject *draw(PyObject *args, const char *format, int epochs) {
    long long n, k, how;
    PyObject *labels;
    uint64_t key;
    if (!PyArg_ParseTuple(args, format, &n, &k, &PyTuple_Type, &labels, &how) || !key_of(labels, &key))
        return NULL;
    npy_intp length = k < 0 || k > n ? 0 : (npy_intp)k; /* what is out of range is refused below */
    PyArrayObject *rows = tg_new_array(NPY_INT64, 1, &length);
    if (rows == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = epochs ? tg_sample_epoch(TG_I64(rows), n, k, key, how, &err)
                    : tg_sample(TG_I64(rows), n, k, key, how != 0, &err);
    Py_END_ALLOW_THREADS;
    return status == TG_OK ? (PyObject *)rows : fail(&err, rows, NULL);
}

static PyObject *sample(PyObject *self, PyObject *args) {
    (void)self;
    return draw(args, "LLO!L:sample", 0);
}

static PyObject *sample_epoch(PyObject *self, PyObject *args) {
    (void)self;
    return draw(args, "LLO!L:sample_epoch", 1);
}

PyMethodDef tg_graph_methods[] = {
    {"prune", prune, METH_VARARGS, PyDoc_STR("prune(edge_index, num_nodes, config_nodes, method, hops)")},
    {"dedup_configs", dedup_configs, METH_O, PyDoc_STR("dedup_configs(digits) -> first, inverse")},
    {"dedup_codes", dedup_codes, METH_O, PyDoc_STR("dedup_codes(codes (C, K, 3)) -> first, inverse")},
    {"dedup_rows", dedup_rows, METH_O,
     PyDoc_STR("dedup_rows(rows) -> first, inverse; rows compared as bytes")},
    {"merge_configs", merge_configs, METH_VARARGS,
     PyDoc_STR("merge_configs(first, inverse, runtime, normalizers, keep) -> rows, runtimes, normalizers")},
    {"encode_base7", encode_base7, METH_VARARGS, PyDoc_STR("encode_base7(digits, out=None) -> codes")},
    {"decode_base7", decode_base7, METH_VARARGS, PyDoc_STR("decode_base7(codes, out=None) -> digits")},
    {"layout_digits", layout_digits, METH_O, PyDoc_STR("layout_digits(node_feat) -> digits")},
    {"scaler_merge", scaler_merge, METH_VARARGS, PyDoc_STR("scaler_merge(count, mean, m2, x) -> count")},
    {"scaler_scale", scaler_scale, METH_VARARGS, PyDoc_STR("scaler_scale(count, m2) -> scale")},
    {"scaler_transform", scaler_transform, METH_VARARGS, PyDoc_STR("scaler_transform(x, mean, scale) -> y")},
    {"sample", sample, METH_VARARGS, PyDoc_STR("sample(n, k, key, sorted) -> rows")},
    {"sample_epoch", sample_epoch, METH_VARARGS, PyDoc_STR("sample_epoch(n, k, key, step) -> rows")},
    {NULL, NULL, 0, NULL},
};
