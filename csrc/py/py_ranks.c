/* The Python type _core.TreeSum: sums of vectors over ranks, whose messages a communicator of Python passes. */
#include "py/py_optim.h"

#include "optim/treesum.h"

enum { MOST_RANKS = 1 << 20, MOST_UNITS = 1 << 23 };

typedef struct py_tree_sum {
    PyObject_HEAD tg_tree_sum sum;
    int busy; /* in a call that has released the GIL */
} py_tree_sum;

/* What the callback of a tg_comm needs. */
typedef struct through {
    PyObject *comm, *owner;
    int size;
} through;

/* Call comm.allgather(mine, sizes, to) with the GIL held. 0, or -1 with an exception. */
static int call(const through *t, const void *mine, const size_t *sizes, int rank, void *to) {
    npy_intp sent = (npy_intp)sizes[rank], all = 0;
    PyObject *list = PyList_New(t->size);
    for (int r = 0; r < t->size && list != NULL; r++) {
        all += (npy_intp)sizes[r];
        PyObject *size = PyLong_FromSize_t(sizes[r]);
        if (size == NULL || PyList_SetItem(list, r, size) < 0) Py_CLEAR(list);
    }
    PyObject *done = NULL;
    PyArrayObject *from = list == NULL ? NULL : tg_view(NPY_UINT8, 1, &sent, (void *)mine, t->owner, 0);
    PyArrayObject *into = from == NULL ? NULL : tg_view(NPY_UINT8, 1, &all, to, t->owner, 1);
    if (into != NULL)
        done = PyObject_CallMethod(t->comm, "allgather", "OOO", (PyObject *)from, list, (PyObject *)into);
    Py_XDECREF(list);
    Py_XDECREF((PyObject *)from);
    Py_XDECREF((PyObject *)into);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static tg_status allgather(void *context, const void *mine, const size_t *sizes, void *to, tg_error *err) {
    const through *t = context;
    const int rank = ((py_tree_sum *)t->owner)->sum.rank;
    const PyGILState_STATE state = PyGILState_Ensure();
    const int status = call(t, mine, sizes, rank, to);
    PyGILState_Release(state);
    return status == 0 ? TG_OK : tg_fail(err, TG_E_CANCELLED, "allgather failed");
}

/* Units at which ranks end, as whole numbers that ascend from 0; how many, or -1 with an exception. */
static int take_ends(PyObject *given, int **ends) {
    const Py_ssize_t n = PyList_Size(given);
    if (n < 1 || n > MOST_RANKS) {
        PyErr_Format(PyExc_ValueError, "ends: expected 1..%d ranks, got %zd", MOST_RANKS, n);
        return -1;
    }
    if ((*ends = PyMem_Malloc((size_t)n * sizeof **ends)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    long last = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const long end = PyLong_AsLong(PyList_GetItem(given, i));
        if (end == -1 && PyErr_Occurred()) return -1;
        if (end < last || end > MOST_UNITS || (i == n - 1 && end == 0)) {
            PyErr_Format(PyExc_ValueError, "ends: expected numbers of units that ascend, got %ld after %ld",
                         end, last);
            return -1;
        }
        (*ends)[i] = (int)(last = end);
    }
    return (int)n;
}

static PyObject *tree_sum_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"length", "ends", "rank", NULL};
    long long length;
    int rank;
    PyObject *given;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LO!i:TreeSum", names, &length, &PyList_Type, &given,
                                     &rank))
        return NULL;
    int *ends = NULL;
    const int size = take_ends(given, &ends);
    py_tree_sum *self = NULL;
    if (size >= 0 && (rank < 0 || rank >= size || length < 0))
        PyErr_Format(PyExc_ValueError, "rank, length: expected 0..%d and a length, got %d and %lld", size - 1,
                     rank, length);
    else if (size >= 0) {
        allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
        self = (py_tree_sum *)alloc(type, 0);
    }
    tg_error err;
    if (self != NULL && tg_tree_sum_init(&self->sum, length, size, ends, rank, &err) != TG_OK) {
        tg_raise(&err, NULL);
        Py_CLEAR(self);
    }
    PyMem_Free(ends);
    return (PyObject *)self;
}

