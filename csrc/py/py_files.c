#include "py/pycore.h"

#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "io/safetensors.h"

/* ---- safetensors ---- */

static const int NUMPY_TYPES[TG_DTYPES] = {NPY_FLOAT16, NPY_FLOAT32, NPY_FLOAT32, NPY_FLOAT64, NPY_INT8,
                                           NPY_INT16,   NPY_INT32,   NPY_INT64,   NPY_UINT8,   NPY_BOOL};

/* A new reference, or NULL with an exception. */
static PyObject *text_of(tg_text text) {
    return PyUnicode_DecodeUTF8(text.bytes, (Py_ssize_t)text.size, "strict");
}

static PyObject *notes_of(const tg_safetensors *file) {
    PyObject *notes = PyDict_New();
    for (int i = 0; notes != NULL && i < file->notes; i++) {
        PyObject *key = text_of(file->note[i].key), *value = text_of(file->note[i].value);
        if (key == NULL || value == NULL || PyDict_SetItem(notes, key, value) < 0) Py_CLEAR(notes);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return notes;
}

/* Put the values of one tensor into `arrays`. 0 with an exception or `err` set. */
static int put_tensor(PyObject *arrays, const tg_safetensors *file, const tg_tensor *t, tg_error *err) {
    npy_intp dims[TG_TENSOR_DIMS] = {0};
    for (int i = 0; i < t->ndim; i++) dims[i] = (npy_intp)t->shape[i];
    PyArrayObject *array = tg_new_array(NUMPY_TYPES[t->dtype], t->ndim, dims);
    PyObject *name = array == NULL ? NULL : text_of(t->name);
    int fine = 0;
    if (name != NULL) {
        void *to = PyArray_DATA(array);
        tg_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tg_safetensors_read(file, t, to, err);
        Py_END_ALLOW_THREADS
        fine = status == TG_OK && PyDict_SetItem(arrays, name, (PyObject *)array) == 0;
    }
    Py_XDECREF(name);
    Py_XDECREF((PyObject *)array);
    return fine;
}

/* Whether the dtype of `t` is among `allowed`, a tuple of str or None. 0 with an exception or `err` set. */
static int is_allowed(const tg_tensor *t, PyObject *allowed, tg_error *err) {
    if (allowed == Py_None) return 1;
    PyObject *comma = PyUnicode_FromString(", "), *dtype = PyUnicode_FromString(tg_dtype_name(t->dtype));
    PyObject *all = comma == NULL ? NULL : PyUnicode_Join(comma, allowed);
    const char *expected = all == NULL ? NULL : PyUnicode_AsUTF8AndSize(all, NULL);
    int found = expected == NULL || dtype == NULL ? -1 : PySequence_Contains(allowed, dtype);
    if (found == 0) tg_fail_field(err, t->name.bytes, expected, "%s", tg_dtype_name(t->dtype));
    Py_XDECREF(comma);
    Py_XDECREF(dtype);
    Py_XDECREF(all);
    return found == 1;
}

static PyObject *tensors_of(const tg_safetensors *file, PyObject *allowed, int64_t limit, tg_error *err) {
    int64_t total = 0;
    for (int i = 0; i < file->count; i++) {
        const tg_tensor *t = &file->tensors[i];
        if (!is_allowed(t, allowed, err)) return NULL;
        if (__builtin_add_overflow(total, t->memory, &total) || total > limit) {
            tg_fail_field(err, t->name.bytes, "tensors of at most max_bytes together", "more than %lld bytes",
                          (long long)limit);
            return NULL;
        }
    }
    PyObject *arrays = PyDict_New();
    for (int i = 0; arrays != NULL && i < file->count; i++)
        if (!put_tensor(arrays, file, &file->tensors[i], err)) Py_CLEAR(arrays);
    return arrays;
}

static PyObject *safetensors_load(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *allowed, *notes = NULL, *arrays = NULL, *result = NULL;
    long long limit;
    if (!PyArg_ParseTuple(args, "O&OL", PyUnicode_FSConverter, &path, &allowed, &limit)) return NULL;
    const char *name = PyBytes_AsString(path);
    tg_error err = {0};
    tg_source source;
    tg_safetensors file = {0};
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_source_open(name, "a .safetensors file", &source, NULL, &err);
    if (status == TG_OK) status = tg_safetensors_open(&file, source, &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK && (notes = notes_of(&file)) != NULL &&
        (arrays = tensors_of(&file, allowed, limit, &err)) != NULL)
        result = PyTuple_Pack(2, notes, arrays);
    Py_XDECREF(notes);
    Py_XDECREF(arrays);
    tg_safetensors_close(&file);
    tg_source_close(&source);
    if (result == NULL && !PyErr_Occurred()) tg_raise(&err, name);
    Py_DECREF(path);
    return result;
}

/* ---- submission CSV ---- */

#define MAX_COLLECTIONS 64

typedef struct py_rows {
    PyObject_HEAD tg_csv csv;
    tg_source source;
    PyObject *path, *names; /* bytes; tuple of str, whose UTF-8 `collections` points to */
    const char *collections[MAX_COLLECTIONS];
    tg_row row;
    int busy;
} py_rows;

static int rows_init(py_rows *self) {
    tg_error err = {0};
    const char *path = PyBytes_AsString(self->path);
    const Py_ssize_t n = PyTuple_Size(self->names);
    if (n > MAX_COLLECTIONS) {
        PyErr_SetString(PyExc_ValueError, "too many collections");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if ((self->collections[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(self->names, i), NULL)) == NULL)
            return -1;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_source_open(path, "a submission file (CSV)", &self->source, NULL, &err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) {
        tg_raise(&err, path);
        return -1;
    }
    tg_csv_open(&self->csv, self->source, self->collections, (int)n);
    return 0;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "SubmissionRows takes no keyword arguments");
        return NULL;
    }
    PyObject *path, *names;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &path, &PyTuple_Type, &names)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_rows *self = (py_rows *)alloc(type, 0);
    if (self == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    self->source.fd = -1;
    self->path = path;
    self->names = Py_NewRef(names);
    if (rows_init(self) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void rows_dealloc(py_rows *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    tg_csv_close(&self->csv);
    tg_source_close(&self->source);
    Py_XDECREF(self->path);
    Py_XDECREF(self->names);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* (line, ID or None, indices (n,) int64 or None, n, largest index, state, problem). */
static PyObject *row_tuple(const tg_row *row) {
    PyObject *id = row->id == NULL ? Py_NewRef(Py_None)
                                   : PyUnicode_DecodeUTF8(row->id, (Py_ssize_t)row->id_size, "strict");
    PyObject *indices = Py_NewRef(Py_None), *problem = NULL;
    if (row->state == TG_ROW_GOOD) {
        const npy_intp n = (npy_intp)row->count;
        Py_DECREF(indices);
        indices = (PyObject *)tg_new_array(NPY_INT64, 1, &n);
        if (indices != NULL)
            memcpy(PyArray_DATA((PyArrayObject *)indices), row->indices, (size_t)n * sizeof(int64_t));
    }
    problem = PyUnicode_DecodeUTF8(row->problem, (Py_ssize_t)strlen(row->problem), "replace");
    PyObject *result = NULL;
    if (id != NULL && indices != NULL && problem != NULL)
        result = Py_BuildValue("(LOOLLiO)", (long long)row->line, id, indices, (long long)row->count,
                               (long long)row->high, (int)row->state, problem);
    Py_XDECREF(id);
    Py_XDECREF(indices);
    Py_XDECREF(problem);
    return result;
}

static PyObject *rows_next(py_rows *self) {
    tg_error err = {0};
    tg_status status;
    int more = 0;
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "these rows are being read by another thread");
        return NULL;
    }
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = tg_csv_next(&self->csv, &self->row, &more, &err);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    if (status != TG_OK) return tg_raise(&err, PyBytes_AsString(self->path));
    return more && PyErr_CheckSignals() == 0 ? row_tuple(&self->row) : NULL;
}

static PyObject *rows_iter(PyObject *self) { return Py_NewRef(self); }

static PyType_Slot rows_slots[] = {
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_iter, rows_iter},
    {Py_tp_iternext, rows_next},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "SubmissionRows(path, collections): rows of a submission file, one by one, as tuples\n"
         "(line, ID, indices (n,) int64, n, largest index, state, problem). State 0: good; 1: the text "
         "is wrong,\nID and indices may be None; 2: no ranking, indices are None.")},
    {0, NULL},
};

static PyType_Spec rows_spec = {.name = "tpugraphs._core.SubmissionRows",
                                .basicsize = sizeof(py_rows),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = rows_slots};

int tg_add_file_types(PyObject *module) { return tg_add_type(module, &rows_spec, "SubmissionRows", NULL); }

PyMethodDef tg_file_methods[] = {
    {"safetensors_load", safetensors_load, METH_VARARGS,
     PyDoc_STR("safetensors_load(path, dtypes, max_bytes) -> ({key: text}, {name: array}).\n\n"
               "Arrays are copies; bfloat16 becomes float32. A dtype that is not among `dtypes` (None: any "
               "that can "
               "be read)\nis an error.")},
    {NULL, NULL, 0, NULL},
};
