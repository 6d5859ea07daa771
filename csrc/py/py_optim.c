#include "py/py_optim.h"

#include <string.h>

int tg_py_check_optimizer(const tg_optimizer *o, int64_t P) {
    tg_error err;
    if (tg_optimizer_check(o, P, &err) == TG_OK) return 1;
    tg_raise(&err, NULL);
    return 0;
}

static PyObject *config_error(const char *message, PyObject *found) {
    PyObject *bytes = PyObject_ASCII(found), *text = bytes == NULL ? NULL : PyUnicode_AsUTF8String(bytes);
    tg_error err;
    tg_fail(&err, TG_E_CONFIG, "%s, got %.200s", message, text == NULL ? "?" : PyBytes_AsString(text));
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    PyErr_Clear();
    return tg_raise(&err, NULL);
}

static int parse_kind(PyObject *value, tg_optimizer *out) {
    const char *name = PyUnicode_Check(value) ? tg_utf8(value, NULL) : "";
    if (name == NULL) return -1;
    for (int i = 0; i < TG_OPTIMIZERS; i++)
        if (strcmp(name, tg_optimizer_name((tg_optimizer_kind)i)) == 0) {
            out->kind = (tg_optimizer_kind)i;
            return 0;
        }
    config_error("optimizer: expected one of those that optimizers() lists", value);
    return -1;
}

/* The groups of a list of tuples, or one of everything. */
static int parse_groups(PyObject *list, int64_t P, double weight_decay, tg_optimizer *out, tg_group **room) {
    const Py_ssize_t n = list == NULL ? 1 : PySequence_Size(list);
    if (n < 0) {
        PyErr_Clear();
        config_error("groups: expected a list of tuples", list);
        return -1;
    }
    if (n > P || (*room = PyMem_Malloc((size_t)(n > 0 ? n : 1) * sizeof **room)) == NULL) {
        if (n > P) config_error("groups: expected at most as many as parameters", list);
        else PyErr_NoMemory();
        return -1;
    }
    if (list == NULL) **room = (tg_group){0, P, 1, weight_decay};
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        tg_group *group = &(*room)[i];
        long long begin, end;
        PyObject *item = PySequence_GetItem(list, i);
        const int fine = item != NULL && PyTuple_Check(item) &&
                         PyArg_ParseTuple(item, "LLdd", &begin, &end, &group->lr_scale, &group->weight_decay);
        if (!fine) {
            PyErr_Clear();
            config_error("groups: expected tuples of four numbers (begin, end, factor, weight decay)", item);
        }
        Py_XDECREF(item);
        if (!fine) return -1;
        group->begin = begin, group->end = end;
    }
    out->groups = *room;
    out->n_groups = (int)n;
    return 0;
}

/* 0 if a number was one, else -1 with an exception. */
static int checked(const char *name, PyObject *value) {
    char message[64];
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
    PyOS_snprintf(message, sizeof message, "optimizer: expected a number of 64 bits as %s", name);
    config_error(message, value);
    return -1;
}

/* One entry of the dict; 0, or -1 with an exception. */
static int parse_entry(PyObject *key, PyObject *value, tg_optimizer *out, double *weight_decay,
                       PyObject **groups) {
    const struct {
        const char *name;
        double *to;
    } numbers[] = {{"lr", &out->lr},
                   {"beta1", &out->beta1},
                   {"beta2", &out->beta2},
                   {"eps", &out->eps},
                   {"momentum", &out->momentum},
                   {"clip", &out->clip},
                   {"weight_decay", weight_decay}};
    const char *name = PyUnicode_Check(key) ? tg_utf8(key, NULL) : "";
    if (name == NULL) return -1;
    if (strcmp(name, "kind") == 0) return parse_kind(value, out);
    if (strcmp(name, "groups") == 0) {
        *groups = value;
        return 0;
    }
    if (strcmp(name, "step") == 0) {
        out->step = PyLong_AsLongLong(value);
        return checked(name, value);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = PyFloat_AsDouble(value);
            return checked(name, value);
        }
    config_error(
        "optimizer: expected kind, lr, step, clip, weight_decay, beta1, beta2, eps, momentum or groups", key);
    return -1;
}

int tg_py_optimizer(PyObject *dict, int64_t P, tg_optimizer *out, tg_group **room) {
    PyObject *key, *value, *groups = NULL;
    Py_ssize_t at = 0;
    double weight_decay = 0;
    *room = NULL;
    *out = (tg_optimizer){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9};
    if (!PyDict_Check(dict)) {
        config_error("optimizer: expected a dict", dict);
        return -1;
    }
    PyObject *own = PyDict_Copy(dict); /* converting a number may run code that changes the caller's */
    int status = own == NULL ? -1 : 0;
    while (status == 0 && PyDict_Next(own, &at, &key, &value))
        status = parse_entry(key, value, out, &weight_decay, &groups);
    if (status == 0) status = parse_groups(groups, P, weight_decay, out, room);
    Py_XDECREF(own);
    if (status == 0 && tg_py_check_optimizer(out, P)) return 0;
    PyMem_Free(*room);
    *room = NULL;
    return -1;
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
    tg_group *room;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO!", &dict, &given[0], &given[1], &PyTuple_Type, &list)) return NULL;
    const Py_ssize_t n = PyTuple_Size(list);
    if (n > TG_MAX_MOMENTS) return config_error("moments: expected at most two arrays", list);
    for (Py_ssize_t i = 0; i < n; i++) given[2 + i] = PyTuple_GetItem(list, i);
    const npy_intp P = take_vectors(given, vectors, 2 + (int)n, a);
    if (P < 0 || tg_py_optimizer(dict, P, &o, &room) < 0) return NULL;
    PyObject *norm;
    if (n == tg_optimizer_moments(o.kind)) norm = take_step(&o, P, a);
    else
        norm =
            PyErr_Format(PyExc_ValueError, "moments: %s keeps %d array%s, got %d", tg_optimizer_name(o.kind),
                         tg_optimizer_moments(o.kind), TG_S(tg_optimizer_moments(o.kind)), (int)n);
    PyMem_Free(room);
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

PyMethodDef tg_optim_methods[] = {
    {"optimizers", optimizers, METH_NOARGS,
     PyDoc_STR("Names of all optimizers, and how many moments (P,) each keeps.")},
    {"optimizer_step", optimizer_step, METH_VARARGS,
     PyDoc_STR("(optimizer, w, g, moments) -> norm of g: one update in place, of the optimizer that the dict "
               "describes: kind, lr, step, clip, weight_decay or groups, beta1, beta2, eps, momentum.")},
    {NULL, NULL, 0, NULL},
};