static void tree_sum_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_tree_sum_free(&((py_tree_sum *)object)->sum);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Begin a call; NULL with an exception while another thread is in one. */
static py_tree_sum *enter(PyObject *object) {
    py_tree_sum *self = (py_tree_sum *)object;
    if (!self->busy) return self;
    PyErr_SetString(PyExc_RuntimeError, "TreeSum: in use by another thread");
    return NULL;
}

static PyObject *order(PyObject *object, PyObject *given) {
    (void)object;
    npy_intp n = -1;
    PyArrayObject *work = tg_array(given, "work", NPY_INT64, 1, &n, "(n,)");
    if (work == NULL) return NULL;
    if (n > MOST_UNITS) return PyErr_Format(PyExc_ValueError, "work: expected at most %d units", MOST_UNITS);
    PyArrayObject *units = tg_new_array(NPY_INT64, 1, &n);
    tg_error err;
    if (units == NULL) return NULL;
    if (tg_tree_order((int)n, TG_I64(work), TG_I64(units), &err) == TG_OK) return (PyObject *)units;
    Py_DECREF((PyObject *)units);
    return tg_raise(&err, NULL);
}

static PyObject *clear(PyObject *object, PyObject *unused) {
    (void)unused;
    py_tree_sum *self = enter(object);
    if (self == NULL) return NULL;
    tg_tree_sum_clear(&self->sum);
    Py_RETURN_NONE;
}

static PyObject *add(PyObject *object, PyObject *given) {
    py_tree_sum *self = enter(object);
    if (self == NULL) return NULL;
    npy_intp length = (npy_intp)self->sum.length;
    PyArrayObject *vector = tg_array(given, "vector", NPY_FLOAT32, 1, &length, "(length,)");
    if (vector == NULL) return NULL;
    if (self->sum.next >= self->sum.ends[self->sum.rank])
        return PyErr_Format(PyExc_ValueError, "add: all units of this rank have been added");
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    tg_tree_sum_add(&self->sum, TG_F32(vector));
    Py_END_ALLOW_THREADS
    self->busy = 0;
    Py_RETURN_NONE;
}

static PyObject *total(PyObject *object, PyObject *args) {
    py_tree_sum *self = enter(object);
    PyObject *comm, *out;
    if (self == NULL || !PyArg_ParseTuple(args, "OO:total", &comm, &out)) return NULL;
    npy_intp length = (npy_intp)self->sum.length;
    PyArrayObject *to = tg_out_array(out, "total", NPY_FLOAT32, 1, &length, 0, NULL);
    if (to == NULL) return NULL;
    if (self->sum.next != self->sum.ends[self->sum.rank]) {
        Py_DECREF((PyObject *)to);
        return PyErr_Format(PyExc_ValueError, "total: units of this rank are missing");
    }
    through t = {comm, object, self->sum.size};
    const tg_comm by = {self->sum.rank, self->sum.size, allgather, &t};
    tg_error err;
    tg_status status;
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = tg_tree_sum_total(&self->sum, &by, TG_F32(to), &err);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    if (status == TG_OK) return (PyObject *)to;
    Py_DECREF((PyObject *)to);
    return tg_raise(&err, NULL);
}

static PyMethodDef methods[] = {
    {"order", order, METH_O | METH_STATIC,
     PyDoc_STR("order(work (n,)) -> units (n,) int64, so that the two children of a vector take about as "
               "much work.")},
    {"clear", clear, METH_NOARGS, PyDoc_STR("clear(): begin another sum.")},
    {"add", add, METH_O, PyDoc_STR("add(vector (length,)): that of this rank's next unit.")},
    {"total", total, METH_VARARGS,
     PyDoc_STR("total(comm, out (length,)) -> out, the sum of all vectors of all ranks, which all call it.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, tree_sum_new},
    {Py_tp_dealloc, tree_sum_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     PyDoc_STR("TreeSum(length, ends, rank): sums of float32 vectors in a fixed order. Rank r adds up the "
               "units from ends[r - 1] to ends[r].")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tpugraphs._core.TreeSum",
    .basicsize = sizeof(py_tree_sum),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int tg_add_tree_sum_type(PyObject *module) { return tg_add_type(module, &spec, "TreeSum", NULL); }
