#include "py/py_graph.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

const struct tg_graph_field_spec tg_graph_fields[TG_G_FIELDS] = {
    [TG_G_NODE_FEAT] = {"node_feat", NPY_FLOAT32, 2},
    [TG_G_OPCODE] = {"node_opcode", NPY_UINT8, 1},
    [TG_G_EDGES] = {"edge_index", NPY_INT64, 2},
    [TG_G_SPLITS] = {"node_splits", NPY_INT64, 2},
    [TG_G_CONFIG_IDS] = {"node_config_ids", NPY_INT64, 1},
    [TG_G_GRAPH_FEAT] = {"graph_feat", NPY_FLOAT32, 1},
    [TG_G_CONFIG_FEAT] = {"config_feat", NPY_FLOAT32, 2},
    [TG_G_RUNTIME] = {"runtime", NPY_INT64, 1}, /* or float64 */
    [TG_G_NORMALIZERS] = {"config_runtime_normalizers", NPY_INT64, 1},
    [TG_G_VALID] = {"valid", NPY_BOOL, 1},
    [TG_G_REPEATS] = {"repeats", NPY_FLOAT64, 2},
    [TG_G_DIGITS] = {"_digits", 0, 0},
    [TG_G_CHECKED] = {"_checked", 0, 0},
    [TG_G_SCHEMA] = {"schema", 0, 0},
    [TG_G_ABOUT] = {"about", 0, 0},
    [TG_G_NAME] = {"name", 0, 0},
    [TG_G_COLLECTION] = {"collection", 0, 0},
    [TG_G_PATH] = {"path", 0, 0},
    [TG_G_PACK] = {"_pack", 0, 0},
};

static int find_field(PyObject *name) {
    for (int i = 0; i < TG_G_FIELDS; i++)
        if (PyUnicode_CompareWithASCIIString(name, tg_graph_fields[i].name) == 0) return i;
    PyErr_Format(PyExc_TypeError, "a graph has no field %R", name);
    return -1;
}

/* ---- fields ---- */

/* The state of the module: subclasses in Python have none of their own. */
static tg_state *state_of(PyTypeObject *type) {
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        tg_state *state = PyType_GetModuleState(type);
        if (state != NULL) return state;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "this graph is not one of the core");
    return NULL;
}

/* Put a value into an empty or a filled field: arrays are made read-only. 0, or -1 with an exception. With `owned`, nobody
   else has the arrays, so they need not be copied. */
static int put(tg_py_graph *self, int field, PyObject *value, int owned) {
    PyObject *held = Py_NewRef(value), *old = self->field[field];
    if (field < TG_G_ARRAYS && value != Py_None) {
        const struct tg_graph_field_spec *spec = &tg_graph_fields[field];
        npy_intp dims[3] = {-1, -1, -1};
        const int real = field == TG_G_RUNTIME && PyArray_Check(value) &&
                         PyArray_TYPE((PyArrayObject *)value) == NPY_DOUBLE;
        PyArrayObject *array =
            tg_array(value, spec->name, real ? NPY_FLOAT64 : spec->type, spec->ndim, dims, "of the graph");
        if (array == NULL) {
            Py_DECREF(held);
            return -1;
        }
        if (PyArray_ISWRITEABLE(array))
            held = (PyObject *)tg_frozen(array, owned ? NULL : value); /* takes over the reference */
        if (held == NULL) return -1;
    }
    self->field[field] = held;
    Py_XDECREF(old);
    return 0;
}

static int put_all(tg_py_graph *self, PyObject *fields, int owned) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (fields != NULL && PyDict_Next(fields, &at, &name, &value)) {
        const int field = find_field(name);
        if (field < 0 || put(self, field, value, owned) < 0) return -1;
    }
    return 0;
}

