#include "py/py_digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "io/npz.h"
#include "py/py_configs.h"
#include "py/py_npz.h"
#include "py/py_pack.h"

/* ---- errors name the file ---- */

/* Raise for `err` (NULL: an exception is set) with the path. Returns NULL. */
static void *failed(const tg_py_digits *self, const tg_error *err) {
    if (err != NULL) tg_raise_about(err, self->path);
    if (self->path == Py_None || !PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *module = PyImport_ImportModule("tpugraphs.system.files");
    PyObject *named =
        module == NULL ? NULL : PyObject_CallMethod(module, "no_memory", "OO", self->path, error);
    if (named != NULL) PyErr_SetObject(PyExc_MemoryError, named);
    Py_XDECREF(named);
    Py_XDECREF(module);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return NULL;
}

/* ---- digits of a file ---- */

/* The digits of an .npz that is open, as an array of their own. */
typedef PyObject *(*reader)(const tg_py_digits *self, tg_npz_file *file, const tg_member *member,
                            const tg_npy *npy, tg_error *err);

static PyObject *read_npz(const tg_py_digits *self, reader read) {
    PyObject *path;
    if (!PyUnicode_FSConverter(self->path, &path)) return NULL;
    tg_error err = {0};
    tg_status status;
    tg_npy npy;
    const tg_member *member;
    const char *name = PyBytes_AsString(path);
    tg_npz_file file;
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_file_find_digits(&file, name, tg_python_cancel(), &self->stamp, self->shape, &member,
                                     &npy, &err);
    Py_END_ALLOW_THREADS
    PyObject *result = status == TG_OK ? read(self, &file, member, &npy, &err) : NULL;
    tg_npz_file_close(&file);
    Py_DECREF(path);
    return result != NULL ? result : failed(self, PyErr_Occurred() ? NULL : &err);
}

/* Layout digits are packed while they are inflated. */
static PyObject *read_layouts(const tg_py_digits *self, tg_npz_file *file, const tg_member *member,
                              const tg_npy *npy, tg_error *err) {
    const npy_intp dims[3] = {(npy_intp)self->shape[0], (npy_intp)self->shape[1], (npy_intp)self->shape[2]};
    PyArrayObject *digits = tg_new_array(NPY_INT8, 3, dims);
    if (digits == NULL) return NULL;
    tg_status status;
    int8_t *to = TG_I8(digits);
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_read_digits(&file->npz, member, npy, to, err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) Py_CLEAR(digits);
    return (PyObject *)digits;
}

static PyObject *read_others(const tg_py_digits *self, tg_npz_file *file, const tg_member *member,
                             const tg_npy *npy, tg_error *err) {
    tg_door door = {.field = "node_config_feat", .letters = "CKD", .dims = {-1, -1, -1}, .file = self->path};
    door.given = (PyObject *)tg_npz_array(&file->npz, member, npy, err);
    PyArrayObject *digits = door.given == NULL ? NULL : tg_door_digits(&door, self->values.of);
    Py_XDECREF(door.given);
    return (PyObject *)digits;
}

/* Give back what an array of rows has behind its first `rows`. 0 with an exception. */
static int shorten(PyArrayObject *array, npy_intp rows) {
    npy_intp shape[NPY_MAXDIMS];
    for (int i = 0; i < PyArray_NDIM(array); i++) shape[i] = i == 0 ? rows : PyArray_DIM(array, i);
    PyArray_Dims dims = {shape, PyArray_NDIM(array)};
    PyObject *none = PyArray_Resize(array, &dims, 0, NPY_CORDER);
    Py_XDECREF(none);
    return none != NULL;
}

/* (digits, first, inverse). The rest of `digits` has never been touched when it is given back, so it has cost no
   memory. */
static PyObject *read_different(const tg_py_digits *self, tg_npz_file *file, const tg_member *member,
                                const tg_npy *npy, tg_error *err) {
    const npy_intp dims[3] = {(npy_intp)self->shape[0], (npy_intp)self->shape[1], (npy_intp)self->shape[2]};
    PyArrayObject *digits = tg_new_array(NPY_INT8, 3, dims), *first = tg_new_array(NPY_INT64, 1, dims),
                  *inverse = tg_new_array(NPY_INT64, 1, dims);
    PyObject *result = NULL;
    if (digits != NULL && first != NULL && inverse != NULL) {
        tg_status status;
        int64_t U;
        int8_t *to = TG_I8(digits);
        int64_t *firsts = TG_I64(first), *inverses = TG_I64(inverse);
        Py_BEGIN_ALLOW_THREADS
        status = tg_npz_read_distinct(&file->npz, member, npy, to, firsts, inverses, &U, err);
        Py_END_ALLOW_THREADS
        if (status == TG_OK && shorten(digits, (npy_intp)U) && shorten(first, (npy_intp)U))
            result = PyTuple_Pack(3, digits, first, inverse);
    }
    Py_XDECREF((PyObject *)digits);
    Py_XDECREF((PyObject *)first);
    Py_XDECREF((PyObject *)inverse);
    return result;
}

/* The digits of a mapped pack are compared with their checksum once, when they are first used. */
static int intact(const tg_py_digits *self) {
    return self->handle == NULL ? 0 : tg_pack_configs(self->handle);
}

/* ---- digits as numbers of a table ---- */

/* The table with room for eight per entry (freed by the caller); NULL with `err` set. */
static int8_t *open_codes(const tg_py_digits *self, tg_codes *codes, tg_error *err) {
    const PyArrayObject *table = (PyArrayObject *)self->table;
    if (tg_codes_array(self->codes, -1, codes) < 0) return NULL; /* cannot be: it was one before */
    codes->entries = PyArray_DIM(table, 0);
    int8_t *wide = malloc((size_t)codes->entries * 8 + 8);
    if (wide == NULL) tg_fail(err, TG_E_MEMORY, "no memory for a table of layouts");
    else if (tg_codes_widen(wide, TG_I8(table), codes->entries, err) != TG_OK) {
        free(wide);
        return NULL;
    }
    codes->table = wide;
    return wide;
}

static PyArrayObject *decode(const tg_py_digits *self, PyArrayObject *rows) {
    tg_codes codes;
    tg_error err = {0};
    int8_t *wide = open_codes(self, &codes, &err);
    if (wide == NULL) return failed(self, &err);
    const npy_intp n = PyArray_DIM(rows, 0), dims[3] = {n, (npy_intp)codes.K, TG_DIGITS};
    PyArrayObject *digits = tg_new_array(NPY_INT8, 3, dims);
    tg_status status = TG_OK;
    if (digits != NULL) {
        const int64_t *row = TG_I64(rows);
        int8_t *to = TG_I8(digits);
        Py_BEGIN_ALLOW_THREADS
        for (npy_intp i = 0; i < n && status == TG_OK; i++)
            status = tg_codes_row(&codes, row[i], to + i * codes.K * TG_DIGITS, &err);
        Py_END_ALLOW_THREADS
    }
    free(wide);
    if (status == TG_OK && digits != NULL) return digits;
    Py_XDECREF((PyObject *)digits);
    return failed(self, status == TG_OK ? NULL : &err);
}

/* ---- what a graph asks for ---- */

/* Some rows of an array (C,...) of numbers, in one piece. */
static PyArrayObject *gather(PyArrayObject *array, PyArrayObject *rows) {
    npy_intp dims[3] = {PyArray_DIM(rows, 0), PyArray_DIM(array, 1), PyArray_DIM(array, 2)};
    PyArrayObject *some = tg_new_array(PyArray_TYPE(array), 3, dims);
    if (some == NULL) return NULL;
    const size_t width = (size_t)(dims[1] * dims[2]) * (size_t)PyArray_ITEMSIZE(array);
    const int64_t *row = TG_I64(rows);
    const char *from = PyArray_DATA(array);
    char *to = PyArray_DATA(some);
    Py_BEGIN_ALLOW_THREADS
    for (npy_intp i = 0; i < dims[0] && width > 0; i++)
        memcpy(to + (size_t)i * width, from + (size_t)row[i] * width, width);
    Py_END_ALLOW_THREADS
    return some;
}

/* Compare the array of a pack with its checksum and all values. 0 or -1. */
static int check_array(tg_py_digits *self) {
    if (!self->unchecked) return 0;
    if (intact(self) < 0) return -1;
    const int status = tg_digits_intact((PyArrayObject *)self->array, NULL, self->values.of, self->path);
    self->unchecked = status < 0;
    return status;
}

static PyArrayObject *take_rows(tg_py_digits *self, PyArrayObject *rows) {
    if (self->codes != NULL) return intact(self) < 0 ? NULL : decode(self, rows);
    if (!self->unchecked) {
        PyObject *all = tg_digits_all(self);
        PyArrayObject *some = all == NULL ? NULL : gather((PyArrayObject *)all, rows);
        Py_XDECREF(all);
        return some != NULL ? some : failed(self, NULL);
    }
    PyArrayObject *some = intact(self) < 0 ? NULL : gather((PyArrayObject *)self->array, rows);
    if (some != NULL && tg_digits_intact(some, TG_I64(rows), self->values.of, self->path) < 0) Py_CLEAR(some);
    return some;
}

PyObject *tg_digits_all(tg_py_digits *self) {
    if (self->array != NULL) return check_array(self) < 0 ? NULL : Py_NewRef(self->array);
    PyObject *made;
    if (self->codes != NULL) {
        PyObject *slice = PySlice_New(NULL, NULL, NULL);
        PyArrayObject *rows = slice == NULL ? NULL : tg_row_numbers(slice, self->shape[0]);
        made = rows == NULL ? NULL : (PyObject *)take_rows(self, rows);
        Py_XDECREF(slice);
        Py_XDECREF((PyObject *)rows);
    } else made = read_npz(self, self->values.n < 0 ? read_layouts : read_others);
    PyObject *array = (PyObject *)tg_frozen((PyArrayObject *)made, NULL);
    if (array == NULL || self->array != NULL) Py_XDECREF(array); /* another thread was faster */
    else self->array = array;
    return array == NULL ? NULL : Py_NewRef(self->array);
}

PyObject *tg_digits_stored(tg_py_digits *self) {
    if (self->codes == NULL) return tg_digits_all(self);
    return intact(self) < 0 ? NULL : PyTuple_Pack(2, self->codes, self->table);
}

PyObject *tg_digits_distinct(tg_py_digits *self) {
    PyObject *all = self->codes == NULL ? tg_digits_all(self)
                    : intact(self) < 0  ? NULL
                                        : Py_NewRef(self->codes);
    if (all == NULL) return NULL;
    PyArrayObject *a = (PyArrayObject *)all;
    const int64_t width = (int64_t)PyArray_DIM(a, 1) * PyArray_DIM(a, 2) * PyArray_ITEMSIZE(a);
    PyObject *both = tg_equal_rows(PyArray_DATA(a), PyArray_DIM(a, 0), width);
    Py_DECREF(all);
    return both != NULL ? both : failed(self, NULL);
}

PyObject *tg_digits_read_distinct(tg_py_digits *self) {
    if (self->array != NULL || !self->in_npz || self->values.n >= 0) return NULL;
    return read_npz(self, read_different);
}

/* ---- methods ---- */

static PyObject *get(PyObject *object, PyObject *unused) {
    (void)unused;
    return tg_digits_all((tg_py_digits *)object);
}

static PyObject *take(PyObject *object, PyObject *given) {
    tg_py_digits *self = (tg_py_digits *)object;
    PyArrayObject *rows = tg_row_numbers(given, self->shape[0]);
    PyObject *digits = rows == NULL ? NULL : (PyObject *)take_rows(self, rows);
    Py_XDECREF((PyObject *)rows);
    return digits;
}

static tg_py_digits *new_digits(PyTypeObject *type, const long long shape[3], const tg_digit_values *values) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tg_py_digits *self = (tg_py_digits *)alloc(type, 0);
    if (self == NULL) return NULL;
    for (int i = 0; i < 3; i++) self->shape[i] = shape[i];
    self->values = *values;
    self->path = Py_NewRef(Py_None);
    return self;
}

