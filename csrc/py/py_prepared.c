#include "py/py_prepared.h"

#include <string.h>

#include "model/segment.h"

/* ---- what is made of the measurements ---- */

static const void *data_of(PyObject *array) {
    return array == Py_None ? NULL : PyArray_DATA((PyArrayObject *)array);
}

static tg_measured measured_of(const tg_py_prepared *p) {
    PyArrayObject *runtimes = (PyArrayObject *)p->measured;
    tg_measured m = {.n = p->C, .normalizers = data_of(p->normalizers), .ran = data_of(p->valid)};
    if (PyArray_TYPE(runtimes) == NPY_DOUBLE) m.real = PyArray_DATA(runtimes);
    else m.whole = PyArray_DATA(runtimes);
    return m;
}

static tg_status fill(const tg_py_prepared *p, tg_made which, const void *from, void *to, tg_error *err) {
    const tg_measured m = measured_of(p);
    if (which == TG_MADE_ORDER) return tg_measured_order(&m, to, err);
    if (which == TG_MADE_FASTEST) return tg_measured_fastest(from, p->C, to, err);
    if (which >= TG_MADE_VALUES)
        return tg_target_values((tg_target)(which - TG_MADE_VALUES), from, p->C, to, err);
    if (which == TG_MADE_ACROSS) tg_measured_across(&m, to);
    else tg_measured_times(&m, to);
    return TG_OK;
}

PyArrayObject *tg_py_made(tg_py_prepared *self, tg_made which) {
    if (self->made[which] != NULL) return (PyArrayObject *)self->made[which];
    const void *from = NULL;
    if (which == TG_MADE_FASTEST || which >= TG_MADE_VALUES) {
        PyArrayObject *base = tg_py_made(self, which == TG_MADE_FASTEST ? TG_MADE_ORDER : TG_MADE_TIMES);
        if (base == NULL) return NULL;
        from = PyArray_DATA(base);
    }
    const npy_intp n = (npy_intp)self->C;
    PyArrayObject *array = tg_new_array(which >= TG_MADE_TIMES ? NPY_FLOAT64 : NPY_INT64, 1, &n);
    if (array == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = fill(self, which, from, PyArray_DATA(array), &err);
    Py_END_ALLOW_THREADS;
    PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
    if (status == TG_OK && self->made[which] == NULL) self->made[which] = (PyObject *)array;
    else Py_DECREF((PyObject *)array); /* another thread was faster */
    if (status != TG_OK) tg_raise(&err, NULL);
    return (PyArrayObject *)self->made[which];
}

int tg_py_target(const char *name) {
    for (int i = 0; i < TG_TARGETS; i++)
        if (strcmp(tg_target_names[i], name) == 0) return i;
    PyErr_Format(PyExc_ValueError, "target: there is none called '%s'", name);
    return -1;
}

/* ---- parts ---- */

tg_py_model_graph *tg_py_part(tg_py_prepared *self, int64_t segment) {
    const Py_ssize_t n = PyTuple_Size(self->cuts);
    if (segment >= 0 && n > 0) {
        if (segment < n) return (tg_py_model_graph *)PyTuple_GetItem(self->cuts, (Py_ssize_t)segment);
        PyErr_Format(PyExc_IndexError, "segment: expected 0..%zd, got %lld", n - 1, (long long)segment);
        return NULL;
    }
    if (self->graph != Py_None) return (tg_py_model_graph *)self->graph;
    PyErr_SetString(PyExc_ValueError, "this graph was prepared without its configs");
    return NULL;
}

PyObject *tg_py_stored_rows(const tg_py_prepared *self, PyObject *rows) {
    if (self->kept != Py_None) return PyObject_GetItem(self->kept, rows);
    Py_INCREF(rows);
    return rows;
}

static PyObject *slate(PyObject *object, PyObject *args) {
    tg_py_prepared *self = (tg_py_prepared *)object;
    PyObject *rows, *which = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:slate", &rows, &which)) return NULL;
    const long long segment = which == Py_None ? -1 : PyLong_AsLongLong(which);
    if (segment == -1 && PyErr_Occurred()) return NULL;
    tg_py_model_graph *part = tg_py_part(self, segment);
    PyObject *own = part == NULL ? NULL : tg_py_stored_rows(self, rows);
    return own == NULL ? NULL : Py_BuildValue("ON", (PyObject *)part, own);
}

static PyObject *slates(PyObject *object, PyObject *rows) {
    tg_py_prepared *self = (tg_py_prepared *)object;
    const Py_ssize_t n = PyTuple_Size(self->cuts);
    PyObject *list = PyList_New(0), *own = tg_py_stored_rows(self, rows);
    if (own == NULL) Py_CLEAR(list);
    for (Py_ssize_t i = 0; list != NULL && i < (n > 0 ? n : 1); i++) {
        tg_py_model_graph *part = tg_py_part(self, i);
        tg_append(&list, part == NULL ? NULL : Py_BuildValue("OO", (PyObject *)part, own));
    }
    Py_XDECREF(own);
    return list;
}

static PyObject *values(PyObject *object, PyObject *args) {
    const char *name;
    if (!PyArg_ParseTuple(args, "s:values", &name)) return NULL;
    const int target = tg_py_target(name);
    PyArrayObject *made = target < 0 ? NULL : tg_py_made((tg_py_prepared *)object, TG_MADE_VALUES + target);
    Py_XINCREF((PyObject *)made);
    return (PyObject *)made;
}

/* ---- making and freeing ---- */

static PyObject *call(PyObject *graph, const char *method, PyObject *args) {
    PyObject *bound = PyObject_GetAttrString(graph, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, args);
    Py_XDECREF(bound);
    return result;
}

static tg_py_prepared *empty(PyTypeObject *type, PyObject *name, PyObject *nodes) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tg_py_prepared *self = (tg_py_prepared *)alloc(type, 0);
    if (self == NULL) return NULL;
    PyObject **none[] = {&self->graph, &self->mapped,  &self->measured, &self->normalizers,
                         &self->kept,  &self->weights, &self->valid};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        Py_INCREF(Py_None);
        *none[i] = Py_None;
    }
    Py_INCREF(name);
    self->name = name;
    Py_INCREF(nodes);
    self->nodes = nodes;
    return self;
}

