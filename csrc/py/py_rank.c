/* Losses and metrics over NumPy arrays. Orders are all the core needs, so runtimes become 64-bit keys here.
 */
#include "py/pycore.h"

#include <stdlib.h>
#include <string.h>

#include "rank/loss.h"
#include "py/py_rank.h"
#include "rank/metrics.h"
#include "rank/ratio.h"

int tg_py_loss_names(const char *kind, const char *reduction, tg_loss_spec *spec) {
    static const char *const kinds[] = {"pairwise_hinge", "list_mle"};
    static const char *const reductions[] = {"mean-all", "sum", "mean-pairs"};
    int k = 0, r = 0;
    while (k < 2 && strcmp(kind, kinds[k]) != 0) k++;
    while (r < 3 && strcmp(reduction, reductions[r]) != 0) r++;
    spec->kind = (tg_loss_kind)k;
    spec->reduction = (tg_reduction)r;
    if (k < 2 && r < 3) return 1;
    tg_error err;
    if (k == 2)
        tg_fail(&err, TG_E_CONFIG, "loss must be \"pairwise_hinge\" or \"list_mle\", got \"%s\"", kind);
    else
        tg_fail(&err, TG_E_CONFIG, "reduction must be \"mean-all\", \"sum\" or \"mean-pairs\", got \"%s\"",
                reduction);
    tg_raise(&err, NULL);
    return 0;
}

/* A 1-D array of one of the number types a metric or loss takes; NULL with ShapeError set. dims as in
 * tg_array. */
static PyArrayObject *numbers(PyObject *object, const char *name, npy_intp *dims, int integers_first) {
    static const int types[] = {NPY_FLOAT32, NPY_FLOAT64, NPY_INT64, NPY_INT32};
    int type = integers_first ? NPY_INT64 : NPY_FLOAT32;
    if (PyArray_Check(object))
        for (int i = 0; i < 4; i++)
            if (PyArray_TYPE((PyArrayObject *)object) == types[i]) type = types[i];
    return tg_array(object, name, type, 1, dims, "(L,)");
}

/* What tg_keys needs to know of an array. */
static tg_numbers view(PyArrayObject *array) {
    tg_numbers x = {PyArray_DATA(array), TG_NUMBER_F32, PyArray_DIM(array, 0)};
    if (PyArray_TYPE(array) == NPY_FLOAT64) x.type = TG_NUMBER_F64;
    if (PyArray_TYPE(array) == NPY_INT64) x.type = TG_NUMBER_I64;
    if (PyArray_TYPE(array) == NPY_INT32) x.type = TG_NUMBER_I32;
    return x;
}