static void set_path(tg_py_digits *self, PyObject *path) {
    PyObject *old = self->path;
    self->path = Py_NewRef(path);
    Py_DECREF(old);
}

tg_py_digits *tg_new_digits(tg_state *state, PyArrayObject *array, const tg_digit_values *values) {
    PyArrayObject *own = tg_frozen(array, NULL);
    if (own == NULL) return NULL;
    const long long shape[3] = {PyArray_DIM(own, 0), PyArray_DIM(own, 1), PyArray_DIM(own, 2)};
    tg_py_digits *self = new_digits(state->digits, shape, values);
    if (self == NULL) Py_DECREF((PyObject *)own);
    else self->array = (PyObject *)own;
    return self;
}

/* select(rows): a copy of these configs, in memory, coded as here. */
static PyObject *select_rows(PyObject *object, PyObject *given) {
    tg_py_digits *self = (tg_py_digits *)object;
    PyArrayObject *rows = tg_row_numbers(given, self->shape[0]), *some = NULL;
    if (rows == NULL) return NULL;
    if (self->codes == NULL) some = take_rows(self, rows);
    else if (intact(self) == 0) some = gather((PyArrayObject *)self->codes, rows);
    PyObject *own = (PyObject *)tg_frozen(some, NULL);
    const long long shape[3] = {PyArray_DIM(rows, 0), self->shape[1], self->shape[2]};
    Py_DECREF((PyObject *)rows);
    tg_py_digits *other = own == NULL ? NULL : new_digits(Py_TYPE(object), shape, &self->values);
    if (other == NULL) {
        Py_XDECREF(own);
        return NULL;
    }
    if (self->codes == NULL) {
        other->array = own;
        return (PyObject *)other;
    }
    other->codes = own;
    other->table = (PyObject *)tg_private_copy((PyArrayObject *)self->table);
    set_path(other, self->path);
    if (other->table == NULL) Py_CLEAR(other);
    return (PyObject *)other;
}