/* Hold `value`, which is taken over, in place of what was there. */
static void hold(PyObject **to, PyObject *value) {
    PyObject *old = *to;
    *to = value;
    Py_DECREF(old);
}

static void put(PyObject **to, PyObject *value) {
    Py_INCREF(value);
    hold(to, value);
}

/* An array (C,) of one of the types, or None; -1 with an exception. */
static int take(PyObject *given, const char *name, int type, int64_t n, PyObject **to) {
    npy_intp dims[1] = {(npy_intp)n};
    if (given == NULL || given == Py_None) return 0;
    if (tg_array(given, name, type, 1, dims, "(C,)") == NULL) return -1;
    put(to, given);
    return 0;
}

/* The number of configs is that of the runtimes; without runtimes, zeros stand for them ("not measured"). */
static int take_measured(tg_py_prepared *self, PyObject *given) {
    npy_intp dims[1] = {-1};
    if (given == NULL || given == Py_None) {
        dims[0] = self->graph == Py_None ? 0 : (npy_intp)((tg_py_model_graph *)self->graph)->graph.C;
        PyArrayObject *zeros = tg_new_array(NPY_INT64, 1, dims);
        if (zeros == NULL) return -1;
        memset(PyArray_DATA(zeros), 0, (size_t)PyArray_NBYTES(zeros));
        PyArray_CLEARFLAGS(zeros, NPY_ARRAY_WRITEABLE);
        hold(&self->measured, (PyObject *)zeros);
    } else {
        const int real = PyArray_Check(given) && PyArray_TYPE((PyArrayObject *)given) == NPY_DOUBLE;
        if (tg_array(given, "measured", real ? NPY_FLOAT64 : NPY_INT64, 1, dims, "(C,)") == NULL) return -1;
        put(&self->measured, given);
    }
    self->C = (int64_t)dims[0];
    return 0;
}

/* The segments, each of `most` nodes at most, of a graph of more; `most` 0: it is not cut. */
static int cut(tg_py_prepared *self, long long most) {
    const tg_graph *g = &((tg_py_model_graph *)self->nodes)->graph;
    PyObject *args = most > 0 && g->N >= most ? Py_BuildValue("(L)", most) : NULL;
    self->cuts = args != NULL ? call(self->nodes, "cut", args) : PyTuple_New(0);
    Py_XDECREF(args);
    if (self->cuts == NULL || PyErr_Occurred()) return -1;
    self->bytes += 4 * (int64_t)g->N * g->F + 64 * (int64_t)g->E + 4 * g->C * g->T + 16 * self->C;
    for (Py_ssize_t i = 0; i < PyTuple_Size(self->cuts); i++) {
        const tg_graph *part = &((tg_py_model_graph *)PyTuple_GetItem(self->cuts, i))->graph;
        self->bytes += 64 * ((int64_t)part->N + part->E);
    }
    return 0;
}