/* Take the arrays of a pack, which reads and checks them. */
static int read_pack(tg_py_graph *self) {
    PyObject *made = PyObject_CallMethod(self->field[TG_G_PACK], "read", NULL);
    if (made == NULL) return -1;
    const tg_state *state = state_of(Py_TYPE((PyObject *)self));
    const int fine = state != NULL && PyObject_TypeCheck(made, state->graph);
    tg_py_graph *other = (tg_py_graph *)made;
    for (int i = 0; fine && i <= TG_G_ABOUT; i++)
        if (self->field[i] == NULL && other->field[i] != NULL) self->field[i] = Py_NewRef(other->field[i]);
    Py_DECREF(made);
    if (!fine && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a pack gives a graph");
    return fine ? 0 : -1;
}

PyObject *tg_graph_get(tg_py_graph *self, tg_graph_field field) {
    PyObject *pack = self->field[TG_G_PACK];
    if (self->field[field] == NULL && field <= TG_G_ABOUT && pack != NULL && pack != Py_None &&
        read_pack(self) < 0)
        return NULL;
    return self->field[field] == NULL ? Py_None : self->field[field];
}

static PyObject *get_field(PyObject *object, void *which) {
    PyObject *value = tg_graph_get((tg_py_graph *)object, (tg_graph_field)(intptr_t)which);
    Py_XINCREF(value);
    return value;
}

/* How many rows an array has. */
static PyObject *get_count(PyObject *object, void *which) {
    PyObject *array = tg_graph_get((tg_py_graph *)object, (tg_graph_field)(intptr_t)which);
    if (array == NULL) return NULL;
    return PyLong_FromSsize_t(array == Py_None ? 0 : PyArray_DIM((PyArrayObject *)array, 0));
}

/* ---- methods ---- */

static PyObject *set_fields(PyObject *object, PyObject *args, PyObject *kwargs) {
    (void)args;
    if (put_all((tg_py_graph *)object, kwargs, 0) < 0) return NULL;
    Py_RETURN_NONE;
}

/* _with(kind=None, /, **fields): a copy, of another class, with other fields, which are checked already. */
static PyObject *with_fields(PyObject *object, PyObject *args, PyObject *kwargs) {
    tg_py_graph *self = (tg_py_graph *)object;
    PyTypeObject *kind = Py_TYPE(object);
    tg_state *state = state_of(kind);
    if (state == NULL || !PyArg_ParseTuple(args, "|O!:_with", &PyType_Type, &kind)) return NULL;
    if (!PyType_IsSubtype(kind, state->graph)) {
        PyErr_SetString(PyExc_TypeError, "_with: expected a class of graphs");
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(kind, Py_tp_alloc);
    PyObject *other = alloc(kind, 0);
    for (int i = 0; other != NULL && i < TG_G_FIELDS; i++)
        ((tg_py_graph *)other)->field[i] = self->field[i] == NULL ? NULL : Py_NewRef(self->field[i]);
    if (other != NULL && put_all((tg_py_graph *)other, kwargs, 0) < 0) Py_CLEAR(other);
    return other;
}

/* What is given as arrays of numbers; digits that are stored stay as they are. A new dict. */
static PyObject *numbers_of(PyObject *given) {
    PyObject *arrays = PyDict_New(), *name, *value;
    Py_ssize_t at = 0;
    while (arrays != NULL && PyDict_Next(given, &at, &name, &value)) {
        if (value == Py_None) continue;
        const char *field = tg_utf8(name, NULL);
        PyObject *held = PyObject_HasAttrString(value, "_digits") ? PyObject_GetAttrString(value, "_digits")
                                                                  : Py_NewRef(value);
        PyObject *array =
            held == NULL || field == NULL || tg_is_digits(held) ? Py_XNewRef(held) : tg_numbers(field, held);
        Py_XDECREF(held);
        if (field == NULL || array == NULL || PyDict_SetItem(arrays, name, array) < 0) Py_CLEAR(arrays);
        Py_XDECREF(array);
    }
    return arrays;
}

static PyObject *take(PyObject *object, PyObject *args) {
    PyObject *given, *columns = NULL, *schema = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O!O:_take", &PyDict_Type, &given, &PyDict_Type, &columns, &schema))
        return NULL;
    tg_state *state = state_of(Py_TYPE(object));
    PyObject *arrays = state == NULL ? NULL : numbers_of(given);
    if (arrays == NULL) return NULL;
    const int status =
        tg_graph_take((tg_py_graph *)object, state, arrays, columns, schema == Py_None ? NULL : schema);
    Py_DECREF(arrays);
    if (status < 0) return NULL;
    Py_RETURN_NONE;
}

/* All fields but the pack, which stays with this process. */
static PyObject *get_state(PyObject *object, PyObject *unused) {
    (void)unused;
    PyObject *fields = PyDict_New();
    for (int i = 0; fields != NULL && i < TG_G_PACK; i++) {
        PyObject *value = tg_graph_get((tg_py_graph *)object, (tg_graph_field)i);
        if (value == NULL ||
            (value != Py_None && PyDict_SetItemString(fields, tg_graph_fields[i].name, value) < 0))
            Py_CLEAR(fields);
    }
    return fields;
}

static PyObject *set_state(PyObject *object, PyObject *fields) {
    if (!PyDict_Check(fields)) {
        PyErr_SetString(PyExc_TypeError, "a graph's state is a dict of its fields");
        return NULL;
    }
    if (put_all((tg_py_graph *)object, fields, 1) < 0) return NULL;
    Py_RETURN_NONE;
}

static int set_attribute(PyObject *object, PyObject *name, PyObject *value) {
    (void)object;
    if (value == NULL) PyErr_SetString(PyExc_AttributeError, "graphs are read-only");
    else PyErr_Format(PyExc_AttributeError, "graphs are read-only: use g.replace(%U=...)", name);
    return -1;
}

/* ---- the type ---- */

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

static void graph_dealloc(PyObject *object) {
    tg_py_graph *self = (tg_py_graph *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_ClearWeakRefs(object);
    for (int i = 0; i < TG_G_FIELDS; i++) Py_CLEAR(self->field[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

#define FIELD(which, doc)       {NULL, get_field, NULL, PyDoc_STR(doc), (void *)(intptr_t)(which)}
#define COUNT(name, which, doc) {name, get_count, NULL, PyDoc_STR(doc), (void *)(intptr_t)(which)}
static PyGetSetDef getset[TG_G_FIELDS + 5] = {
    FIELD(TG_G_NODE_FEAT, "(N, F) float32"),
    FIELD(TG_G_OPCODE, "(N,) uint8, or None"),
    FIELD(TG_G_EDGES, "(E, 2) int64"),
    FIELD(TG_G_SPLITS, "(1, S) int64, or None"),
    FIELD(TG_G_CONFIG_IDS, "(K,) int64"),
    FIELD(TG_G_GRAPH_FEAT, "(G,) float32, or None"),
    FIELD(TG_G_CONFIG_FEAT, "(C, T) float32, or None"),
    FIELD(TG_G_RUNTIME, "(C,) int64 or float64"),
    FIELD(TG_G_NORMALIZERS, "(C,) int64, or None"),
    FIELD(TG_G_VALID, "(C,) bool, or None"),
    FIELD(TG_G_REPEATS, "(C, R) float64, or None"),
    FIELD(TG_G_DIGITS, "Digits of the configs"),
    FIELD(TG_G_CHECKED, "Kinds of the columns that the features were checked as, or None"),
    FIELD(TG_G_SCHEMA, "Meaning of the columns"),
    FIELD(TG_G_ABOUT, "Facts about the measurements"),
    FIELD(TG_G_NAME, "Name"),
    FIELD(TG_G_COLLECTION, "Collection, or None"),
    FIELD(TG_G_PATH, "Path of the file, or None"),
    FIELD(TG_G_PACK, "The pack that holds the arrays, or None"),
    COUNT("num_nodes", TG_G_NODE_FEAT, "Number N of nodes."),
    COUNT("num_edges", TG_G_EDGES, "Number E of edges."),
    COUNT("num_configs", TG_G_RUNTIME, "Number C of configs."),
    COUNT("num_config_nodes", TG_G_CONFIG_IDS,
          "Number K of configurable nodes, 0 where configs are features only."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"_set", (PyCFunction)(void (*)(void))set_fields, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("_set(**fields): fill fields, which are checked already.")},
    {"_with", (PyCFunction)(void (*)(void))with_fields, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "_with(kind=None, /, **fields): a copy, of another class, with other fields, which are checked "
         "already.")},
    {"_take", take, METH_VARARGS,
     PyDoc_STR(
         "_take(given, columns={}, schema=None): check arrays and hold them, by the rules of the graph's "
         "kind, and of a schema that was given. Names of columns, by field, are for errors.")},
    {"__getstate__", get_state, METH_NOARGS, NULL},
    {"__setstate__", set_state, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tg_py_graph, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_setattro, set_attribute},
    {Py_tp_doc,
     (void *)PyDoc_STR("Graph(): the arrays of a measured graph, read-only. Those of a pack are read and "
                       "checked when they are first asked for.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Graph",
                           .basicsize = sizeof(tg_py_graph),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           .slots = slots};

int tg_add_graph_type(PyObject *module) {
    for (int i = 0; i < TG_G_FIELDS; i++) getset[i].name = tg_graph_fields[i].name;
    return tg_add_type(module, &spec, "Graph", &((tg_state *)PyModule_GetState(module))->graph);
}
