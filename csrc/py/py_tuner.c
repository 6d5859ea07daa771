/* Surrogates of a tuner, for Python. */
#include "py/py_space.h"

#include <stdlib.h>
#include <string.h>

#include "search/extra_trees.h"
#include "search/surrogate.h"
#include "search/tuner.h"

static PyArrayObject *columns(PyObject *given, const char *name, npy_intp rows, npy_intp F) {
    npy_intp dims[2] = {rows, F};
    return tg_array(given, name, NPY_FLOAT64, 2, dims, "(n, F)");
}

static int all_finite(PyArrayObject *array, const char *name) {
    const double *value = TG_F64(array);
    for (npy_intp i = 0; i < PyArray_SIZE(array); i++)
        if (!(value[i] > -1e300 && value[i] < 1e300)) {
            PyErr_Format(PyExc_ValueError, "%s: expected finite numbers", name);
            return 0;
        }
    return 1;
}

/* Whether x(n, F), y(n), pool(m, F) are what they are to be, with dims {n, F, m}. */
static int take(PyObject *const given[3], PyArrayObject *found[3], npy_intp dims[3]) {
    found[0] = columns(given[0], "x", -1, -1);
    if (found[0] == NULL) return 0;
    dims[0] = PyArray_DIM(found[0], 0), dims[1] = PyArray_DIM(found[0], 1);
    found[1] = tg_array(given[1], "y", NPY_FLOAT64, 1, dims, "(n,)");
    found[2] = found[1] == NULL ? NULL : columns(given[2], "pool", -1, dims[1]);
    if (found[2] == NULL) return 0;
    dims[2] = PyArray_DIM(found[2], 0);
    if (dims[1] < 1 || dims[1] > TG_SURROGATE_COLUMNS) {
        PyErr_Format(PyExc_ValueError, "x: expected 1..%d columns, got %lld", (int)TG_SURROGATE_COLUMNS,
                     (long long)dims[1]);
        return 0;
    }
    return all_finite(found[0], "x") && all_finite(found[1], "y") && all_finite(found[2], "pool");
}

/* tree_means(x, y, pool, trees, key) -> (m,) float64 */
static PyObject *tree_means(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given[3];
    PyArrayObject *a[3];
    npy_intp dims[3];
    int trees;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "OOOiK:tree_means", &given[0], &given[1], &given[2], &trees, &key) ||
        !take(given, a, dims))
        return NULL;
    if (trees < 1 || trees > TG_TREES_MOST || dims[0] < 1)
        return PyErr_SetString(PyExc_ValueError, "tree_means: expected rows and trees"), NULL;
    const npy_intp both[2] = {trees, dims[2]};
    PyArrayObject *found = tg_new_array(NPY_FLOAT32, 2, both), *mean = tg_new_array(NPY_FLOAT64, 1, &dims[2]);
    tg_status status = TG_E_MEMORY;
    tg_error err;
    if (found != NULL && mean != NULL) {
        const tg_trees how = {trees, 1, (int32_t)dims[1], key};
        tg_cancel cancel = tg_python_cancel();
        PyThreadState *thread = PyEval_SaveThread();
        status = tg_extra_trees(&how, TG_F64(a[0]), TG_F64(a[1]), dims[0], dims[1], TG_F64(a[2]), dims[2],
                                TG_F32(found), &cancel, &err);
        for (npy_intp i = 0; i < dims[2] && status == TG_OK; i++) {
            double sum = 0;
            for (npy_intp t = 0; t < trees; t++) sum += TG_F32(found)[t * dims[2] + i];
            TG_F64(mean)[i] = sum / trees;
        }
        PyEval_RestoreThread(thread);
        if (status != TG_OK) tg_raise(&err, NULL);
    }
    Py_XDECREF((PyObject *)found);
    if (status == TG_OK) return (PyObject *)mean;
    Py_XDECREF((PyObject *)mean);
    return NULL;
}

