#include "py/py_space.h"

#include <stdlib.h>
#include <string.h>

static const char todo_codes[] = "codes: expected numbers of values of each parameter, found %d of '%.80s'";

/* Work that runs without the GIL, unless constraints need it. */
#define BEGIN(self) PyThreadState *thread = (self)->calls ? NULL : PyEval_SaveThread()
#define END()       ((void)(thread != NULL ? PyEval_RestoreThread(thread) : (void)0))

static PyArrayObject *new_codes(int64_t n, int32_t P) {
    const npy_intp dims[2] = {(npy_intp)n, P};
    return tg_new_array(NPY_INT32, 2, dims);
}

/* The first m rows in an array of their own. Takes over `rows`. */
static PyObject *first_rows(PyArrayObject *rows, int64_t m, int32_t P) {
    if (PyArray_DIM(rows, 0) == m) return (PyObject *)rows;
    PyArrayObject *fewer = new_codes(m, P);
    if (fewer != NULL) memcpy(TG_I32(fewer), TG_I32(rows), (size_t)(m * P) * sizeof(int32_t));
    Py_DECREF((PyObject *)rows);
    return (PyObject *)fewer;
}

/* Codes (n, P), each of a value. Borrowed, or NULL with an exception. */
static PyArrayObject *take_codes(const tg_py_space *self, PyObject *given, npy_intp *n) {
    npy_intp dims[2] = {-1, self->space.P};
    PyArrayObject *codes = tg_array(given, "codes", NPY_INT32, 2, dims, "(n, P)");
    if (codes == NULL) return NULL;
    *n = dims[0];
    const int32_t *code = TG_I32(codes);
    for (npy_intp i = 0; i < *n; i++)
        for (int32_t p = 0; p < self->space.P; p++, code++)
            if (*code < 0 || *code >= self->space.params[p].n) {
                tg_error err;
                tg_fail(&err, TG_E_CONFIG, todo_codes, (int)*code, self->space.params[p].name);
                return tg_raise(&err, NULL), NULL;
            }
    return codes;
}

/* ---- methods ---- */

/* sample(n, seed) -> (m, P) int32 */
static PyObject *sample(PyObject *object, PyObject *args) {
    tg_py_space *self = (tg_py_space *)object;
    long long n;
    unsigned long long seed;
    int64_t m = 0;
    if (!PyArg_ParseTuple(args, "LK:sample", &n, &seed)) return NULL;
    if (n < 0) return PyErr_SetString(PyExc_ValueError, "sample: expected n >= 0"), NULL;
    if (self->space.total >= 0 && n > self->space.total) n = self->space.total;
    PyArrayObject *codes = new_codes(n, self->space.P);
    if (codes == NULL) return NULL;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    BEGIN(self);
    const tg_status status = tg_cspace_sample(&self->space, n, seed, TG_I32(codes), &m, &cancel, &err);
    END();
    if (status == TG_OK) return first_rows(codes, m, self->space.P);
    Py_DECREF((PyObject *)codes);
    return tg_raise(&err, NULL);
}

/* feasible(codes (n, P)) -> (n,) bool */
static PyObject *feasible(PyObject *object, PyObject *given) {
    tg_py_space *self = (tg_py_space *)object;
    npy_intp dims[2] = {-1, self->space.P};
    PyArrayObject *codes = tg_array(given, "codes", NPY_INT32, 2, dims, "(n, P)");
    PyArrayObject *mask = codes == NULL ? NULL : tg_new_array(NPY_BOOL, 1, dims);
    if (mask == NULL) return NULL;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    BEGIN(self);
    const tg_status status =
        tg_cspace_feasible(&self->space, TG_I32(codes), dims[0], TG_U8(mask), &cancel, &err);
    END();
    if (status == TG_OK) return (PyObject *)mask;
    Py_DECREF((PyObject *)mask);
    return tg_raise(&err, NULL);
}

