#include "py/py_optim.h"

#include "optim/nonnegative.h"
#include "optim/schedule.h"
#include "py/py_json.h"

#include <string.h>

int tg_py_optimizer(PyObject *given, int64_t P, tg_optimizer *out) {
    tg_json_tree tree;
    tg_error err;
    *out = (tg_optimizer){.groups = NULL};
    int status = tg_py_json(given, "optimizer", TG_E_CONFIG, &tree);
    if (status == 0 && tg_optimizer_read(out, P, tree.root, &err) != TG_OK) {
        tg_raise(&err, NULL);
        status = -1;
    }
    tg_json_free(&tree);
    if (status < 0) tg_optimizer_free(out);
    return status;
}

/* Whether two of n arrays share memory. */
static int overlap(PyArrayObject *const *arrays, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (tg_overlap(arrays[i], arrays[j])) return 1;
    return 0;
}

/* w, g and n - 2 moments, all (P,) and all but g writable; P, or -1 with an exception. */
static npy_intp take_vectors(PyObject *const *given, const char *const *names, int n, PyArrayObject **a) {
    npy_intp dims[1] = {-1};
    for (int i = 0; i < n; i++) {
        if ((a[i] = tg_array(given[i], names[i], NPY_FLOAT32, 1, dims, "(P,)")) == NULL) return -1;
        if (i != 1 && !PyArray_ISWRITEABLE(a[i])) {
            PyErr_Format(PyExc_ValueError, "%s: is updated in place and must be writable", names[i]);
            return -1;
        }
    }
    if (!overlap(a, n)) return dims[0];
    PyErr_SetString(PyExc_ValueError, "w, g and the moments must not share memory");
    return -1;
}

/* The update itself; the norm of the gradient. */
static PyObject *take_step(const tg_optimizer *o, npy_intp P, PyArrayObject *const *a) {
    float *moments[TG_MAX_MOMENTS] = {NULL};
    for (int i = 0; i < tg_optimizer_moments(o->kind); i++) moments[i] = TG_F32(a[2 + i]);
    tg_error err;
    tg_status status;
    double norm = 0;
    Py_BEGIN_ALLOW_THREADS
    status = tg_optimizer_update(o, P, TG_F32(a[0]), TG_F32(a[1]), moments, &norm, &err);
    Py_END_ALLOW_THREADS
    return status == TG_OK ? PyFloat_FromDouble(norm) : tg_raise(&err, NULL);
}

static PyObject *optimizer_step(PyObject *self, PyObject *args) {
    static const char *const vectors[] = {"w", "g", "moments[0]", "moments[1]"};
    PyObject *dict, *given[2 + TG_MAX_MOMENTS], *list;
    PyArrayObject *a[2 + TG_MAX_MOMENTS];
    tg_optimizer o;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO!", &dict, &given[0], &given[1], &PyTuple_Type, &list)) return NULL;
    const Py_ssize_t n = PyTuple_Size(list);
    if (n > TG_MAX_MOMENTS)
        return PyErr_Format(PyExc_ValueError, "moments: expected at most two arrays, got %zd", n);
    for (Py_ssize_t i = 0; i < n; i++) given[2 + i] = PyTuple_GetItem(list, i);
    const npy_intp P = take_vectors(given, vectors, 2 + (int)n, a);
    if (P < 0 || tg_py_optimizer(dict, P, &o) < 0) return NULL;
    PyObject *norm;
    if (n == tg_optimizer_moments(o.kind)) norm = take_step(&o, P, a);
    else
        norm =
            PyErr_Format(PyExc_ValueError, "moments: %s keeps %d array%s, got %d", tg_optimizer_name(o.kind),
                         tg_optimizer_moments(o.kind), TG_S(tg_optimizer_moments(o.kind)), (int)n);
    tg_optimizer_free(&o);
    return norm;
}

