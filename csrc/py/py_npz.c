/* Arrays out of .npz files. */
#include "py/pycore.h"

#include "io/npz.h"

/* Add `bytes` to `*total`; an error when that passes `limit`. */
static tg_status account(const tg_member *m, int64_t bytes, int64_t *total, int64_t limit, tg_error *err) {
    if (__builtin_add_overflow(*total, bytes, total) || *total > limit)
        return tg_bad_field(err, m->field, "arrays of at most max_bytes together",
                            "raise max_bytes if the file is right",
                            "%lld byte%s with this one, max_bytes is %lld", (long long)*total, TG_S(*total),
                            (long long)limit);
    return TG_OK;
}

static PyObject *shape_tuple(const tg_npy *npy) {
    PyObject *shape = PyTuple_New(npy->ndim);
    for (int i = 0; shape != NULL && i < npy->ndim; i++)
        if (PyTuple_SetItem(shape, i, PyLong_FromLongLong(npy->shape[i])) < 0) Py_CLEAR(shape);
    return shape;
}

/* (bytes as uint8 array or None, dtype text, shape, fortran) for one member. */
static PyObject *describe_member(const tg_npy *npy, PyObject *bytes) {
    PyObject *shape = shape_tuple(npy);
    if (shape == NULL) return NULL;
    char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>', other = native == '<' ? '>' : '<';
    char dtype[4] = {npy->type.swapped ? other : native, npy->type.kind, (char)('0' + npy->type.itemsize), 0};
    return Py_BuildValue("(OsNi)", bytes, dtype, shape, npy->fortran);
}

/* Read one array (or only its header) of an open file. */
static PyObject *read_member(tg_npz_file *o, const char *name, int only_header, int64_t *total, int64_t limit,
                             tg_error *err) {
    const tg_member *member = tg_zip_find(&o->npz.archive, name);
    if (member == NULL) Py_RETURN_NONE;
    tg_npy npy;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_header(&o->npz, member, &npy, err);
    /* Digits are kept in one byte each whatever they are in the file. */
    if (status == TG_OK)
        status = account(member, npy.count * (only_header ? 1 : npy.type.itemsize), total, limit, err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) return NULL;
    if (only_header) return describe_member(&npy, Py_None);
    npy_intp size = (npy_intp)(npy.count * npy.type.itemsize);
    PyArrayObject *bytes = tg_new_array(NPY_UINT8, 1, &size);
    if (bytes == NULL) return NULL;
    uint8_t *to = TG_U8(bytes);
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_read(&o->npz, member, &npy, to, err);
    Py_END_ALLOW_THREADS
    PyObject *result = status == TG_OK ? describe_member(&npy, (PyObject *)bytes) : NULL;
    Py_DECREF(bytes);
    return result;
}

/* Fill `result` with what is asked for. 0 with an exception or `err` set. */
static int read_members(tg_npz_file *o, PyObject *names, int only_header, int64_t *total, int64_t limit,
                        PyObject *result, tg_error *err) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        PyObject *key = PyTuple_GetItem(names, i);
        const char *name = tg_utf8(key, NULL);
        PyObject *value = name == NULL ? NULL : read_member(o, name, only_header, total, limit, err);
        if (value == NULL) return 0;
        int bad = value != Py_None && PyDict_SetItem(result, key, value) < 0;
        Py_DECREF(value);
        if (bad) return 0;
    }
    return 1;
}

static PyObject *npz_load(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *names, *headers;
    long long limit;
    if (!PyArg_ParseTuple(args, "O&O!O!L", PyUnicode_FSConverter, &path, &PyTuple_Type, &names, &PyTuple_Type,
                          &headers, &limit))
        return NULL;
    tg_error err = {0};
    tg_npz_file o;
    const char *file = PyBytes_AsString(path);
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_file_open(&o, file, tg_python_cancel(), &err);
    Py_END_ALLOW_THREADS
    int64_t total = 0;
    PyObject *arrays = NULL, *result = NULL;
    if (status == TG_OK && (arrays = PyDict_New()) != NULL &&
        read_members(&o, names, 0, &total, limit, arrays, &err) &&
        read_members(&o, headers, 1, &total, limit, arrays, &err))
        result =
            Py_BuildValue("(O(LLLL))", arrays, o.stamp.device, o.stamp.inode, o.stamp.size, o.stamp.changed);
    Py_XDECREF(arrays);
    tg_npz_file_close(&o);
    Py_DECREF(path);
    if (result == NULL && !PyErr_Occurred()) tg_raise(&err, NULL);
    return result;
}

