/* The Python type _core.Visits: which graph and which of its configs every visit of a fit takes. */
#include "py/py_prepared.h"

#include "base/attr.h"
#include "store/visits.h"

typedef struct py_visits {
    PyObject_HEAD tg_visits visits;
} py_visits;

static int take_word(const char *name, const char *words, const char *word) {
    const int found = tg_attr_choice(words, word);
    if (found < 0) PyErr_Format(PyExc_ValueError, "%s: expected one of %s, got '%s'", name, words, word);
    return found;
}

static int read_how(PyObject *args, PyObject *kwargs, PyObject **counts, tg_visiting *how) {
    static char *names[] = {"counts",
                            "seed",
                            "configs",
                            "each",
                            "graph_sampling",
                            "config_sampling",
                            "close",
                            "config_temperature",
                            NULL};
    unsigned long long seed;
    long long configs, each = 1;
    const char *graphs = "even", *sampling = "even";
    double close = 0, temperature = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OKL|Lssdd:Visits", names, counts, &seed, &configs, &each,
                                     &graphs, &sampling, &close, &temperature))
        return -1;
    const int by = take_word("graph_sampling", TG_GRAPH_SAMPLING, graphs);
    const int of = by < 0 ? -1 : take_word("config_sampling", TG_CONFIG_SAMPLING, sampling);
    if (of < 0) return -1;
    *how = (tg_visiting){.graphs = (tg_graph_sampling)by,
                         .sampling = (tg_config_sampling)of,
                         .configs = configs,
                         .each = each,
                         .close = close,
                         .temperature = temperature,
                         .seed = seed};
    return 0;
}

static PyObject *visits_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    tg_visiting how;
    PyObject *given;
    npy_intp n[1] = {-1};
    if (read_how(args, kwargs, &given, &how) < 0) return NULL;
    PyArrayObject *counts = tg_array(given, "counts", NPY_INT64, 1, n, "(n,)");
    if (counts == NULL) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_visits *self = (py_visits *)alloc(type, 0);
    tg_error err;
    if (self == NULL || tg_visits_make(&self->visits, &how, TG_I64(counts), n[0], &err) == TG_OK)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return tg_raise(&err, NULL);
}

static void visits_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_visits_free(&((py_visits *)object)->visits);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Keeps the lock of Python, which guards the epoch that is kept. */
static int find(PyObject *object, long long visit, int64_t *graph, int64_t *before) {
    tg_error err;
    tg_cancel cancel = tg_python_cancel();
    if (tg_visits_at(&((py_visits *)object)->visits, visit, graph, before, &cancel, &err) == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* at(visit) -> (graph, before) */
static PyObject *at(PyObject *object, PyObject *args) {
    long long visit;
    int64_t graph, before;
    if (!PyArg_ParseTuple(args, "L:at", &visit) || find(object, visit, &graph, &before) < 0) return NULL;
    return Py_BuildValue("LL", (long long)graph, (long long)before);
}

/* rows(visit, prepared) -> (k,) */
static PyObject *rows(PyObject *object, PyObject *args) {
    const tg_visits *v = &((py_visits *)object)->visits;
    long long visit;
    PyObject *given;
    int64_t graph, before;
    int ordered;
    if (!PyArg_ParseTuple(args, "LO!:rows", &visit, tg_state_of(object)->prepared, &given) ||
        find(object, visit, &graph, &before) < 0)
        return NULL;
    tg_py_prepared *prepared = (tg_py_prepared *)given;
    const int64_t count = prepared->C, k = count < 1 ? 0 : tg_visits_size(v, visit, count, &ordered);
    if (k < 1) return PyErr_Format(PyExc_ValueError, "rows: a graph without configs cannot be visited");
    PyArrayObject *order = ordered ? tg_py_made(prepared, TG_MADE_FASTEST) : NULL;
    if (ordered && order == NULL) return NULL;
    const npy_intp length = (npy_intp)k;
    PyArrayObject *found = tg_new_array(NPY_INT64, 1, &length);
    if (found == NULL) return NULL;
    tg_error err;
    tg_status status;
    tg_cancel cancel = tg_python_cancel();
    Py_BEGIN_ALLOW_THREADS;
    status = tg_visits_rows(v, visit, graph, before, count, ordered ? TG_I64(order) : NULL, k, TG_I64(found),
                            &cancel, &err);
    Py_END_ALLOW_THREADS;
    if (status == TG_OK) return (PyObject *)found;
    Py_DECREF((PyObject *)found);
    return tg_raise(&err, NULL);
}

static PyObject *get_number(PyObject *object, void *which) {
    const tg_visits *v = &((py_visits *)object)->visits;
    return PyLong_FromLongLong(which == NULL ? v->epoch : v->period);
}

static PyGetSetDef getset[] = {
    {"epoch", get_number, NULL, PyDoc_STR("Visits of an epoch"), NULL},
    {"period", get_number, NULL, PyDoc_STR("Visits until even the rarest graph has come about once"),
     (void *)1},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"at", at, METH_VARARGS,
     PyDoc_STR("at(visit) -> (graph, before): the graph of a visit, and how often it was visited before.")},
    {"rows", rows, METH_VARARGS,
     PyDoc_STR("rows(visit, prepared) -> (k,) int64: the configs that a visit takes of its prepared graph.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, visits_new},
    {Py_tp_dealloc, visits_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Visits(counts, seed, configs, each=1, graph_sampling='even', config_sampling='even', "
         "close=0.0, config_temperature=1.0): the visits of a fit to graphs of so many configs, at most "
         "`configs` in a slate and `each` slates in a step. Functions of the seed and the number "
         "of the visit.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Visits",
                           .basicsize = sizeof(py_visits),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int tg_add_visits_type(PyObject *module) { return tg_add_type(module, &spec, "Visits", NULL); }