/* runtimes as int64 of the same order: int64 as they are, others through keys into `*owned` (to be freed). */
static const int64_t *integer_runtimes(PyArrayObject *array, int64_t **owned) {
    tg_error err;
    *owned = NULL;
    if (PyArray_TYPE(array) == NPY_INT64) return TG_I64(array);
    tg_numbers x = view(array);
    uint64_t *keys = malloc((size_t)x.n * sizeof *keys + 1);
    if (keys == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (tg_number_keys(x, "runtimes", keys, &err) != TG_OK) {
        free(keys);
        tg_raise(&err, NULL);
        return NULL;
    }
    *owned = (int64_t *)keys;
    for (int64_t i = 0; i < x.n; i++) (*owned)[i] = (int64_t)(keys[i] ^ UINT64_C(1) << 63);
    return *owned;
}

static int offsets_fit(PyArrayObject *offsets, npy_intp lists, npy_intp length) {
    if (lists >= 0 && TG_I64(offsets)[0] == 0 && TG_I64(offsets)[lists] == length) return 1;
    tg_error err;
    if (lists < 0)
        tg_fail(&err, TG_E_SHAPE, "offsets: expected int64 array of shape (B+1,), got an empty one");
    else
        tg_fail(&err, TG_E_SHAPE,
                "offsets: expected to run from 0 to %lld (the number of scores), found %lld to %lld",
                (long long)length, (long long)TG_I64(offsets)[0], (long long)TG_I64(offsets)[lists]);
    tg_raise(&err, NULL);
    return 0;
}

/* 0 with ShapeError set if `runtimes` is a list of another length; anything else is checked later. */
static int as_many_runtimes(PyObject *runtimes, npy_intp scores) {
    if (!PyArray_Check(runtimes) || PyArray_NDIM((PyArrayObject *)runtimes) != 1) return 1;
    const npy_intp length = PyArray_DIM((PyArrayObject *)runtimes, 0);
    if (length == scores) return 1;
    tg_error err;
    tg_fail(&err, TG_E_SHAPE,
            "scores and runtimes: expected one runtime per score, got %lld scores and %lld runtimes",
            (long long)scores, (long long)length);
    tg_raise(&err, NULL);
    return 0;
}

/* loss_lists(kind, reduction, margin, key, scores, runtimes, offsets or None) -> loss, dscores */
static PyObject *loss_lists(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind, *reduction;
    PyObject *scores_in, *runtimes_in, *offsets_in;
    unsigned long long seed;
    double margin, loss;
    tg_loss_spec spec = {0};
    tg_error err;
    if (!PyArg_ParseTuple(args, "ssdKOOO:loss_lists", &kind, &reduction, &margin, &seed, &scores_in,
                          &runtimes_in, &offsets_in))
        return NULL;
    if (!tg_py_loss_names(kind, reduction, &spec)) return NULL;
    spec.margin = (float)margin;
    spec.key = seed;
    npy_intp length = -1, ends = -1;
    PyArrayObject *scores = tg_array(scores_in, "scores", NPY_FLOAT32, 1, &length, "(L,)");
    if (scores == NULL || !as_many_runtimes(runtimes_in, length)) return NULL;
    PyArrayObject *runtimes = numbers(runtimes_in, "runtimes", &length, 1);
    if (runtimes == NULL) return NULL;
    const int64_t one_list[2] = {0, (int64_t)length};
    PyArrayObject *offsets = NULL;
    if (offsets_in != Py_None) {
        offsets = tg_array(offsets_in, "offsets", NPY_INT64, 1, &ends, "(B+1,)");
        if (offsets == NULL || !offsets_fit(offsets, ends - 1, length)) return NULL;
    }
    int64_t *owned;
    const int64_t *y = integer_runtimes(runtimes, &owned);
    if (y == NULL) return NULL;
    PyArrayObject *dscores = tg_new_array(NPY_FLOAT32, 1, &length);
    PyArrayObject *ends_of = offsets == NULL ? NULL : tg_private_copy(offsets);
    tg_status status = TG_E_MEMORY;
    if (dscores != NULL && (offsets == NULL || ends_of != NULL)) {
        const int64_t *list_ends = offsets == NULL ? one_list : TG_I64(ends_of);
        const int64_t lists = offsets == NULL ? 1 : ends - 1;
        Py_BEGIN_ALLOW_THREADS
        status = tg_loss_lists(&spec, lists, list_ends, TG_F32(scores), y, TG_F32(dscores), &loss, &err);
        Py_END_ALLOW_THREADS
        if (status != TG_OK) tg_raise(&err, NULL);
    }
    free(owned);
    Py_XDECREF((PyObject *)ends_of);
    if (status == TG_OK) return Py_BuildValue("dN", loss, dscores);
    Py_XDECREF((PyObject *)dscores);
    return NULL;
}

/* (runtimes, normalizers) -> ranks of the quotients */
static PyObject *ratio_ranks(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *runtimes_in, *normalizers_in;
    if (!PyArg_ParseTuple(args, "OO:ratio_ranks", &runtimes_in, &normalizers_in)) return NULL;
    npy_intp length = -1;
    PyArrayObject *y = tg_array(runtimes_in, "runtimes", NPY_INT64, 1, &length, "(n,)");
    if (y == NULL) return NULL;
    PyArrayObject *d = tg_array(normalizers_in, "normalizers", NPY_INT64, 1, &length, "(n,)");
    if (d == NULL) return NULL;
    PyArrayObject *ranks = tg_new_array(NPY_INT64, 1, &length);
    if (ranks == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_ratio_ranks(length, TG_I64(y), TG_I64(d), TG_I64(ranks), &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)ranks;
    Py_DECREF((PyObject *)ranks);
    return tg_raise(&err, NULL);
}

/* The common face of the metrics: (scores, runtimes, k) -> float. */
static PyObject *run_metric(PyObject *args, tg_metric metric) {
    PyObject *scores_in, *runtimes_in;
    long long k;
    double value;
    tg_error err;
    if (!PyArg_ParseTuple(args, "OOL", &scores_in, &runtimes_in, &k)) return NULL;
    npy_intp length = -1;
    PyArrayObject *scores = numbers(scores_in, "scores", &length, 0);
    if (scores == NULL) return NULL;
    PyArrayObject *runtimes = numbers(runtimes_in, "runtimes", &length, 1);
    if (runtimes == NULL) return NULL;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = metric(view(scores), view(runtimes), k, &value, &err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) return tg_raise(&err, NULL);
    return PyFloat_FromDouble(value);
}

#define METRIC(name)                                                                                         \
    static PyObject *name(PyObject *self, PyObject *args) {                                                  \
        (void)self;                                                                                          \
        return run_metric(args, tg_##name);                                                                  \
    }
METRIC(kendall_tau)
METRIC(opa)
METRIC(spearman)
METRIC(top_k_slowdown)
METRIC(ndcg)

PyMethodDef tg_rank_methods[] = {
    {"loss_lists", loss_lists, METH_VARARGS,
     PyDoc_STR("Value and score gradient of a ranking loss over lists.")},
    {"ratio_ranks", ratio_ranks, METH_VARARGS, PyDoc_STR("Ranks of exact quotients of whole numbers.")},
    {"kendall_tau", kendall_tau, METH_VARARGS, PyDoc_STR("Kendall's tau-b; the last argument is unused.")},
    {"opa", opa, METH_VARARGS, PyDoc_STR("Ordered pair accuracy; the last argument is unused.")},
    {"spearman", spearman, METH_VARARGS, PyDoc_STR("Spearman's rho; the last argument is unused.")},
    {"top_k_slowdown", top_k_slowdown, METH_VARARGS,
     PyDoc_STR("Best runtime of the top k over the best, minus 1.")},
    {"ndcg", ndcg, METH_VARARGS, PyDoc_STR("nDCG at k with relevance 1/runtime.")},
    {NULL, NULL, 0, NULL},
};
