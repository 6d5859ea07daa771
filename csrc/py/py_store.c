/* The Python type _core.Store: what was made of graphs, kept while it is used and there is room. */
#include "py/py_prepared.h"

#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>

/* A key is a whole number, or an object by its identity, as long as it lives. */
typedef struct entry {
    PyObject *key; /* int or weak reference */
    PyObject *value;
    int64_t bytes;  /* that the value takes */
    int64_t mapped; /* of pages of a file that it reads; 0 once they were given back */
    uint64_t used;  /* when it was last asked for */
} entry;

typedef struct py_store {
    PyObject_HEAD entry *entries;
    Py_ssize_t n, room;
    int64_t bytes, mapped;           /* in all */
    int64_t most_bytes, most_mapped; /* -1: no limit */
    uint64_t clock;
    PyObject *weak; /* references to the store */
} py_store;

/* What a weak reference refers to, borrowed from whoever keeps it alive; None if it is gone. */
static PyObject *referent(PyObject *reference) {
    PyObject *object = PyObject_CallNoArgs(reference);
    Py_XDECREF(object);
    return object;
}

static int is_key(PyObject *key, PyObject *wanted) {
    if (!PyLong_Check(key)) return referent(key) == wanted;
    return PyLong_Check(wanted) && PyObject_RichCompareBool(key, wanted, Py_EQ) == 1;
}

/* Take entry i out. What it held is let go last: that may run code that uses the store. */
static void drop(py_store *self, Py_ssize_t i) {
    const entry gone = self->entries[i];
    self->entries[i] = self->entries[--self->n];
    self->bytes -= gone.bytes;
    self->mapped -= gone.mapped;
    Py_DECREF(gone.key);
    Py_DECREF(gone.value);
}

/* The entry used longest ago, but for `last`; with `mapped` of those that have pages in memory. -1: none. */
static Py_ssize_t oldest(const py_store *self, PyObject *last, int mapped) {
    Py_ssize_t found = -1;
    for (Py_ssize_t i = 0; i < self->n; i++) {
        const entry *e = &self->entries[i];
        if (e->value == last || (mapped && e->mapped == 0)) continue;
        if (found < 0 || e->used < self->entries[found].used) found = i;
    }
    return found;
}

