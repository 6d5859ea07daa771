/* Pack files: opened, checked, written. */
#include "py/py_pack.h"

#include <stdlib.h>
#include <string.h>

#include "io/npz.h"
#include "io/packwriter.h"

#define CAPSULE "tpugraphs.pack"

/* ---- reading ---- */

typedef struct mapped {
    tg_pack pack;
    tg_source source;
    PyObject *path;      /* bytes */
    int configs_checked; /* guarded by the GIL */
} mapped;

static void unmap(PyObject *capsule) {
    mapped *m = PyCapsule_GetPointer(capsule, CAPSULE);
    tg_source_close(&m->source);
    Py_DECREF(m->path);
    free(m);
}

/* None, or the error with the name of the file. */
static PyObject *checked(const mapped *m, tg_status status, const tg_error *err) {
    if (status != TG_OK) return tg_raise(err, PyBytes_AsString(m->path));
    Py_RETURN_NONE;
}

/* A read-only view of one array of the pack that `capsule` keeps. */
static PyArrayObject *part_view(const mapped *m, tg_part part, PyObject *capsule) {
    const tg_pack_array *a = &m->pack.part[part];
    const char type = a->type;
    int typenum = a->itemsize == 8 ? NPY_INT64 : NPY_INT8;
    if (type == 'f') typenum = a->itemsize == 8 ? NPY_FLOAT64 : NPY_FLOAT32;
    if (type == 'u') typenum = a->itemsize == 1 ? NPY_UINT8 : a->itemsize == 2 ? NPY_UINT16 : NPY_UINT32;
    if (part == TG_ANY_VALID) typenum = NPY_BOOL;
    const npy_intp dims[3] = {(npy_intp)a->shape[0], (npy_intp)a->shape[1], (npy_intp)a->shape[2]};
    return tg_view(typenum, tg_part_ndim(part), dims, (void *)(uintptr_t)(m->source.bytes + a->offset),
                   capsule, 0);
}

static PyObject *part_views(const mapped *m, PyObject *capsule) {
    PyObject *arrays = PyDict_New();
    for (int i = 0; i < TG_PARTS && arrays != NULL; i++) {
        if (m->pack.part[i].itemsize == 0) continue;
        PyObject *view = (PyObject *)part_view(m, (tg_part)i, capsule);
        if (view == NULL || PyDict_SetItemString(arrays, tg_part_name((tg_part)i), view) < 0)
            Py_CLEAR(arrays);
        Py_XDECREF(view);
    }
    return arrays;
}

static const char *const kinds[] = {
    [TG_PACK_LAYOUT] = "layout", [TG_PACK_TILE] = "tile", [TG_PACK_ANY] = "graph"};

static PyObject *pack_open(PyObject *self, PyObject *arg) {
    (void)self;
    PyObject *path;
    if (!PyUnicode_FSConverter(arg, &path)) return NULL;
    mapped *m = calloc(1, sizeof *m);
    if (m == NULL) {
        Py_DECREF(path);
        return PyErr_NoMemory();
    }
    tg_error err = {0};
    tg_status status;
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = tg_pack_open(&m->pack, &m->source, file, &err);
    Py_END_ALLOW_THREADS
    m->path = path;
    PyObject *capsule = NULL;
    if (status != TG_OK) checked(m, status, &err);
    else if ((capsule = PyCapsule_New(m, CAPSULE, unmap)) == NULL) tg_source_close(&m->source);
    if (capsule == NULL) {
        Py_DECREF(path);
        free(m);
        return NULL;
    }
    PyObject *arrays = part_views(m, capsule), *result = NULL;
    const tg_origin *o = &m->pack.origin;
    if (arrays != NULL)
        result = Py_BuildValue("(sO(LLk)O)", kinds[m->pack.kind], arrays, (long long)o->size,
                               (long long)o->changed, (unsigned long)o->directory, capsule);
    Py_XDECREF(arrays);
    Py_DECREF(capsule);
    return result;
}

