/* Config digits: checked, made equal ones one, encoded, decoded, sampled. */
#include "py/py_configs.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "configs/base7.h"
#include "configs/distinct.h"
#include "configs/merge.h"
#include "configs/sample.h"

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

PyObject *tg_equal_rows(const void *rows, npy_intp C, int64_t width) {
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
    return digits == NULL ? NULL : tg_equal_rows(PyArray_DATA(digits), dims[0], (int64_t)dims[1] * dims[2]);
}

static PyObject *dedup_rows(PyObject *self, PyObject *arg) {
    (void)self;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *rows = tg_array(arg, "rows", NPY_FLOAT32, 2, dims, "(C, F)");
    return rows == NULL
               ? NULL
               : tg_equal_rows(PyArray_DATA(rows), dims[0], (int64_t)dims[1] * (int64_t)sizeof(float));
}

/* A tg_keep by its word; -1 with an exception. */
static int keep_of(const char *word) {
    static const char *const words[] = {"first", "min", "mean"};
    for (int keep = 0; keep < 3; keep++)
        if (strcmp(word, words[keep]) == 0) return keep;
    tg_error unknown;
    tg_fail(&unknown, TG_E_CONFIG, "keep: expected 'first', 'min' or 'mean', got '%.64s'", word);
    tg_raise(&unknown, NULL);
    return -1;
}

/* merge_measured(first, inverse, runtime, ran or None, keep) -> rows, runtimes */
static PyObject *merge_measured(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *objects[4];
    const char *word;
    if (!PyArg_ParseTuple(args, "OOOOO&:merge_measured", &objects[0], &objects[1], &objects[2], &objects[3],
                          tg_take_text, &word))
        return NULL;
    const int keep = keep_of(word);
    npy_intp U[1] = {-1}, C[1] = {-1};
    PyArrayObject *first = keep < 0 ? NULL : tg_array(objects[0], "first", NPY_INT64, 1, U, "(U,)");
    PyArrayObject *inverse = first == NULL ? NULL : tg_array(objects[1], "inverse", NPY_INT64, 1, C, "(C,)");
    PyArrayObject *runtime =
        inverse == NULL ? NULL : tg_array(objects[2], "runtime", NPY_FLOAT64, 1, C, "(C,)");
    PyArrayObject *ran = NULL;
    if (runtime == NULL ||
        (objects[3] != Py_None && (ran = tg_array(objects[3], "ran", NPY_BOOL, 1, C, "(C,)")) == NULL))
        return NULL;
    PyArrayObject *rows = tg_new_array(NPY_INT64, 1, U), *times = tg_new_array(NPY_FLOAT64, 1, U);
    PyArrayObject *own[2] = {tg_private_copy(first), tg_private_copy(inverse)};
    tg_error err = {0};
    tg_status status = TG_E_MEMORY;
    const int made = rows != NULL && times != NULL && own[0] != NULL && own[1] != NULL;
    if (made) {
        Py_BEGIN_ALLOW_THREADS;
        status = tg_rows_merge_real(TG_I64(rows), TG_F64(times), (tg_keep)keep, TG_I64(own[0]), U[0],
                                    TG_I64(own[1]), C[0], TG_F64(runtime),
                                    ran == NULL ? NULL : PyArray_DATA(ran), &err);
        Py_END_ALLOW_THREADS;
    }
    for (int i = 0; i < 2; i++) Py_XDECREF((PyObject *)own[i]);
    if (status == TG_OK) return Py_BuildValue("NN", rows, times);
    return fail(made ? &err : NULL, rows, times);
}

/* merge_configs(first, inverse, runtime, normalizers or None, keep) -> rows, runtimes, normalizers or None */
static PyObject *merge_configs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *objects[4];
    const char *word;
    if (!PyArg_ParseTuple(args, "OOOOO&:merge_configs", &objects[0], &objects[1], &objects[2], &objects[3],
                          tg_take_text, &word))
        return NULL;
    const int keep = keep_of(word);
    if (keep < 0) return NULL;
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

int tg_codes_array(PyObject *object, npy_intp K, tg_codes *codes) {
    int typenum = NPY_UINT8;
    if (PyArray_Check(object)) {
        const int type = PyArray_TYPE((PyArrayObject *)object);
        if (type == NPY_UINT16 || type == NPY_UINT32) typenum = type;
    }
    npy_intp dims[3] = {-1, K, TG_TENSORS};
    PyArrayObject *array = tg_array(object, "codes", typenum, 3, dims, "(C, K, 3)");
    if (array == NULL) return -1;
    *codes = (tg_codes){.data = PyArray_DATA(array),
                        .size = typenum == NPY_UINT8    ? 1
                                : typenum == NPY_UINT16 ? 2
                                                        : 4,
                        .C = dims[0],
                        .K = dims[1]};
    return 0;
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
    tg_cancel cancel = tg_python_cancel();
    Py_BEGIN_ALLOW_THREADS;
    status = epochs ? tg_sample_epoch(TG_I64(rows), n, k, key, how, &cancel, &err)
                    : tg_sample(TG_I64(rows), n, k, key, how != 0, &cancel, &err);
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

PyMethodDef tg_config_methods[] = {
    {"dedup_configs", dedup_configs, METH_O, PyDoc_STR("dedup_configs(digits) -> first, inverse")},
    {"dedup_rows", dedup_rows, METH_O,
     PyDoc_STR("dedup_rows(rows) -> first, inverse; rows compared as bytes")},
    {"merge_configs", merge_configs, METH_VARARGS,
     PyDoc_STR("merge_configs(first, inverse, runtime, normalizers, keep) -> rows, runtimes, normalizers")},
    {"merge_measured", merge_measured, METH_VARARGS,
     PyDoc_STR("merge_measured(first, inverse, runtime (C,) float64, ran or None, keep) -> rows, runtimes")},
    {"encode_base7", encode_base7, METH_VARARGS, PyDoc_STR("encode_base7(digits, out=None) -> codes")},
    {"decode_base7", decode_base7, METH_VARARGS, PyDoc_STR("decode_base7(codes, out=None) -> digits")},
    {"sample", sample, METH_VARARGS, PyDoc_STR("sample(n, k, key, sorted) -> rows")},
    {"sample_epoch", sample_epoch, METH_VARARGS, PyDoc_STR("sample_epoch(n, k, key, step) -> rows")},
    {NULL, NULL, 0, NULL},
};
