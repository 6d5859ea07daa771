/* Configs that are best together, for Python. */
#include "py/pycore.h"

#include "score/together.h"

enum { MOST_SAMPLES = 1 << 20 };

/* 0 with a ValueError unless 0 <= count <= n of values (n, samples). */
static int fits(npy_intp n, npy_intp samples, long long count) {
    if (count >= 0 && count <= n && samples > 0 && samples <= MOST_SAMPLES) return 1;
    PyErr_Format(PyExc_ValueError, "expected 0..%lld configs of 1..1048576 samples, got %lld of %lld",
                 (long long)n, count, (long long)samples);
    return 0;
}

/* chosen, or NULL with an exception. */
static PyObject *answer(PyArrayObject *chosen, tg_status status, const tg_error *err) {
    if (status == TG_OK) return (PyObject *)chosen;
    Py_DECREF((PyObject *)chosen);
    return tg_raise(err, NULL);
}

/* fastest_together(values (n,S), count, weights (S,) or None) -> (count,) int64 */
static PyObject *fastest_together(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *values_in, *weights_in;
    npy_intp dims[2] = {-1, -1};
    long long count;
    tg_error err;
    if (!PyArg_ParseTuple(args, "OLO:fastest_together", &values_in, &count, &weights_in)) return NULL;
    PyArrayObject *weights = NULL, *values = tg_array(values_in, "values", NPY_FLOAT64, 2, dims, "(n, S)");
    if (values == NULL || !fits(dims[0], dims[1], count)) return NULL;
    if (weights_in != Py_None &&
        (weights = tg_array(weights_in, "weights", NPY_FLOAT64, 1, &dims[1], "(S,)")) == NULL)
        return NULL;
    const npy_intp length = (npy_intp)count;
    PyArrayObject *chosen = tg_new_array(NPY_INT64, 1, &length);
    if (chosen == NULL) return NULL;
    tg_cancel cancel = tg_python_cancel();
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_fastest_together(TG_F64(values), dims[0], dims[1], weights == NULL ? NULL : TG_F64(weights),
                                 count, TG_I64(chosen), &cancel, &err);
    Py_END_ALLOW_THREADS
    return answer(chosen, status, &err);
}

/* normal_together(mean (n,), covariance (n,n), samples, seed, count) -> (count,) int64 */
static PyObject *normal_together(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *mean_in, *covariance_in;
    npy_intp dims[2] = {-1, -1};
    long long samples, count;
    unsigned long long seed;
    tg_error err;
    if (!PyArg_ParseTuple(args, "OOLKL:normal_together", &mean_in, &covariance_in, &samples, &seed, &count))
        return NULL;
    PyArrayObject *mean = tg_array(mean_in, "mean", NPY_FLOAT64, 1, dims, "(n,)");
    if (mean == NULL) return NULL;
    dims[1] = dims[0];
    PyArrayObject *covariance = tg_array(covariance_in, "covariance", NPY_FLOAT64, 2, dims, "(n, n)");
    if (covariance == NULL || !fits(dims[0], (npy_intp)samples, count)) return NULL;
    const npy_intp length = (npy_intp)count;
    PyArrayObject *chosen = tg_new_array(NPY_INT64, 1, &length), *factor = tg_private_copy(covariance);
    tg_status status = TG_E_MEMORY;
    tg_fail(&err, status, "no memory for %lld configs", (long long)dims[0]);
    if (chosen != NULL && factor != NULL) {
        tg_cancel cancel = tg_python_cancel();
        Py_BEGIN_ALLOW_THREADS
        status = tg_normal_together(TG_F64(mean), TG_F64(factor), dims[0], samples, seed, count,
                                    TG_I64(chosen), &cancel, &err);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF((PyObject *)factor);
    if (chosen == NULL) return NULL;
    return answer(chosen, status, &err);
}

PyMethodDef tg_choice_methods[] = {
    {"fastest_together", fastest_together, METH_VARARGS,
     PyDoc_STR("Configs whose fastest is expected to be fastest, of samples.")},
    {"normal_together", normal_together, METH_VARARGS,
     PyDoc_STR("Configs whose fastest is expected to be fastest, of normal samples.")},
    {NULL, NULL, 0, NULL},
};