static PyObject *pack_checksum(PyObject *self, PyObject *arg) {
    (void)self;
    PyObject *path;
    if (!PyUnicode_FSConverter(arg, &path)) return NULL;
    tg_error err = {0};
    tg_status status;
    uint32_t checksum = 0;
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = tg_pack_checksum(file, &checksum, &err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) tg_raise(&err, file);
    Py_DECREF(path);
    return status == TG_OK ? PyLong_FromUnsignedLong(checksum) : NULL;
}

static PyObject *pack_check(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    int everything;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &everything)) return NULL;
    const mapped *m = PyCapsule_GetPointer(capsule, CAPSULE);
    if (m == NULL) return NULL;
    tg_error err = {0};
    tg_status status = TG_OK;
    tg_cancel cancel = tg_python_cancel();
    Py_BEGIN_ALLOW_THREADS
    if (everything) status = tg_pack_check(&m->pack, m->source.bytes, &cancel, &err);
    else
        for (int i = 0; i < TG_PARTS && status == TG_OK; i++)
            if (i != TG_CODES && i != TG_ANY_DIGITS)
                status = tg_pack_check_part(&m->pack, m->source.bytes, (tg_part)i, &err);
    Py_END_ALLOW_THREADS
    return checked(m, status, &err);
}

int tg_pack_configs(PyObject *capsule) {
    mapped *m = PyCapsule_GetPointer(capsule, CAPSULE);
    if (m == NULL) return -1;
    if (m->configs_checked) return 0;
    tg_error err = {0};
    tg_status status;
    tg_cancel cancel = tg_python_cancel();
    Py_BEGIN_ALLOW_THREADS
    status = tg_pack_check_configs(&m->pack, m->source.bytes, &cancel, &err);
    Py_END_ALLOW_THREADS
    m->configs_checked = status == TG_OK;
    if (status != TG_OK) tg_raise(&err, PyBytes_AsString(m->path));
    return status == TG_OK ? 0 : -1;
}

PyObject *tg_pack_let_go(PyObject *capsule) {
    const mapped *m = PyCapsule_GetPointer(capsule, CAPSULE);
    if (m == NULL) return NULL;
    tg_source_release(&m->source);
    Py_RETURN_NONE;
}

static PyObject *pack_release(PyObject *self, PyObject *capsule) {
    (void)self;
    return tg_pack_let_go(capsule);
}

/* ---- what a pack is made from ---- */

/* path -> (size, changed, CRC of the directory) and about how many bytes the pack will have */
static PyObject *npz_origin(PyObject *self, PyObject *arg) {
    (void)self;
    PyObject *path;
    if (!PyUnicode_FSConverter(arg, &path)) return NULL;
    tg_npz_file o;
    tg_error err = {0};
    tg_status status;
    int64_t bytes = TG_PACK_HEADER + 4096;
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = tg_npz_file_open(&o, file, tg_python_cancel(), &err);
    for (int i = 0; i < o.npz.archive.count && status == TG_OK; i++) {
        const tg_member *member = &o.npz.archive.members[i];
        tg_npy npy;
        if (strcmp(member->field, "node_config_feat") != 0) bytes += member->size;
        else if ((status = tg_npz_header(&o.npz, member, &npy, &err)) == TG_OK)
            bytes += tg_zip_find(&o.npz.archive, "tpugraphs_schema") != NULL ? npy.count
                                                                             : npy.count / TG_LAYOUT_DIGITS;
    }
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status == TG_OK)
        result = Py_BuildValue("((LLk)L)", o.stamp.size, o.stamp.changed,
                               (unsigned long)o.npz.archive.directory, (long long)bytes);
    else tg_raise(&err, NULL);
    tg_npz_file_close(&o);
    Py_DECREF(path);
    return result;
}

/* ---- writing ---- */

/* Everything that pack_write has been given. */
typedef struct order {
    tg_pack_kind kind;
    tg_origin origin;
    const void *data[TG_PARTS];
    char type[TG_PARTS];
    int64_t shape[TG_PARTS][3];
    const int8_t *digits; /* (C,K,18), or NULL: out of `file` */
    const char *file;
    tg_stamp stamp;
    long long digit_shape[3];
    int64_t *done; /* digits so far, and whether to stop */
} order;

static int asked_to_stop(void *context) {
    return __atomic_load_n((int64_t *)context + 1, __ATOMIC_RELAXED) != 0;
}