PyObject *tg_new_prepared(PyTypeObject *type, tg_py_model_graph *nodes, const tg_made_of *of) {
    tg_py_prepared *self = empty(type, of->name == NULL ? Py_None : of->name, (PyObject *)nodes);
    if (self == NULL) return NULL;
    if (of->configs) put(&self->graph, (PyObject *)nodes);
    put(&self->mapped, of->mapped == NULL ? Py_None : of->mapped);
    self->bytes = of->bytes;
    int status = take_measured(self, of->measured);
    if (status == 0) status = take(of->normalizers, "normalizers", NPY_INT64, self->C, &self->normalizers);
    if (status == 0) status = take(of->kept, "kept", NPY_INT64, self->C, &self->kept);
    if (status == 0) status = take(of->weights, "weights", NPY_FLOAT32, self->C, &self->weights);
    if (status == 0) status = take(of->valid, "valid", NPY_BOOL, self->C, &self->valid);
    if (status == 0) status = cut(self, of->segments);
    if (status < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"nodes",   "name",  "configs",  "measured", "normalizers", "kept",
                            "weights", "valid", "segments", "mapped",   "nbytes",      NULL};
    PyObject *nodes;
    tg_made_of of = {.configs = 1};
    long long segments = 0, bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!U|pOOOOOLOL:Prepared", names,
                                     ((tg_state *)PyType_GetModuleState(type))->model_graph, &nodes, &of.name,
                                     &of.configs, &of.measured, &of.normalizers, &of.kept, &of.weights,
                                     &of.valid, &segments, &of.mapped, &bytes))
        return NULL;
    of.segments = segments, of.bytes = bytes;
    return tg_new_prepared(type, (tg_py_model_graph *)nodes, &of);
}

/* with_configs(digits, config_feat) -> Prepared */
static PyObject *with_configs(PyObject *object, PyObject *args) {
    tg_py_prepared *self = (tg_py_prepared *)object;
    PyObject *graph = call(self->nodes, "with_configs", args);
    if (graph == NULL) return NULL;
    tg_py_prepared *other = empty(Py_TYPE(object), self->name, self->nodes);
    if (other != NULL) {
        put(&other->graph, graph);
        other->bytes = self->bytes;
        other->cuts = PyTuple_New(PyTuple_Size(self->cuts));
        if (other->cuts == NULL || take_measured(other, NULL) < 0) Py_CLEAR(other);
    }
    for (Py_ssize_t i = 0; other != NULL && i < PyTuple_Size(self->cuts); i++) {
        PyObject *part = call(PyTuple_GetItem(self->cuts, i), "with_configs", args);
        if (part == NULL || PyTuple_SetItem(other->cuts, i, part) < 0) Py_CLEAR(other);
    }
    Py_DECREF(graph);
    return (PyObject *)other;
}

