/* Layout digits and scaling of node features. */
#include "py/pycore.h"

#include "features/layout.h"
#include "features/scaler.h"
#include "features/schema.h"

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
    status = tg_layout_digits(TG_I8(digits), TG_F32(feat), TG_NODE_FEATURES, dims[0], -1, -1, &err);
    Py_END_ALLOW_THREADS;
    if (status == TG_OK) return (PyObject *)digits;
    Py_DECREF(digits);
    return tg_raise(&err, NULL);
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
    if (status == TG_OK) return (PyObject *)y;
    Py_DECREF(y);
    return tg_raise(&err, NULL);
}

PyMethodDef tg_feature_methods[] = {
    {"layout_digits", layout_digits, METH_O, PyDoc_STR("layout_digits(node_feat) -> digits")},
    {"scaler_merge", scaler_merge, METH_VARARGS, PyDoc_STR("scaler_merge(count, mean, m2, x) -> count")},
    {"scaler_scale", scaler_scale, METH_VARARGS, PyDoc_STR("scaler_scale(count, m2) -> scale")},
    {"scaler_transform", scaler_transform, METH_VARARGS, PyDoc_STR("scaler_transform(x, mean, scale) -> y")},
    {NULL, NULL, 0, NULL},
};