static tg_status push_array(void *from, tg_digit_sink sink, void *context, tg_error *err) {
    const order *o = from;
    const int64_t count = (int64_t)o->digit_shape[0] * o->digit_shape[1] * TG_DIGITS;
    int stop = 0;
    for (int64_t at = 0; at < count && !stop; at += TG_DIGIT_PIECE) {
        const int64_t n = count - at < TG_DIGIT_PIECE ? count - at : TG_DIGIT_PIECE;
        if (asked_to_stop(o->done)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        for (int64_t i = 0; i < n; i++)
            if ((uint8_t)(o->digits[at + i] + 1) > 6)
                return tg_bad_digit(err, "node_config_feat", at + i, o->digit_shape[1], o->digits[at + i]);
        tg_status status = sink(context, o->digits + at, n, &stop, err);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

static tg_status push_file(void *from, tg_digit_sink sink, void *context, tg_error *err) {
    const order *o = from;
    tg_npz_file opened;
    const tg_member *member;
    tg_npy npy;
    tg_status status = tg_npz_file_find_digits(&opened, o->file, (tg_cancel){asked_to_stop, o->done, 0},
                                               &o->stamp, o->digit_shape, &member, &npy, err);
    if (status == TG_OK) status = tg_npz_push_digits(&opened.npz, member, &npy, sink, context, err);
    tg_npz_file_close(&opened);
    return status;
}

static tg_status write_pack(int fd, order *o, tg_error *err) {
    tg_packwriter w;
    tg_status status = tg_packwriter_open(&w, fd, o->kind, o->origin, err);
    w.done = o->done;
    for (int i = 0; i < TG_PARTS && status == TG_OK; i++) {
        if (i == TG_CODES && o->kind == TG_PACK_LAYOUT)
            status = tg_packwriter_put_digits(&w, o->digit_shape[0], o->digit_shape[1],
                                              o->digits != NULL ? push_array : push_file, o, err);
        else if (o->data[i] != NULL)
            status = tg_packwriter_put(&w, (tg_part)i, o->type[i], o->shape[i], o->data[i], err);
    }
    if (status == TG_OK) status = tg_packwriter_finish(&w, err);
    tg_packwriter_close(&w);
    return status;
}

/* NumPy's number of what an array of a pack holds; of '?' what `given` holds. */
static int typenum_of(tg_part part, PyObject *given) {
    const int size = tg_part_itemsize(part);
    const char type = tg_part_type(part);
    if (part == TG_ANY_VALID) return NPY_BOOL;
    if (type == 'u') return NPY_UINT8;
    if (type == 'i') return size == 1 ? NPY_INT8 : NPY_INT64;
    if (type == 'f') return size == 8 ? NPY_FLOAT64 : NPY_FLOAT32;
    return PyArray_Check(given) && PyArray_TYPE((PyArrayObject *)given) == NPY_FLOAT64 ? NPY_FLOAT64
                                                                                       : NPY_INT64;
}

/* The arrays out of a dict, but the coded digits; 0 with an exception set. */
static int take_arrays(order *o, PyObject *arrays) {
    for (int i = 0; i < TG_PARTS; i++) {
        const tg_part part = (tg_part)i;
        const char *name = tg_part_name(part);
        PyObject *array = PyDict_GetItemString(arrays, name);
        if (array == NULL || i == TG_CODES || i == TG_TABLE || !tg_pack_takes(o->kind, part)) continue;
        const int ndim = tg_part_ndim(part), typenum = typenum_of(part, array);
        npy_intp dims[3] = {-1, -1, -1};
        dims[ndim - 1] = (npy_intp)tg_part_last(part);
        PyArrayObject *a = tg_array(array, name, typenum, ndim, dims, "of the schema");
        if (a == NULL) return 0;
        o->data[i] = PyArray_DATA(a);
        o->type[i] = tg_part_type(part) != '?' ? tg_part_type(part) : typenum == NPY_FLOAT64 ? 'f' : 'i';
        for (int d = 0; d < ndim; d++) o->shape[i][d] = dims[d];
    }
    return 1;
}

/* The configs of a layout graph: int8 array (C,K,18), or (path, stamp, shape) of a file. `*path` is to be released. */
static int take_digits(order *o, PyObject *digits, PyObject **path) {
    if (o->kind != TG_PACK_LAYOUT) return 1;
    if (PyTuple_Check(digits)) {
        if (!PyArg_ParseTuple(digits, "O&(LLLL)(LLL)", PyUnicode_FSConverter, path, &o->stamp.device,
                              &o->stamp.inode, &o->stamp.size, &o->stamp.changed, &o->digit_shape[0],
                              &o->digit_shape[1], &o->digit_shape[2]))
            return 0;
        o->file = PyBytes_AsString(*path);
        return 1;
    }
    npy_intp dims[3] = {-1, -1, TG_DIGITS};
    PyArrayObject *array = tg_array(digits, "digits", NPY_INT8, 3, dims, "(C, K, 18)");
    if (array == NULL) return 0;
    o->digits = TG_I8(array);
    for (int i = 0; i < 3; i++) o->digit_shape[i] = (long long)dims[i];
    return 1;
}

/* The kind called so; 0 with an exception set. */
static int take_kind(order *o, const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i]) == 0) {
            o->kind = (tg_pack_kind)i;
            return 1;
        }
    PyErr_Format(PyExc_ValueError, "kind: expected layout, tile or graph, got %s", name);
    return 0;
}