/* neighbours(code (P,), adjacent=False) -> (m, P) int32 */
static PyObject *neighbours(PyObject *object, PyObject *args) {
    tg_py_space *self = (tg_py_space *)object;
    const int32_t P = self->space.P;
    PyObject *given;
    int adjacent = 0;
    npy_intp dims[1] = {P}, n;
    if (!PyArg_ParseTuple(args, "O|p:neighbours", &given, &adjacent)) return NULL;
    PyArrayObject *row = tg_array(given, "code", NPY_INT32, 1, dims, "(P,)");
    if (row == NULL) return NULL;
    const npy_intp one[2] = {1, P};
    PyArrayObject *rows = tg_view(NPY_INT32, 2, one, TG_I32(row), (PyObject *)row, 0);
    if (rows == NULL || take_codes(self, (PyObject *)rows, &n) == NULL) {
        Py_XDECREF((PyObject *)rows);
        return NULL;
    }
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    int32_t *found = NULL;
    int64_t m = 0;
    BEGIN(self);
    const tg_status status =
        tg_cspace_neighbours(&self->space, TG_I32(row), adjacent, &found, &m, &cancel, &err);
    END();
    Py_DECREF((PyObject *)rows);
    PyArrayObject *made = status == TG_OK ? new_codes(m, P) : NULL;
    if (made != NULL && m > 0) memcpy(TG_I32(made), found, (size_t)(m * P) * sizeof *found);
    free(found);
    return status == TG_OK ? (PyObject *)made : tg_raise(&err, NULL);
}

/* all(most) -> (m, P) int32 or None */
static PyObject *all(PyObject *object, PyObject *arg) {
    tg_py_space *self = (tg_py_space *)object;
    const int64_t most = PyLong_AsLongLong(arg), total = self->space.total;
    if (most == -1 && PyErr_Occurred()) return NULL;
    if (total < 0 || total > most) Py_RETURN_NONE;
    PyArrayObject *codes = new_codes(total, self->space.P);
    if (codes == NULL) return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t rank = 0; rank < total; rank++)
        tg_cspace_unrank(&self->space, rank, TG_I32(codes) + rank * self->space.P);
    Py_END_ALLOW_THREADS
    return (PyObject *)codes;
}

/* columns(codes (n, P)) -> (n, F) float64 */
static PyObject *columns(PyObject *object, PyObject *given) {
    tg_py_space *self = (tg_py_space *)object;
    npy_intp n = 0, dims[2] = {0, 0};
    PyArrayObject *codes = take_codes(self, given, &n);
    if (codes == NULL) return NULL;
    for (int32_t p = 0; p < self->space.P; p++) dims[1] += tg_axis_columns(&self->space.params[p]);
    dims[0] = n;
    PyArrayObject *made = tg_new_array(NPY_FLOAT64, 2, dims);
    if (made != NULL) tg_cspace_columns(&self->space, TG_I32(codes), n, TG_F64(made));
    return (PyObject *)made;
}

/* configs(codes (n, P)) -> list of dicts */
static PyObject *configs(PyObject *object, PyObject *given) {
    const tg_py_space *self = (tg_py_space *)object;
    npy_intp n = 0;
    PyArrayObject *codes = take_codes(self, given, &n);
    PyObject *list = codes == NULL ? NULL : PyList_New(0);
    for (npy_intp i = 0; list != NULL && i < n; i++)
        tg_append(&list, tg_py_space_config(self, TG_I32(codes) + i * self->space.P));
    return list;
}

/* Raise about config number i. Returns -1. */
static int refuse(Py_ssize_t i, const char *param, const char *expected, PyObject *found) {
    tg_error err;
    PyObject *text = found == NULL ? NULL : PyObject_ASCII(found);
    const char *shown = text == NULL ? "none" : PyUnicode_AsUTF8AndSize(text, NULL);
    PyErr_Clear();
    tg_fail(&err, TG_E_CONFIG, "config %zd: %s%.80s%s: expected %s, found %.160s", i,
            param[0] ? "parameter '" : "", param, param[0] ? "'" : "", expected,
            shown == NULL ? "another" : shown);
    tg_error_printable(&err);
    Py_XDECREF(text);
    tg_raise(&err, NULL);
    return -1;
}

/* The codes of a dict: 1; 0 if it is not in the space and need not be; -1 with an exception. */
static int code_config(const tg_py_space *self, PyObject *config, Py_ssize_t i, int strict, int32_t *row) {
    const int32_t P = self->space.P;
    if (!PyDict_Check(config)) return refuse(i, "", "a dict of parameter to value", config);
    for (int32_t p = 0; p < P; p++) {
        PyObject *value = PyDict_GetItemWithError(config, PyTuple_GetItem(self->names, p));
        if (value == NULL && PyErr_Occurred()) return -1;
        const int found = value == NULL ? 0 : tg_py_space_code(self, p, value, &row[p]);
        if (found < 0) return -1;
        if (!found) return strict ? refuse(i, self->space.params[p].name, "one of its values", value) : 0;
    }
    if (PyDict_Size(config) == P) return 1;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; strict && PyDict_Next(config, &at, &key, &value);) {
        const int known = PySequence_Contains(self->names, key);
        if (known < 0) return -1;
        if (!known) return refuse(i, "", "parameters of the space", key);
    }
    return 0;
}