/* Give the pages of entry i back. */
static int release_pages(py_store *self, Py_ssize_t i) {
    PyObject *value = self->entries[i].value;
    self->mapped -= self->entries[i].mapped;
    self->entries[i].mapped = 0;
    PyObject *of = PyObject_GetAttrString(value, "mapped");
    PyObject *method = of == NULL ? NULL : PyObject_GetAttrString(of, "release");
    PyObject *result = method == NULL ? NULL : PyObject_CallObject(method, NULL);
    Py_XDECREF(of);
    Py_XDECREF(method);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Make room: `last` stays, and so does what has no limit. */
static int shrink(py_store *self, PyObject *last) {
    Py_ssize_t i;
    while (self->most_bytes >= 0 && self->bytes > self->most_bytes && (i = oldest(self, last, 0)) >= 0)
        drop(self, i);
    while (self->most_mapped >= 0 && self->mapped > self->most_mapped && (i = oldest(self, last, 1)) >= 0)
        if (release_pages(self, i) < 0) return -1;
    return 0;
}

/* Bytes of what a prepared graph's configs are mapped from. -1 with an exception. */
static int64_t mapped_bytes(PyObject *value) {
    PyObject *of = PyObject_HasAttrString(value, "mapped") ? PyObject_GetAttrString(value, "mapped") : NULL;
    if (of == NULL || of == Py_None) {
        Py_XDECREF(of);
        return 0;
    }
    PyObject *bytes = PyObject_GetAttrString(of, "nbytes");
    const int64_t found = bytes == NULL ? -1 : PyLong_AsLongLong(bytes);
    Py_XDECREF(bytes);
    Py_DECREF(of);
    return found < 0 ? -1 : found;
}

static void drop_dead(py_store *self) {
    for (Py_ssize_t i = self->n; i-- > 0;)
        if (i < self->n && !PyLong_Check(self->entries[i].key) && referent(self->entries[i].key) == Py_None)
            drop(self, i);
}

/* What a dead key stood for is dropped at once, by the callback of its reference. */
static PyObject *forget_dead(PyObject *reference, PyObject *key) {
    (void)key;
    PyObject *store = PyObject_CallNoArgs(reference);
    if (store != NULL && store != Py_None) drop_dead((py_store *)store);
    return store;
}
static PyMethodDef forget_dead_method = {"forget_dead", forget_dead, METH_O, NULL};

static PyObject *new_key(py_store *self, PyObject *key) {
    if (PyLong_Check(key)) {
        Py_INCREF(key);
        return key;
    }
    PyObject *me = PyWeakref_NewRef((PyObject *)self, NULL);
    PyObject *callback = me == NULL ? NULL : PyCFunction_New(&forget_dead_method, me);
    PyObject *reference = callback == NULL ? NULL : PyWeakref_NewRef(key, callback);
    Py_XDECREF(me);
    Py_XDECREF(callback);
    return reference;
}

static entry *find(py_store *self, PyObject *key) {
    for (Py_ssize_t i = 0; i < self->n; i++)
        if (is_key(self->entries[i].key, key)) return &self->entries[i];
    return NULL;
}

/* get(key) -> value or None */
static PyObject *get(PyObject *object, PyObject *key) {
    py_store *self = (py_store *)object;
    entry *found = find(self, key);
    if (found == NULL) Py_RETURN_NONE;
    PyObject *value = found->value;
    Py_INCREF(value);
    found->used = ++self->clock;
    const int64_t mapped = self->most_mapped < 0 || found->mapped > 0 ? 0 : mapped_bytes(value);
    found = mapped > 0 ? find(self, key) : NULL;
    if (found != NULL) {
        found->mapped = mapped;
        self->mapped += mapped;
    }
    if (mapped >= 0 && shrink(self, value) == 0) return value;
    Py_DECREF(value);
    return NULL;
}

/* put(key, value, nbytes=0) -> value */
static PyObject *put(PyObject *object, PyObject *args) {
    py_store *self = (py_store *)object;
    PyObject *key, *value;
    long long bytes = 0;
    if (!PyArg_ParseTuple(args, "OO|L:put", &key, &value, &bytes)) return NULL;
    const int64_t mapped = self->most_mapped < 0 ? 0 : mapped_bytes(value);
    PyObject *own = mapped < 0 ? NULL : new_key(self, key);
    if (own == NULL) return NULL;
    const entry *known = find(self, key);
    if (known != NULL) drop(self, known - self->entries);
    if (self->n == self->room) {
        const Py_ssize_t room = 2 * self->room + 4;
        entry *more = realloc(self->entries, (size_t)room * sizeof *more);
        if (more == NULL) {
            Py_DECREF(own);
            return PyErr_NoMemory();
        }
        self->entries = more;
        self->room = room;
    }
    Py_INCREF(value);
    self->entries[self->n++] = (entry){own, value, bytes, mapped, ++self->clock};
    self->bytes += bytes;
    self->mapped += mapped;
    Py_INCREF(value);
    if (shrink(self, value) == 0) return value;
    Py_DECREF(value);
    return NULL;
}

static PyObject *clear(PyObject *object, PyObject *unused) {
    py_store *self = (py_store *)object;
    (void)unused;
    while (self->n > 0) drop(self, self->n - 1);
    Py_RETURN_NONE;
}

static Py_ssize_t length(PyObject *object) { return ((py_store *)object)->n; }

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"nbytes", "mapped", NULL};
    long long bytes = -1, mapped = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LL:Store", names, &bytes, &mapped)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_store *self = (py_store *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->most_bytes = bytes;
    self->most_mapped = mapped;
    return (PyObject *)self;
}

/* Values never hold their store, so nothing here needs the cycle collector. */
static void store_dealloc(PyObject *object) {
    py_store *self = (py_store *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_ClearWeakRefs(object);
    while (self->n > 0) drop(self, self->n - 1);
    free(self->entries);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *get_bytes(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(((py_store *)object)->bytes);
}

static PyGetSetDef getset[] = {
    {"nbytes", get_bytes, NULL, PyDoc_STR("Bytes that all values take"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(py_store, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef methods[] = {
    {"get", get, METH_O, PyDoc_STR("get(key): the value that is kept for the key, or None.")},
    {"put", put, METH_VARARGS,
     PyDoc_STR(
         "put(key, value, nbytes=0): keep a value of that size, and return it. Those used longest ago go "
         "when there is no room.")},
    {"clear", clear, METH_NOARGS, PyDoc_STR("Forget everything.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, store_new},
    {Py_tp_dealloc, store_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_sq_length, length},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Store(nbytes=-1, mapped=-1): what was made of graphs, by their number or, while they live, by "
         "themselves. It takes at most `nbytes` bytes; the files that prepared graphs are mapped from have "
         "at "
         "most `mapped` bytes in memory. But what was used last stays; -1: no limit.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Store",
                           .basicsize = sizeof(py_store),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int tg_add_store_type(PyObject *module) { return tg_add_type(module, &spec, "Store", NULL); }