/* pack_write(fd, kind, arrays, digits, origin, done) */
static PyObject *pack_write(PyObject *self, PyObject *args) {
    (void)self;
    int fd;
    const char *kind;
    PyObject *arrays, *digits, *progress, *path = NULL;
    long long size, changed;
    unsigned long directory;
    if (!PyArg_ParseTuple(args, "isO!O(LLk)O:pack_write", &fd, &kind, &PyDict_Type, &arrays, &digits, &size,
                          &changed, &directory, &progress))
        return NULL;
    order o = {.origin = {size, changed, (uint32_t)directory}};
    npy_intp two[1] = {2};
    PyArrayObject *done = tg_array(progress, "done", NPY_INT64, 1, two, "(2,)");
    if (done == NULL) return NULL;
    if (!PyArray_ISWRITEABLE(done)) {
        PyErr_SetString(PyExc_ValueError, "done: expected a writable array");
        return NULL;
    }
    o.done = TG_I64(done);
    PyObject *result = NULL, *own = PyDict_Copy(arrays); /* nobody can take an array out of it meanwhile */
    tg_error err = {0};
    tg_status status;
    if (own != NULL && take_kind(&o, kind) && take_arrays(&o, own) && take_digits(&o, digits, &path)) {
        Py_BEGIN_ALLOW_THREADS
        status = write_pack(fd, &o, &err);
        Py_END_ALLOW_THREADS
        if (status == TG_OK) result = Py_NewRef(Py_None);
        else if (status == TG_E_CANCELLED) PyErr_SetNone(PyExc_KeyboardInterrupt);
        else tg_raise(&err, NULL);
    }
    Py_XDECREF(path);
    Py_XDECREF(own);
    return result;
}

PyMethodDef tg_pack_methods[] = {
    {"pack_open", pack_open, METH_O, PyDoc_STR("pack_open(path) -> kind, {name: array}, origin, handle.")},
    {"pack_checksum", pack_checksum, METH_O,
     PyDoc_STR("pack_checksum(path) -> a checksum of all arrays, of which only the header is read.")},
    {"pack_check", pack_check, METH_VARARGS,
     PyDoc_STR(
         "pack_check(handle, everything): compare checksums, of all but the configs or of all there is.")},
    {"pack_release", pack_release, METH_O,
     PyDoc_STR("pack_release(handle): give the memory of mapped pages back.")},
    {"pack_write", pack_write, METH_VARARGS,
     PyDoc_STR(
         "pack_write(fd, kind, arrays, digits, origin, done): done (2,) int64, digits so far and stop.")},
    {"npz_origin", npz_origin, METH_O,
     PyDoc_STR("npz_origin(path) -> (size, changed, directory), bytes of a pack of it.")},
    {NULL, NULL, 0, NULL},
};
