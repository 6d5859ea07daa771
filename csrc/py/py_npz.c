/* Arrays out of .npz files. */
#include "py/py_npz.h"

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

PyArrayObject *tg_npz_array(tg_npz *npz, const tg_member *member, const tg_npy *npy, tg_error *err) {
    npy_intp size = (npy_intp)(npy->count * npy->type.itemsize);
    PyArrayObject *bytes = tg_new_array(NPY_UINT8, 1, &size), *flat = NULL, *array = NULL;
    if (bytes == NULL) return NULL;
    uint8_t *to = TG_U8(bytes);
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_read(npz, member, npy, to, err);
    Py_END_ALLOW_THREADS
    char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>', other = native == '<' ? '>' : '<';
    char dtype[4] = {npy->type.swapped ? other : native, npy->type.kind, (char)('0' + npy->type.itemsize), 0};
    PyObject *text = status == TG_OK ? PyUnicode_FromString(dtype) : NULL;
    PyArray_Descr *descr = NULL;
    PyArray_CLEARFLAGS(bytes, NPY_ARRAY_WRITEABLE);
    if (text != NULL && PyArray_DescrConverter(text, &descr))
        flat = (PyArrayObject *)PyArray_View(bytes, descr, NULL);
    Py_XDECREF(text);
    Py_DECREF((PyObject *)bytes);
    npy_intp shape[3] = {(npy_intp)npy->shape[0], (npy_intp)npy->shape[1], (npy_intp)npy->shape[2]};
    PyArray_Dims dims = {shape, npy->ndim};
    if (flat != NULL)
        array = (PyArrayObject *)PyArray_Newshape(flat, &dims, npy->fortran ? NPY_FORTRANORDER : NPY_CORDER);
    Py_XDECREF((PyObject *)flat);
    return array;
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
    if (only_header) return Py_BuildValue("Ni", shape_tuple(&npy), npy.fortran);
    return (PyObject *)tg_npz_array(&o->npz, member, &npy, err);
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

PyMethodDef tg_npz_methods[] = {
    {"npz_load", npz_load, METH_VARARGS,
     PyDoc_STR(
         "npz_load(path, names, headers, max_bytes) -> ({name: read-only array, or for a header (shape, "
         "whether in Fortran order)}, stamp).")},
    {NULL, NULL, 0, NULL},
};