/* codes(configs, strict=True) -> (n, P) int32 */
static PyObject *codes(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"configs", "strict", NULL};
    tg_py_space *self = (tg_py_space *)object;
    const int32_t P = self->space.P;
    PyObject *given;
    int strict = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:codes", names, &given, &strict)) return NULL;
    PyObject *list = PySequence_List(given);
    const Py_ssize_t n = list == NULL ? 0 : PyList_Size(list);
    PyArrayObject *made = list == NULL ? NULL : new_codes(n, P);
    uint8_t *holds = made == NULL ? NULL : PyMem_Malloc((size_t)n + 1);
    int failed = holds == NULL;
    for (Py_ssize_t i = 0; !failed && i < n; i++) {
        int32_t *row = TG_I32(made) + i * P;
        const int found = code_config(self, PyList_GetItem(list, i), i, strict, row);
        failed = found < 0;
        if (found == 0) memset(row, -1, (size_t)P * sizeof *row);
    }
    tg_error err;
    if (!failed && tg_cspace_feasible(&self->space, TG_I32(made), n, holds, NULL, &err) != TG_OK)
        failed = 1, tg_raise(&err, NULL);
    for (Py_ssize_t i = 0; !failed && i < n; i++) {
        if (holds[i]) continue;
        if (strict) {
            if (tg_cspace_require(&self->space, TG_I32(made) + i * P, &err) == TG_OK)
                tg_fail(&err, TG_E_CONFIG, "no");
            failed = 1;
            if (err.code == TG_E_CONFIG) refuse(i, "", err.message, PyList_GetItem(list, i));
            else tg_raise(&err, NULL);
        } else memset(TG_I32(made) + i * P, -1, (size_t)P * sizeof(int32_t));
    }
    PyMem_Free(holds);
    Py_XDECREF(list);
    if (!failed) return (PyObject *)made;
    Py_XDECREF((PyObject *)made);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

/* estimate() -> (size, standard error) */
static PyObject *estimate(PyObject *object, PyObject *unused) {
    tg_py_space *self = (tg_py_space *)object;
    double size, error;
    (void)unused;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    BEGIN(self);
    const tg_status status = tg_cspace_estimate(&self->space, &size, &error, &cancel, &err);
    END();
    return status == TG_OK ? Py_BuildValue("(dd)", size, error) : tg_raise(&err, NULL);
}

static PyObject *reduce(PyObject *object, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("OO", Py_TYPE(object), ((tg_py_space *)object)->args);
}

/* ---- attributes ---- */

static PyObject *get_names(PyObject *object, void *unused) {
    (void)unused;
    return Py_NewRef(((tg_py_space *)object)->names);
}

static PyObject *get_sizes(PyObject *object, void *unused) {
    const tg_cspace *space = &((tg_py_space *)object)->space;
    (void)unused;
    PyObject *sizes = PyTuple_New(space->P);
    for (int32_t p = 0; sizes != NULL && p < space->P; p++)
        PyTuple_SetItem(sizes, p, PyLong_FromLong(space->params[p].n));
    return sizes;
}

/* A product of counts, of any size. */
static PyObject *get_size(PyObject *object, void *unused) {
    const tg_cspace *space = &((tg_py_space *)object)->space;
    (void)unused;
    if (space->total >= 0) return PyLong_FromLongLong(space->total);
    PyObject *size = PyLong_FromLong(1);
    for (int32_t g = 0; size != NULL && g < space->n_groups; g++) {
        if (!space->groups[g].whole) {
            Py_DECREF(size);
            Py_RETURN_NONE;
        }
        PyObject *count = PyLong_FromLongLong(space->groups[g].count);
        PyObject *product = count == NULL ? NULL : PyNumber_Multiply(size, count);
        Py_XDECREF(count);
        Py_DECREF(size);
        size = product;
    }
    return size;
}

/* Of each group: its parameters, the nodes of the tree's last level, whether the tree is whole. */
static PyObject *get_groups(PyObject *object, void *unused) {
    const tg_py_space *self = (tg_py_space *)object;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int32_t g = 0; list != NULL && g < self->space.n_groups; g++) {
        const tg_cspace_group *group = &self->space.groups[g];
        PyObject *names = PyTuple_New(group->m);
        for (int32_t l = 0; names != NULL && l < group->m; l++)
            PyTuple_SetItem(names, l, Py_NewRef(PyTuple_GetItem(self->names, group->levels[l].param)));
        tg_append(&list,
                  Py_BuildValue("(NLO)", names, (long long)group->nodes, group->whole ? Py_True : Py_False));
    }
    return list;
}