static PyObject *optimizers(PyObject *self, PyObject *unused) {
    PyObject *dict = PyDict_New();
    (void)self, (void)unused;
    for (int i = 0; dict != NULL && i < TG_OPTIMIZERS; i++) {
        PyObject *count = PyLong_FromLong(tg_optimizer_moments((tg_optimizer_kind)i));
        if (count == NULL || PyDict_SetItemString(dict, tg_optimizer_name((tg_optimizer_kind)i), count) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(count);
    }
    return dict;
}

static PyObject *nonnegative(PyObject *self, PyObject *args) {
    PyObject *products, *moments;
    int sweeps;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOi", &products, &moments, &sweeps)) return NULL;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *m = tg_array(moments, "moments", NPY_FLOAT64, 1, dims, "(T,)");
    if (m == NULL) return NULL;
    if (dims[0] > TG_MOST_TERMS)
        return PyErr_Format(PyExc_ValueError, "moments: expected %d terms at most, got %zd", TG_MOST_TERMS,
                            dims[0]);
    dims[1] = dims[0];
    PyArrayObject *P = tg_array(products, "products", NPY_FLOAT64, 2, dims, "(T, T)");
    if (P == NULL) return NULL;
    PyArrayObject *found = tg_new_array(NPY_FLOAT64, 1, dims);
    if (found != NULL) tg_nonnegative((int)dims[0], TG_F64(P), TG_F64(m), sweeps, TG_F64(found));
    return (PyObject *)found;
}

static PyObject *average(PyObject *self, PyObject *args) {
    PyObject *mean, *weights;
    npy_intp n = -1;
    double share;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOd:average", &mean, &weights, &share)) return NULL;
    PyArrayObject *m = tg_array(mean, "mean", NPY_FLOAT64, 1, &n, "(P,)");
    PyArrayObject *w = m == NULL ? NULL : tg_array(weights, "w", NPY_FLOAT32, 1, &n, "(P,)");
    if (w == NULL) return NULL;
    if (!PyArray_ISWRITEABLE(m))
        return PyErr_Format(PyExc_ValueError, "mean: is updated in place and must be writable");
    Py_BEGIN_ALLOW_THREADS;
    tg_average(n, share, TG_F32(w), TG_F64(m));
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *optimizer_attrs(PyObject *self, PyObject *unused) {
    int n;
    const tg_attr *attrs = tg_optimizer_attrs(&n);
    (void)self, (void)unused;
    return tg_py_attrs(attrs, n);
}

static PyObject *schedule_attrs(PyObject *self, PyObject *unused) {
    int n;
    const tg_attr *attrs = tg_schedule_attrs(&n);
    (void)self, (void)unused;
    return tg_py_attrs(attrs, n);
}

static PyObject *learning_rate(PyObject *self, PyObject *args) {
    PyObject *given, *rate = NULL;
    long long step, total;
    tg_json_tree tree;
    tg_schedule schedule;
    tg_error err;
    (void)self;
    if (!PyArg_ParseTuple(args, "OLL:learning_rate", &given, &step, &total)) return NULL;
    if (step < 1 || total < 1 || total > 1LL << 62)
        return PyErr_Format(PyExc_ValueError,
                            "step, total: expected 1..2^62 steps, counted from 1, got %lld of %lld", step,
                            total);
    if (tg_py_json(given, "schedule", TG_E_CONFIG, &tree) == 0)
        rate = tg_schedule_read(&schedule, tree.root, &err) == TG_OK
                   ? PyFloat_FromDouble(tg_schedule_rate(&schedule, step, total))
                   : tg_raise(&err, NULL);
    tg_json_free(&tree);
    return rate;
}

PyMethodDef tg_optim_methods[] = {
    {"optimizer_attrs", optimizer_attrs, METH_NOARGS,
     PyDoc_STR("What describes an optimizer: a list of dicts as those of ops().")},
    {"schedule_attrs", schedule_attrs, METH_NOARGS,
     PyDoc_STR("What describes a schedule: a list of dicts as those of ops().")},
    {"learning_rate", learning_rate, METH_VARARGS,
     PyDoc_STR(
         "(schedule, step, total) -> learning rate of step 1..total, of the schedule that the dict "
         "describes: schedule, learning_rate, learning_rate_end, warmup, decay, decay_from, decay_every.")},
    {"optimizers", optimizers, METH_NOARGS,
     PyDoc_STR("Names of all optimizers, and how many moments (P,) each keeps.")},
    {"optimizer_step", optimizer_step, METH_VARARGS,
     PyDoc_STR("(optimizer, w, g, moments) -> norm of g: one update in place, of the optimizer that the dict "
               "describes: kind, lr, step, clip, weight_decay or groups, beta1, beta2, eps, momentum.")},
    {"average", average, METH_VARARGS,
     PyDoc_STR("average(mean (P,) float64, w (P,) float32, share): mean += share (w - mean), in place.")},
    {"nonnegative", nonnegative, METH_VARARGS,
     PyDoc_STR(
         "(products (T, T), moments (T,), sweeps) -> (T,): least squares c' P c - 2 m' c over c >= 0, by "
         "coordinate descent.")},
    {NULL, NULL, 0, NULL},
};