static PyObject *stored(PyObject *object, PyObject *unused) {
    (void)unused;
    return tg_digits_stored((tg_py_digits *)object);
}

static PyObject *stamp_of(const tg_py_digits *self) {
    const tg_stamp *s = &self->stamp;
    return self->in_npz ? Py_BuildValue("(LLLL)", s->device, s->inode, s->size, s->changed)
                        : Py_NewRef(Py_None);
}

static PyObject *get_in_file(PyObject *object, void *unused) {
    (void)unused;
    const tg_py_digits *self = (tg_py_digits *)object;
    return PyBool_FromLong(self->array == NULL && self->in_npz && self->values.n < 0);
}

/* source(): the form for pack_write. */
static PyObject *source(PyObject *object, PyObject *unused) {
    (void)unused;
    tg_py_digits *self = (tg_py_digits *)object;
    if (self->array != NULL || !self->in_npz || self->values.n >= 0) return tg_digits_all(self);
    return Py_BuildValue("ON(LLL)", self->path, stamp_of(self), self->shape[0], self->shape[1],
                         self->shape[2]);
}

static PyObject *distinct(PyObject *object, PyObject *unused) {
    (void)unused;
    return tg_digits_distinct((tg_py_digits *)object);
}

static PyObject *read_distinct(PyObject *object, PyObject *unused) {
    (void)unused;
    PyObject *found = tg_digits_read_distinct((tg_py_digits *)object);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

static PyObject *validate(PyObject *object, PyObject *unused) {
    (void)unused;
    tg_py_digits *self = (tg_py_digits *)object;
    if (self->codes == NULL) {
        PyObject *all = tg_digits_all(self);
        if (all == NULL) return NULL;
        Py_DECREF(all);
        Py_RETURN_NONE;
    }
    tg_codes codes;
    tg_error err = {0};
    int8_t *wide = intact(self) < 0 ? NULL : open_codes(self, &codes, &err);
    if (wide == NULL) return PyErr_Occurred() ? NULL : failed(self, &err);
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_codes_check(&codes, 0, codes.C, &err);
    Py_END_ALLOW_THREADS
    free(wide);
    if (status != TG_OK) return failed(self, &err);
    Py_RETURN_NONE;
}

static PyObject *release_pages(PyObject *object, PyObject *unused) {
    (void)unused;
    const tg_py_digits *self = (tg_py_digits *)object;
    if (self->handle != NULL) return tg_pack_let_go(self->handle);
    Py_RETURN_NONE;
}

static PyObject *values_tuple(const tg_py_digits *self) {
    if (self->values.n < 0) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(self->values.n);
    for (Py_ssize_t i = 0; tuple != NULL && i < self->values.n; i++)
        if (PyTuple_SetItem(tuple, i, PyLong_FromLong(self->values.of[i])) < 0) Py_CLEAR(tuple);
    return tuple;
}

/* Copies of the arrays; what is still in an .npz is read from there by whoever gets it. */
static PyObject *reduce(PyObject *object, PyObject *unused) {
    (void)unused;
    tg_py_digits *self = (tg_py_digits *)object;
    if (intact(self) < 0 || check_array(self) < 0) return NULL;
    PyObject *values = values_tuple(self), *stamp = values == NULL ? NULL : stamp_of(self);
    if (stamp == NULL) {
        Py_XDECREF(values);
        return NULL;
    }
    PyObject *none = Py_None;
    return Py_BuildValue("O((LLL)OONONOO)", (PyObject *)Py_TYPE(object), self->shape[0], self->shape[1],
                         self->shape[2], self->array != NULL ? self->array : none, self->path, stamp, none,
                         values, self->codes != NULL ? self->codes : none,
                         self->table != NULL ? self->table : none);
}

/* ---- making and freeing ---- */

static int take_array(PyObject *given, const char *name, int type, const long long *shape, PyObject **to) {
    npy_intp dims[3] = {(npy_intp)shape[0], (npy_intp)shape[1], (npy_intp)shape[2]};
    if (given == Py_None) return 0;
    if (tg_array(given, name, type, 3, dims, "(C, K, D)") == NULL) return -1;
    *to = (PyObject *)tg_frozen((PyArrayObject *)Py_NewRef(given), NULL);
    return *to == NULL ? -1 : 0;
}

static int take_codes(tg_py_digits *self, PyObject *codes, PyObject *table) {
    tg_codes found;
    npy_intp entries[2] = {-1, TG_LAYOUT_DIGITS};
    if (tg_codes_array(codes, (npy_intp)self->shape[1], &found) < 0 ||
        tg_array(table, "table", NPY_INT8, 2, entries, "(T, 6)") == NULL)
        return -1;
    if (found.C != self->shape[0] || self->shape[2] != TG_DIGITS || self->values.n >= 0) {
        PyErr_SetString(PyExc_ValueError, "codes: expected as many configs as in the shape, of 18 digits");
        return -1;
    }
    self->codes = (PyObject *)tg_frozen((PyArrayObject *)Py_NewRef(codes), NULL);
    self->table = (PyObject *)tg_frozen((PyArrayObject *)Py_NewRef(table), NULL);
    return self->codes == NULL || self->table == NULL ? -1 : 0;
}

static int take_stamp(tg_py_digits *self, PyObject *stamp) {
    tg_stamp *s = &self->stamp;
    if (stamp == Py_None) return 0;
    if (!PyTuple_Check(stamp) ||
        !PyArg_ParseTuple(stamp, "LLLL", &s->device, &s->inode, &s->size, &s->changed))
        return -1;
    self->in_npz = 1;
    return 0;
}

/* (C,K,D), of files too, with as many digits as the values or the layouts have. 0, or -1 with an exception. */
static int take_shape(PyObject *given, const tg_digit_values *values, long long shape[3]) {
    const long long width = values->n < 0 ? TG_DIGITS : (long long)values->n;
    const int three = PyTuple_Check(given) && PyTuple_Size(given) == 3;
    if (three && !PyArg_ParseTuple(given, "LLL", &shape[0], &shape[1], &shape[2])) return -1;
    if (three && shape[2] == width) return 0;
    PyObject *shown = PyObject_Str(given);
    const char *text = shown == NULL ? NULL : tg_utf8(shown, NULL);
    if (text != NULL) {
        char expected[48];
        tg_error err;
        snprintf(expected, sizeof expected, "shape (C, K, %lld)", width);
        tg_bad_field(&err, "node_config_feat", expected, tg_check_writer, "shape %.80s", text);
        tg_raise(&err, NULL);
    }
    Py_XDECREF(shown);
    return -1;
}

/* Digits(shape, array=None, path=None, stamp=None, handle=None, values=None, codes=None, table=None) */
static PyObject *digits_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"shape", "array", "path", "stamp", "handle", "values", "codes", "table", NULL};
    long long shape[3];
    PyObject *sizes, *array = Py_None, *path = Py_None, *stamp = Py_None, *handle = Py_None, *codes = Py_None,
                     *table = Py_None;
    tg_digit_values values = {.n = -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOOOO&OO:Digits", names, &sizes, &array, &path, &stamp,
                                     &handle, tg_take_values, &values, &codes, &table) ||
        take_shape(sizes, &values, shape) < 0)
        return NULL;
    tg_py_digits *self = new_digits(type, shape, &values);
    if (self == NULL) return NULL;
    set_path(self, path);
    if (handle != Py_None) self->handle = Py_NewRef(handle);
    self->unchecked = array != Py_None && handle != Py_None;
    int status = take_array(array, "array", NPY_INT8, shape, &self->array);
    if (status == 0 && codes != Py_None) status = take_codes(self, codes, table);
    if (status == 0) status = take_stamp(self, stamp);
    if (status == 0 && self->array == NULL && self->codes == NULL && (!self->in_npz || path == Py_None)) {
        PyErr_SetString(PyExc_ValueError, "digits: expected an array, codes or a file");
        status = -1;
    }
    if (status < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void digits_dealloc(PyObject *object) {
    tg_py_digits *self = (tg_py_digits *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->array);
    Py_XDECREF(self->codes);
    Py_XDECREF(self->table);
    Py_XDECREF(self->path);
    Py_XDECREF(self->handle);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *get_shape(PyObject *object, void *unused) {
    (void)unused;
    const long long *shape = ((tg_py_digits *)object)->shape;
    return Py_BuildValue("LLL", shape[0], shape[1], shape[2]);
}

static PyObject *get_values(PyObject *object, void *unused) {
    (void)unused;
    return values_tuple((tg_py_digits *)object);
}

static PyObject *get_mapped(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((tg_py_digits *)object)->handle != NULL);
}

int64_t tg_digits_bytes(const tg_py_digits *self) {
    if (self->codes != NULL) return PyArray_NBYTES((PyArrayObject *)self->codes);
    return self->shape[0] * self->shape[1] * self->shape[2];
}

static PyObject *get_bytes(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(tg_digits_bytes((tg_py_digits *)object));
}

static PyObject *get_codes(PyObject *object, void *unused) {
    (void)unused;
    const tg_py_digits *self = (tg_py_digits *)object;
    return self->codes == NULL ? Py_NewRef(Py_None) : PyTuple_Pack(2, self->codes, self->table);
}

static PyGetSetDef getset[] = {
    {"shape", get_shape, NULL, PyDoc_STR("(C, K, D)"), NULL},
    {"values", get_values, NULL, PyDoc_STR("(D,) numbers of values; None: layouts"), NULL},
    {"in_file", get_in_file, NULL, PyDoc_STR("Whether `read_distinct` can read them from an .npz"), NULL},
    {"mapped", get_mapped, NULL, PyDoc_STR("Whether they stay in a file and take no memory"), NULL},
    {"codes", get_codes, NULL, PyDoc_STR("(codes, table) unchecked, or None"), NULL},
    {"nbytes", get_bytes, NULL, PyDoc_STR("Bytes that `stored` takes, in memory or in the file"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"get", get, METH_NOARGS, PyDoc_STR("get(): all digits, read and checked on first use and kept.")},
    {"take", take, METH_O,
     PyDoc_STR(
         "take(rows): digits (n, K, D) of these rows (index array, mask or slice); packs read no others.")},
    {"select", select_rows, METH_O, PyDoc_STR("select(rows): a copy of these rows only, coded as here.")},
    {"stored", stored, METH_NOARGS,
     PyDoc_STR("stored(): the form for ModelGraph, an array or (codes, table).")},
    {"source", source, METH_NOARGS, PyDoc_STR("source(): the form for pack_write.")},
    {"distinct", distinct, METH_NOARGS,
     PyDoc_STR(
         "distinct(): rows (U,) of the first of equal configs, and every row's (C,) place among them.")},
    {"read_distinct", read_distinct, METH_NOARGS,
     PyDoc_STR(
         "read_distinct(): digits (U, K, 18) and what `distinct` gives, out of an .npz without all of them "
         "in memory; None if they are not in one.")},
    {"validate", validate, METH_NOARGS, PyDoc_STR("validate(): check all digits.")},
    {"release", release_pages, METH_NOARGS, PyDoc_STR("release(): free the memory of pages that were read.")},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static const char type_name[] = "tpugraphs._core.Digits";

static PyType_Slot slots[] = {
    {Py_tp_new, digits_new},
    {Py_tp_dealloc, digits_dealloc},
    {Py_tp_getset, getset},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Config digits (C, K, D) int8: in memory, as numbers of entries of a table, still in an "
         ".npz (`path`, `stamp`), or in a mapped pack (`handle`). Those of a file are checked when "
         "they are first read; errors name it. Arrays become the object's own: give them away.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = type_name, .basicsize = sizeof(tg_py_digits), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

/* By the function that makes them: an object of another import of the core is none. */
int tg_is_digits(PyObject *object) {
    return object != NULL && PyType_GetSlot(Py_TYPE(object), Py_tp_new) == (void *)digits_new;
}

int tg_add_digits_type(PyObject *module) {
    return tg_add_type(module, &spec, "Digits", &((tg_state *)PyModule_GetState(module))->digits);
}