static PyObject *get_column_names(PyObject *object, void *unused) {
    const tg_py_space *self = (tg_py_space *)object;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int32_t p = 0; list != NULL && p < self->space.P; p++) {
        const tg_axis *param = &self->space.params[p];
        PyObject *name = PyTuple_GetItem(self->names, p);
        const int32_t n = tg_axis_columns(param);
        for (int32_t i = 0; list != NULL && i < n; i++) {
            PyObject *value = param->kind == TG_AXIS_ORDER ? NULL : tg_py_space_value(self, p, i);
            tg_append(&list, param->kind == TG_AXIS_ORDER ? PyUnicode_FromFormat("place of %d in %U", i, name)
                             : n > 1                      ? PyUnicode_FromFormat("%U = %S", name, value)
                             : param->log                 ? PyUnicode_FromFormat("log2 %U", name)
                                                          : Py_NewRef(name));
            Py_XDECREF(value);
        }
    }
    PyObject *names = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return names;
}

/* ---- the type ---- */

static PyObject *space_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"parameters", "constraints", "table", "budget", NULL};
    PyObject *parameters, *constraints, *table = Py_None;
    long long budget = TG_CSPACE_NODES;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|OL:Space", names, &PyDict_Type, &parameters,
                                     &PyTuple_Type, &constraints, &table, &budget))
        return NULL;
    if (budget < 0 || budget > TG_CSPACE_NODES) {
        PyErr_Format(PyExc_ValueError, "budget: expected 0..%d, got %lld", TG_CSPACE_NODES, budget);
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tg_py_space *self = (tg_py_space *)alloc(type, 0);
    if (self == NULL) return NULL;
    PyObject *copy = PyDict_Copy(parameters);
    self->args = copy == NULL ? NULL : Py_BuildValue("(NOOL)", copy, constraints, table, budget);
    if (self->args == NULL || tg_py_space_fill(self, copy, constraints, table, budget) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
    tg_py_space *self = (tg_py_space *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->args);
    Py_VISIT(self->names);
    Py_VISIT(self->values);
    Py_VISIT(self->index);
    Py_VISIT(self->functions);
    return 0;
}

/* A function can hold the space that holds it; all else cannot. */
static int clear(PyObject *object) {
    tg_py_space *self = (tg_py_space *)object;
    Py_CLEAR(self->args);
    Py_CLEAR(self->functions);
    return 0;
}

static void dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    tg_py_space *self = (tg_py_space *)object;
    tg_py_space_release(self);
    clear(object);
    Py_CLEAR(self->names);
    Py_CLEAR(self->values);
    Py_CLEAR(self->index);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"sample", sample, METH_VARARGS,
     PyDoc_STR("sample(n, seed): codes (m, P) of distinct feasible configs.")},
    {"feasible", feasible, METH_O, PyDoc_STR("feasible(codes (n, P)) -> (n,) bool")},
    {"neighbours", neighbours, METH_VARARGS,
     PyDoc_STR("neighbours(code (P,), adjacent=False): codes (m, P) of the feasible configs next to it.")},
    {"all", all, METH_O,
     PyDoc_STR("all(most): codes (m, P) of all feasible configs, None if there are more.")},
    {"columns", columns, METH_O, PyDoc_STR("columns(codes (n, P)) -> (n, F) float64, see column_names")},
    {"configs", configs, METH_O, PyDoc_STR("configs(codes (n, P)) -> list of dicts")},
    {"codes", (PyCFunction)(void (*)(void))codes, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "codes(configs, strict=True) -> (n, P) int32; not strict: -1 for configs that are not feasible")},
    {"estimate", estimate, METH_NOARGS,
     PyDoc_STR("estimate() -> (number of feasible configs, its standard error)")},
    {"__reduce__", reduce, METH_NOARGS, PyDoc_STR("What makes it again.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"names", get_names, NULL, PyDoc_STR("Names of the parameters (P,)."), NULL},
    {"sizes", get_sizes, NULL, PyDoc_STR("How many values each has (P,)."), NULL},
    {"size", get_size, NULL, PyDoc_STR("Number of feasible configs, or None."), NULL},
    {"groups", get_groups, NULL, PyDoc_STR("Groups of dependent parameters: (names, nodes, whole)."), NULL},
    {"column_names", get_column_names, NULL, PyDoc_STR("Names of columns (F,)."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, space_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc,
     (void *)PyDoc_STR("Space(parameters, constraints, table=None, budget=2**20): a space of configs.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Space",
                           .basicsize = sizeof(tg_py_space),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                           .slots = slots};

int tg_add_space_type(PyObject *module) { return tg_add_type(module, &spec, "Space", NULL); }