/* With no chance of failing; found: gradient (F + 2), left_out (n), mean (m), variance (m), chosen (count). */
static tg_status look(PyArrayObject *const a[3], const npy_intp dims[3], const double *logs, int gaining,
                      double *value, PyArrayObject *const found[5], tg_error *err) {
    const double *x = TG_F64(a[0]), *y = TG_F64(a[1]), *pool = TG_F64(a[2]);
    double *mean = TG_F64(found[2]), *none = calloc((size_t)dims[2] + 1, sizeof *none);
    tg_surrogate s = {.block = NULL};
    tg_status status =
        none == NULL ? tg_fail(err, TG_E_MEMORY, "no memory")
                     : tg_surrogate_posterior(x, y, dims[0], dims[1], logs, value, TG_F64(found[0]), err);
    if (status == TG_OK) status = tg_surrogate_fit(&s, x, y, dims[0], dims[1], logs, err);
    if (status == TG_OK) status = tg_surrogate_left_out(&s, TG_F64(found[1]), err);
    if (status == TG_OK) status = tg_surrogate_mean(&s, pool, dims[2], mean, TG_F64(found[3]), err);
    if (status == TG_OK)
        status = tg_surrogate_choose(&s, pool, dims[2], mean, none, gaining, PyArray_DIM(found[4], 0),
                                     TG_I64(found[4]), err);
    tg_surrogate_free(&s);
    free(none);
    return status;
}

/* process(x, y, pool, logs, gaining, count) -> (value, gradient, left_out, mean, variance, chosen): all of search/surrogate.h */
static PyObject *process(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given[3], *of;
    PyArrayObject *a[3], *found[5] = {NULL};
    npy_intp dims[3];
    double value = 0;
    int gaining;
    long long count;
    if (!PyArg_ParseTuple(args, "OOOOpL:process", &given[0], &given[1], &given[2], &of, &gaining, &count) ||
        !take(given, a, dims))
        return NULL;
    npy_intp logs = dims[1] + 2;
    PyArrayObject *at = tg_array(of, "logs", NPY_FLOAT64, 1, &logs, "(F + 2,)");
    if (at == NULL || !all_finite(at, "logs")) return NULL;
    if (dims[0] < 1 || dims[0] > TG_SURROGATE_ROWS || count < 0 || count > dims[2])
        return PyErr_Format(PyExc_ValueError, "process: expected 1..%d rows, and count <= m",
                            (int)TG_SURROGATE_ROWS);
    const npy_intp sizes[5] = {logs, dims[0], dims[2], dims[2], (npy_intp)count};
    tg_error err;
    int made = 1;
    for (int i = 0; i < 5 && made; i++)
        made = (found[i] = tg_new_array(i < 4 ? NPY_FLOAT64 : NPY_INT64, 1, &sizes[i])) != NULL;
    if (made) memset(TG_F64(found[0]), 0, (size_t)logs * sizeof(double));
    PyThreadState *thread = PyEval_SaveThread();
    const tg_status status = made ? look(a, dims, TG_F64(at), gaining, &value, found, &err) : TG_E_MEMORY;
    PyEval_RestoreThread(thread);
    if (status == TG_OK)
        return Py_BuildValue("dNNNNN", value, found[0], found[1], found[2], found[3], found[4]);
    if (made) tg_raise(&err, NULL);
    for (int i = 0; i < 5; i++) Py_XDECREF((PyObject *)found[i]);
    return NULL;
}

