#include "py/pycore.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

PyObject *tg_raise(const tg_error *err, const char *file) {
    PyObject *name = file == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeFSDefault(file);
    if (name != NULL) tg_raise_about(err, name);
    Py_XDECREF(name);
    return NULL;
}

PyObject *tg_raise_about(const tg_error *err, PyObject *name) {
    if (err->code == TG_E_CANCELLED && PyErr_Occurred()) return NULL;
    if (err->code == TG_E_MEMORY) {
        PyErr_SetString(PyExc_MemoryError, err->message);
        return NULL;
    }
    PyObject *module = PyImport_ImportModule("tpugraphs.errors");
    if (module == NULL) return NULL;
    /* texts are cut to fit their fields, maybe inside a character */
    const char *texts[4] = {err->message, err->field, err->found, err->expected};
    PyObject *words[4], *exception = NULL;
    int fine = 1;
    for (int i = 0; i < 4; i++) {
        words[i] = PyUnicode_DecodeUTF8(texts[i], (Py_ssize_t)strlen(texts[i]), "replace");
        fine &= words[i] != NULL;
    }
    if (fine)
        exception = PyObject_CallMethod(module, "from_core", "iiOOOOO", (int)err->code, err->sys_errno,
                                        words[0], words[1], words[2], words[3], name);
    for (int i = 0; i < 4; i++) Py_XDECREF(words[i]);
    Py_DECREF(module);
    if (exception == NULL) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return NULL;
}

static const char *type_name(int typenum) {
    switch (typenum) {
    case NPY_FLOAT32: return "float32";
    case NPY_FLOAT64: return "float64";
    case NPY_INT64: return "int64";
    case NPY_INT32: return "int32";
    case NPY_INT8: return "int8";
    case NPY_UINT8: return "uint8";
    case NPY_BOOL: return "bool";
    default: return "unknown";
    }
}