/* All digits of a file. */
static PyObject *read_digits(tg_npz_file *o, const tg_member *member, const tg_npy *npy, const npy_intp *dims,
                             tg_error *err) {
    PyArrayObject *digits = tg_new_array(NPY_INT8, 3, dims);
    if (digits == NULL) return NULL;
    tg_status status;
    int8_t *to = TG_I8(digits);
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_read_digits(&o->npz, member, npy, to, err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) Py_CLEAR(digits);
    return (PyObject *)digits;
}

/* Gives back what an array of rows has behind its first `rows`. 0 with an exception set. */
static int shorten(PyArrayObject *array, npy_intp rows) {
    npy_intp shape[NPY_MAXDIMS];
    for (int i = 0; i < PyArray_NDIM(array); i++) shape[i] = i == 0 ? rows : PyArray_DIM(array, i);
    PyArray_Dims dims = {shape, PyArray_NDIM(array)};
    PyObject *none = PyArray_Resize(array, &dims, 0, NPY_CORDER);
    Py_XDECREF(none);
    return none != NULL;
}

/* Those of the different configs of a file, (digits, first, inverse). The rest of `digits` has never been touched
   when it is given back, so it has cost no memory. */
static PyObject *read_distinct(tg_npz_file *o, const tg_member *member, const tg_npy *npy,
                               const npy_intp *dims, tg_error *err) {
    PyArrayObject *digits = tg_new_array(NPY_INT8, 3, dims), *first = tg_new_array(NPY_INT64, 1, dims),
                  *inverse = tg_new_array(NPY_INT64, 1, dims);
    PyObject *result = NULL;
    if (digits != NULL && first != NULL && inverse != NULL) {
        tg_status status;
        int64_t U;
        int8_t *to = TG_I8(digits);
        int64_t *firsts = TG_I64(first), *inverses = TG_I64(inverse);
        Py_BEGIN_ALLOW_THREADS
        status = tg_npz_read_distinct(&o->npz, member, npy, to, firsts, inverses, &U, err);
        Py_END_ALLOW_THREADS
        if (status == TG_OK && shorten(digits, (npy_intp)U) && shorten(first, (npy_intp)U))
            result = PyTuple_Pack(3, digits, first, inverse);
    }
    Py_XDECREF((PyObject *)digits);
    Py_XDECREF((PyObject *)first);
    Py_XDECREF((PyObject *)inverse);
    return result;
}

/* (path, stamp, shape) -> what `read` makes of the digits of that file */
static PyObject *from_digits(PyObject *args,
                             PyObject *(*read)(tg_npz_file *o, const tg_member *member, const tg_npy *npy,
                                               const npy_intp *dims, tg_error *err)) {
    PyObject *path, *result = NULL;
    long long shape[3];
    tg_stamp stamp;
    if (!PyArg_ParseTuple(args, "O&(LLLL)(LLL)", PyUnicode_FSConverter, &path, &stamp.device, &stamp.inode,
                          &stamp.size, &stamp.changed, &shape[0], &shape[1], &shape[2]))
        return NULL;
    const npy_intp dims[3] = {(npy_intp)shape[0], (npy_intp)shape[1], (npy_intp)shape[2]};
    tg_error err = {0};
    tg_status status;
    tg_npy npy;
    const tg_member *member;
    const char *file = PyBytes_AsString(path);
    tg_npz_file o;
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_file_find_digits(&o, file, tg_python_cancel(), &stamp, shape, &member, &npy, &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) result = read(&o, member, &npy, dims, &err);
    tg_npz_file_close(&o);
    Py_DECREF(path);
    if (result == NULL && !PyErr_Occurred()) tg_raise(&err, NULL);
    return result;
}

static PyObject *npz_digits(PyObject *self, PyObject *args) {
    (void)self;
    return from_digits(args, read_digits);
}

static PyObject *npz_distinct(PyObject *self, PyObject *args) {
    (void)self;
    return from_digits(args, read_distinct);
}

PyMethodDef tg_npz_methods[] = {
    {"npz_load", npz_load, METH_VARARGS,
     PyDoc_STR(
         "npz_load(path, names, headers, max_bytes) -> ({name: (bytes, dtype, shape, fortran)}, stamp).")},
    {"npz_digits", npz_digits, METH_VARARGS,
     PyDoc_STR("npz_digits(path, stamp, shape) -> digits (C, K, 18) int8.")},
    {"npz_distinct", npz_distinct, METH_VARARGS,
     PyDoc_STR(
         "npz_distinct(path, stamp, shape) -> digits (U, K, 18) int8 of the different configs, first (U,), "
         "inverse (C,).")},
    {NULL, NULL, 0, NULL},
};
