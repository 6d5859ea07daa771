#include "py/pycore.h"

#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

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
    const char *expected = all == NULL ? NULL : tg_utf8(all, NULL);
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
            tg_fail_field(err, t->name.bytes, "tensors of at most max_bytes together",
                          "more than %lld byte%s", (long long)limit, TG_S(limit));
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

PyMethodDef tg_file_methods[] = {
    {"safetensors_load", safetensors_load, METH_VARARGS,
     PyDoc_STR("safetensors_load(path, dtypes, max_bytes) -> ({key: text}, {name: array}).\n\n"
               "Arrays are copies; bfloat16 becomes float32. A dtype that is not among `dtypes` (None: any "
               "that can "
               "be read)\nis an error.")},
    {NULL, NULL, 0, NULL},
};