/* next_configs(x, y, cause, pool, count, gaining, key) -> (chosen (count,) int64, model, tau of the process, of trees) */
static PyObject *next_configs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given[3], *causes;
    PyArrayObject *a[3];
    npy_intp dims[3];
    long long count;
    int gaining;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "OOOOLpK:next_configs", &given[0], &given[1], &causes, &given[2], &count,
                          &gaining, &key) ||
        !take(given, a, dims))
        return NULL;
    PyArrayObject *cause = tg_array(causes, "cause", NPY_INT32, 1, dims, "(n,)");
    if (cause == NULL) return NULL;
    npy_intp ran = 0;
    for (npy_intp i = 0; i < dims[0]; i++) {
        if (TG_I32(cause)[i] < 0 || TG_I32(cause)[i] >= TG_CAUSES)
            return PyErr_Format(PyExc_ValueError, "cause: expected 0..%d, got %d", TG_CAUSES - 1,
                                (int)TG_I32(cause)[i]);
        ran += TG_I32(cause)[i] == 0;
    }
    if (ran < 2 || count < 0 || count > dims[2])
        return PyErr_SetString(PyExc_ValueError, "next_configs: expected 2 rows that ran, and count <= m"),
               NULL;
    const npy_intp many = (npy_intp)count;
    PyArrayObject *chosen = tg_new_array(NPY_INT64, 1, &many);
    if (chosen == NULL) return NULL;
    const tg_told told = {dims[0], dims[1], TG_F64(a[0]), TG_F64(a[1]), TG_I32(cause), gaining};
    tg_asked asked;
    tg_error err;
    tg_cancel cancel = tg_python_cancel();
    PyThreadState *thread = PyEval_SaveThread();
    const tg_status status =
        tg_tuner_choose(&told, TG_F64(a[2]), dims[2], count, key, TG_I64(chosen), &asked, &cancel, &err);
    PyEval_RestoreThread(thread);
    if (status == TG_OK)
        return Py_BuildValue("Nsdd", (PyObject *)chosen, asked.model == TG_BY_TREES ? "trees" : "process",
                             asked.tau[0], asked.tau[1]);
    Py_DECREF((PyObject *)chosen);
    return tg_raise(&err, NULL);
}

/* first_configs(x, pool, count, key) -> chosen (count,) int64 */
static PyObject *first_configs(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *given[2];
    long long count;
    unsigned long long key;
    if (!PyArg_ParseTuple(args, "OOLK:first_configs", &given[0], &given[1], &count, &key)) return NULL;
    PyArrayObject *x = columns(given[0], "x", -1, -1);
    PyArrayObject *pool = x == NULL ? NULL : columns(given[1], "pool", -1, PyArray_DIM(x, 1));
    if (pool == NULL) return NULL;
    const npy_intp many = (npy_intp)count, m = PyArray_DIM(pool, 0);
    if (count < 0 || count > m)
        return PyErr_SetString(PyExc_ValueError, "first_configs: expected count <= m"), NULL;
    PyArrayObject *chosen = tg_new_array(NPY_INT64, 1, &many);
    if (chosen == NULL) return NULL;
    const npy_intp n = PyArray_DIM(x, 0), F = PyArray_DIM(x, 1);
    tg_error err;
    tg_cancel cancel = tg_python_cancel();
    PyThreadState *thread = PyEval_SaveThread();
    const tg_status status =
        tg_tuner_begin(TG_F64(x), n, F, TG_F64(pool), m, count, key, TG_I64(chosen), &cancel, &err);
    PyEval_RestoreThread(thread);
    if (status == TG_OK) return (PyObject *)chosen;
    Py_DECREF((PyObject *)chosen);
    return tg_raise(&err, NULL);
}

PyMethodDef tg_tuner_methods[] = {
    {"tree_means", tree_means, METH_VARARGS, PyDoc_STR("Predictions of extremely randomized trees.")},
    {"process", process, METH_VARARGS, PyDoc_STR("Posterior of a Gaussian process at configs.")},
    {"next_configs", next_configs, METH_VARARGS, PyDoc_STR("Configs to measure next, by a surrogate.")},
    {"first_configs", first_configs, METH_VARARGS,
     PyDoc_STR("Configs to measure first, far from each other.")},
    {NULL, NULL, 0, NULL},
};