static void describe(PyObject *object, char *text, size_t size) {
    if (!PyArray_Check(object)) {
        PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
        PyObject *bytes = type == NULL ? NULL : PyUnicode_AsUTF8String(type);
        snprintf(text, size, "%s (not an array)", bytes == NULL ? "object" : PyBytes_AsString(bytes));
        Py_XDECREF(bytes);
        Py_XDECREF(type);
        PyErr_Clear();
        return;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    PyObject *dtype = PyObject_Str((PyObject *)PyArray_DESCR(array));
    PyObject *bytes = dtype == NULL ? NULL : PyUnicode_AsUTF8String(dtype);
    int used = snprintf(text, size, "%s (", bytes == NULL ? "?" : PyBytes_AsString(bytes));
    Py_XDECREF(bytes);
    Py_XDECREF(dtype);
    PyErr_Clear();
    for (int i = 0; i < PyArray_NDIM(array) && used > 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, i == 0 ? "%lld" : ", %lld",
                         (long long)PyArray_DIM(array, i));
    if (used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "%s)%s", PyArray_NDIM(array) == 1 ? "," : "",
                 PyArray_IS_C_CONTIGUOUS(array) ? "" : ", not C-contiguous");
}

int tg_fits(PyObject *object, int typenum, int ndim, const npy_intp *dims) {
    PyArrayObject *array = (PyArrayObject *)object;
    int fits = PyArray_Check(object) && PyArray_EquivTypenums(PyArray_TYPE(array), typenum) &&
               PyArray_NDIM(array) == ndim && PyArray_ISCARRAY_RO(array);
    for (int i = 0; fits && i < ndim; i++) fits = dims[i] < 0 || dims[i] == PyArray_DIM(array, i);
    return fits;
}

PyArrayObject *tg_array(PyObject *object, const char *name, int typenum, int ndim, npy_intp *dims,
                        const char *shape) {
    PyArrayObject *array = (PyArrayObject *)object;
    if (!tg_fits(object, typenum, ndim, dims)) {
        char got[256];
        tg_error err;
        describe(object, got, sizeof got);
        tg_fail(&err, TG_E_SHAPE, "%s: expected %s array of shape %s, got %s", name, type_name(typenum),
                shape, got);
        tg_raise(&err, NULL);
        return NULL;
    }
    for (int i = 0; i < ndim; i++) dims[i] = PyArray_DIM(array, i);
    return array;
}

PyArrayObject *tg_private_copy(PyArrayObject *array) {
    return (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
}

PyArrayObject *tg_new_array(int typenum, int ndim, const npy_intp *dims) {
    return (PyArrayObject *)PyArray_SimpleNew(ndim, (npy_intp *)dims, typenum);
}

int tg_overlap(PyArrayObject *a, PyArrayObject *b) {
    const char *x = PyArray_DATA(a), *y = PyArray_DATA(b);
    return x < y + PyArray_NBYTES(b) && y < x + PyArray_NBYTES(a);
}

PyArrayObject *tg_out_array(PyObject *out, const char *name, int typenum, int ndim, const npy_intp *dims,
                            int n, PyArrayObject *const *read) {
    if (out == NULL || out == Py_None) return tg_new_array(typenum, ndim, dims);
    char shape[128] = "(";
    npy_intp wanted[4] = {0};
    size_t used = 1;
    for (int i = 0; i < ndim; i++) {
        wanted[i] = dims[i];
        used += (size_t)snprintf(shape + used, sizeof shape - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)dims[i]);
    }
    snprintf(shape + used, sizeof shape - used, ndim == 1 ? ",)" : ")");
    PyArrayObject *array = tg_array(out, name, typenum, ndim, wanted, shape);
    if (array == NULL) return NULL;
    if (!PyArray_ISWRITEABLE(array)) {
        PyErr_Format(PyExc_ValueError, "%s: is written to, and this array is read-only", name);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        if (read[i] != NULL && tg_overlap(array, read[i])) {
            PyErr_Format(PyExc_ValueError, "%s: must not share memory with the arguments", name);
            return NULL;
        }
    Py_INCREF(out);
    return array;
}

PyArrayObject *tg_view(int typenum, int ndim, const npy_intp *dims, void *data, PyObject *owner,
                       int writable) {
    PyArrayObject *array = (PyArrayObject *)PyArray_SimpleNewFromData(ndim, (npy_intp *)dims, typenum, data);
    if (array == NULL) return NULL;
    if (!writable) PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
    Py_INCREF(owner);
    if (PyArray_SetBaseObject(array, owner) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

static int poll_signals(void *context) {
    (void)context;
    PyGILState_STATE gil = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() != 0;
    PyGILState_Release(gil);
    return stop;
}

tg_cancel tg_python_cancel(void) { return (tg_cancel){poll_signals, NULL, 0}; }

const char *tg_utf8(PyObject *text, Py_ssize_t *length) {
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, length);
    if (utf8 == NULL && PyErr_ExceptionMatches(PyExc_UnicodeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "expected text without halves of surrogate pairs, found %A", text);
    }
    return utf8;
}

int tg_take_text(PyObject *text, void *utf8) {
    if (!PyUnicode_Check(text)) PyErr_Format(PyExc_TypeError, "expected text, got %A", text);
    else *(const char **)utf8 = tg_utf8(text, NULL);
    return PyErr_Occurred() == NULL;
}

int tg_take_kernels(PyObject *precision, void *kernels) {
    const int text = PyUnicode_Check(precision);
    const char *name = text ? tg_utf8(precision, NULL) : "";
    const int found = name == NULL ? -1 : tg_find_precision(name);
    if (found >= 0) *(const tg_kernels **)kernels = tg_kernel_table_for((tg_precision)found);
    else if (name != NULL)
        PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError,
                     "precision: expected 'f32', 'bf16' or 'int8', got %A", precision);
    return found >= 0;
}

void tg_append(PyObject **list, PyObject *item) {
    if (*list != NULL && (item == NULL || PyList_Append(*list, item) < 0)) Py_CLEAR(*list);
    Py_XDECREF(item);
}

int tg_plain_number(PyObject *object, double *number) {
    if (!PyFloat_Check(object) && !PyLong_Check(object)) return 0;
    *number = PyFloat_Check(object) ? PyFloat_AsDouble(object) : PyLong_AsDouble(object);
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    *number = HUGE_VAL;
    return 1;
}

int tg_add_type(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **type) {
    PyObject *made = PyType_FromModuleAndSpec(module, spec, NULL);
    if (made == NULL) return -1;
    if (type != NULL) *type = (PyTypeObject *)Py_NewRef(made);
    const int status = PyModule_AddObjectRef(module, name, made);
    Py_DECREF(made);
    return status;
}

/* It is there: the types are final, and each keeps its module alive. */
tg_state *tg_state_of(PyObject *object) { return PyType_GetModuleState(Py_TYPE(object)); }