static void prepared_dealloc(PyObject *object) {
    tg_py_prepared *self = (tg_py_prepared *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *held[] = {self->name,     self->nodes,       self->graph, self->cuts,    self->mapped,
                        self->measured, self->normalizers, self->kept,  self->weights, self->valid};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) Py_XDECREF(held[i]);
    for (int i = 0; i < TG_MADE; i++) Py_XDECREF(self->made[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* ---- attributes ---- */

static PyObject *get_held(PyObject *object, void *which) {
    tg_py_prepared *p = (tg_py_prepared *)object;
    PyObject *held[] = {p->name,     p->nodes, p->graph,   p->cuts,       p->mapped,
                        p->measured, p->kept,  p->weights, p->normalizers},
             *found = held[(intptr_t)which];
    Py_INCREF(found);
    return found;
}

static PyObject *get_made(PyObject *object, void *which) {
    PyArrayObject *made = tg_py_made((tg_py_prepared *)object, (tg_made)(intptr_t)which);
    Py_XINCREF((PyObject *)made);
    return (PyObject *)made;
}

/* Whole numbers stay whole. */
static PyObject *get_times(PyObject *object, void *unused) {
    (void)unused;
    const tg_py_prepared *self = (tg_py_prepared *)object;
    const tg_measured m = measured_of(self);
    int changed = tg_measured_divided(&m);
    for (int64_t i = 0; !changed && m.ran != NULL && i < m.n; i++) changed = !m.ran[i];
    if (changed) return get_made(object, (void *)TG_MADE_TIMES);
    Py_INCREF(self->measured);
    return self->measured;
}

static PyObject *get_size(PyObject *object, void *which) {
    const tg_py_prepared *self = (tg_py_prepared *)object;
    const Py_ssize_t parts = PyTuple_Size(self->cuts);
    const tg_py_model_graph *first =
        (tg_py_model_graph *)(parts > 0 ? PyTuple_GetItem(self->cuts, 0) : self->nodes);
    const int64_t sizes[] = {self->C, parts > 0 ? parts : 1, first->graph.N, self->bytes};
    return PyLong_FromLongLong(sizes[(intptr_t)which]);
}

static PyGetSetDef getset[] = {
    {"name", get_held, NULL, PyDoc_STR("Name of the graph"), (void *)0},
    {"nodes", get_held, NULL, PyDoc_STR("The Graph, maybe without configs"), (void *)1},
    {"graph", get_held, NULL, PyDoc_STR("The Graph; None if its configs were left out"), (void *)2},
    {"cuts", get_held, NULL, PyDoc_STR("Graphs of its segments; empty: it is not cut"), (void *)3},
    {"mapped", get_held, NULL, PyDoc_STR("What its configs stay in, such as a pack, or None"), (void *)4},
    {"measured", get_held, NULL, PyDoc_STR("(C,) int64 or float64 runtimes, or placeholders"), (void *)5},
    {"kept", get_held, NULL, PyDoc_STR("(C,) int64 rows of the distinct configs, or None: all"), (void *)6},
    {"weights", get_held, NULL, PyDoc_STR("(C,) float32 weights of configs, or None: all 1"), (void *)7},
    {"normalizers", get_held, NULL, PyDoc_STR("(C,) int64 of tile graphs, or None"), (void *)8},
    {"runtimes", get_made, NULL, PyDoc_STR("(C,) int64 that a loss within the graph compares"),
     (void *)TG_MADE_ORDER},
    {"across", get_made, NULL, PyDoc_STR("(C,) int64 that a loss over several graphs compares"),
     (void *)TG_MADE_ACROSS},
    {"by_runtime", get_made, NULL, PyDoc_STR("(C,) int64 configs, fastest first"), (void *)TG_MADE_FASTEST},
    {"times", get_times, NULL, PyDoc_STR("(C,) that metrics compare; NaN where a config failed"), NULL},
    {"num_configs", get_size, NULL, PyDoc_STR("C, after equal ones were merged"), (void *)0},
    {"num_segments", get_size, NULL, PyDoc_STR("P, 1 if it is not cut"), (void *)1},
    {"num_nodes", get_size, NULL, PyDoc_STR("Nodes of a pass: of the graph, or of the largest segment"),
     (void *)2},
    {"nbytes", get_size, NULL, PyDoc_STR("Memory that it takes, roughly"), (void *)3},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"slate", slate, METH_VARARGS,
     PyDoc_STR(
         "slate(rows, segment=None) -> (ModelGraph, rows): some of the C configs as a model takes them, of a "
         "segment or of the whole graph.")},
    {"slates", slates, METH_O,
     PyDoc_STR("slates(rows): what the score of a config is the sum of, its segments or the whole graph.")},
    {"values", values, METH_VARARGS,
     PyDoc_STR("values(target) -> (C,) float64: what losses of values fit scores to.")},
    {"with_configs", with_configs, METH_VARARGS,
     PyDoc_STR("with_configs(digits, config_feat) -> Prepared: the same graph with other configs, not "
               "measured.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, prepared_new},
    {Py_tp_dealloc, prepared_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {Py_tp_doc, (void *)PyDoc_STR("A graph as a model takes it, with what was measured of its C configs.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Prepared",
                           .basicsize = sizeof(tg_py_prepared),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int tg_add_prepared_type(PyObject *module) {
    return tg_add_type(module, &spec, "Prepared", &((tg_state *)PyModule_GetState(module))->prepared);
}

/* ---- targets of any times ---- */

/* target_values(times, target) -> values */
static PyObject *target_values(PyObject *self, PyObject *args) {
    PyObject *given;
    const char *name;
    npy_intp n[1] = {-1};
    (void)self;
    if (!PyArg_ParseTuple(args, "Os:target_values", &given, &name)) return NULL;
    PyArrayObject *times = tg_array(given, "times", NPY_FLOAT64, 1, n, "(C,)");
    const int target = times == NULL ? -1 : tg_py_target(name);
    PyArrayObject *made = target < 0 ? NULL : tg_new_array(NPY_FLOAT64, 1, n);
    if (made == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_target_values((tg_target)target, TG_F64(times), n[0], TG_F64(made), &err);
    Py_END_ALLOW_THREADS;
    if (status == TG_OK) return (PyObject *)made;
    Py_DECREF((PyObject *)made);
    return tg_raise(&err, NULL);
}

static PyObject *target_names(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *names = PyTuple_New(TG_TARGETS);
    for (int i = 0; names != NULL && i < TG_TARGETS; i++) {
        PyObject *name = PyUnicode_FromString(tg_target_names[i]);
        if (name == NULL || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

PyMethodDef tg_store_methods[] = {
    {"target_values", target_values, METH_VARARGS,
     PyDoc_STR("target_values(times (C,), target) -> (C,): what losses of values fit scores to.")},
    {"target_names", target_names, METH_NOARGS, PyDoc_STR("Names of the targets.")},
    {NULL, NULL, 0, NULL},
};
