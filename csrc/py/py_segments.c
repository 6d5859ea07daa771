/* The Python type _core.Segments: the segment that a visit trains, and the scores of the others. */
#include "py/py_pass.h"

#include <stdio.h>

#include "store/segments.h"

typedef struct py_segments {
    PyObject_HEAD tg_segments segments;
} py_segments;

static PyObject *segments_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"keep", "seed", NULL};
    double keep;
    unsigned long long seed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dK:Segments", names, &keep, &seed)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_segments *self = (py_segments *)alloc(type, 0);
    if (self != NULL) self->segments = (tg_segments){.keep = keep, .seed = seed};
    return (PyObject *)self;
}

static void segments_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_segments_free(&((py_segments *)object)->segments);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* -1 with a ConfigError: what was expected, and what was given. */
static int not_given(const char *expected, PyObject *given) {
    PyObject *shown = PyObject_Repr(given);
    const char *text = shown == NULL ? NULL : tg_utf8(shown, NULL);
    if (text != NULL) {
        tg_error err;
        tg_fail(&err, TG_E_CONFIG, "%s, got %.60s", expected, text);
        tg_raise(&err, NULL);
    }
    Py_XDECREF(shown);
    return -1;
}

/* One number for each of n configs, out of a number or an array of n. */
static int per_config(const char *name, PyObject *given, int64_t n, float *to) {
    PyArray_Descr *type = PyArray_DescrFromType(NPY_FLOAT32);
    PyObject *found = PyArray_FromAny(given, type, 0, 1, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, NULL);
    if (found == NULL && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_ValueError))
        return -1;
    const npy_intp many = found == NULL                              ? -1
                          : PyArray_NDIM((PyArrayObject *)found) > 0 ? PyArray_SIZE((PyArrayObject *)found)
                                                                     : 1;
    if (many != 1 && many != n) {
        char expected[128];
        snprintf(expected, sizeof expected,
                 "%s: expected a number or one for each of %lld config%s of a slate", name, (long long)n,
                 TG_S(n));
        PyErr_Clear();
        Py_XDECREF(found);
        return not_given(expected, given);
    }
    for (int64_t i = 0; i < n; i++) to[i] = TG_F32((PyArrayObject *)found)[many == 1 ? 0 : i];
    Py_DECREF(found);
    return 0;
}

int tg_py_check_moved(PyObject *moved) {
    if (moved == Py_None || (PyTuple_Check(moved) && PyTuple_Size(moved) == 2)) return 0;
    return not_given("scale_and_shift: expected (scale, shift) or None", moved);
}

int tg_py_moved(PyObject *moved, int64_t n, float *scale, float *shift) {
    if (per_config("scale", PyTuple_GetItem(moved, 0), n, scale) < 0) return -1;
    return per_config("shift", PyTuple_GetItem(moved, 1), n, shift);
}

static int64_t segments_of(const tg_py_prepared *prepared) {
    const Py_ssize_t n = PyTuple_Size(prepared->cuts);
    return n > 0 ? n : 1;
}

/* What a callback does with the score of the whole graph, after what the segment stands for: scale (n) and shift (n). */
static int move_on(PyObject *moved, npy_intp n, float *scale, float *shift) {
    float *own = PyMem_Malloc((size_t)(2 * n + 1) * sizeof *own);
    if (own == NULL) PyErr_NoMemory();
    const int status = own == NULL ? -1 : tg_py_moved(moved, n, own, own + n);
    for (npy_intp i = 0; status == 0 && i < n; i++) {
        const float moving = own[i] * shift[i];
        shift[i] = moving + own[n + i];
        scale[i] = own[i] * scale[i];
    }
    PyMem_Free(own);
    return status;
}

/* draw(graph, visit, prepared, rows, moved=None) -> (prepared, rows, segment or None, moved or None) */
static PyObject *draw(PyObject *object, PyObject *args) {
    const tg_segments *s = &((py_segments *)object)->segments;
    long long graph, visit;
    PyObject *given, *rows, *moved = Py_None;
    npy_intp n = -1;
    if (!PyArg_ParseTuple(args, "LLO!O|O:draw", &graph, &visit, tg_state_of(object)->prepared, &given, &rows,
                          &moved))
        return NULL;
    tg_py_prepared *prepared = (tg_py_prepared *)given;
    PyArrayObject *configs = tg_array(rows, "rows", NPY_INT64, 1, &n, "(n,)");
    if (configs == NULL || tg_py_check_moved(moved) < 0) return NULL;
    if (segments_of(prepared) == 1) return Py_BuildValue("OOOO", given, rows, Py_None, moved);
    PyArrayObject *scale = tg_new_array(NPY_FLOAT32, 1, &n), *shift = tg_new_array(NPY_FLOAT32, 1, &n);
    PyObject *slate = NULL;
    float eta;
    int64_t segment;
    tg_error err;
    if (scale == NULL || shift == NULL) goto done;
    if (tg_segments_draw(s, graph, visit, segments_of(prepared), TG_I64(configs), n, &segment, &eta,
                         TG_F32(shift), &err) != TG_OK) {
        tg_raise_about(&err, prepared->name);
        goto done;
    }
    for (npy_intp i = 0; i < n; i++) TG_F32(scale)[i] = eta;
    if (moved == Py_None || move_on(moved, n, TG_F32(scale), TG_F32(shift)) == 0)
        slate =
            Py_BuildValue("OOL(OO)", given, rows, (long long)segment, (PyObject *)scale, (PyObject *)shift);
done:
    Py_XDECREF((PyObject *)scale);
    Py_XDECREF((PyObject *)shift);
    return slate;
}

/* store(graph, count, segment, rows, scores) */
static PyObject *store(PyObject *object, PyObject *args) {
    long long graph, count, segment;
    PyObject *rows, *given;
    npy_intp n = -1;
    if (!PyArg_ParseTuple(args, "LLLOO:store", &graph, &count, &segment, &rows, &given)) return NULL;
    PyArrayObject *configs = tg_array(rows, "rows", NPY_INT64, 1, &n, "(n,)");
    PyArrayObject *scores = configs == NULL ? NULL : tg_array(given, "scores", NPY_FLOAT32, 1, &n, "(n,)");
    if (scores == NULL) return NULL;
    if (count < 1 || count > INT32_MAX || segment < 0 || segment >= count)
        return PyErr_Format(PyExc_IndexError, "segment: expected 0..%lld, got %lld", count - 1, segment);
    tg_error err;
    if (tg_segments_store(&((py_segments *)object)->segments, graph, count, segment, TG_I64(configs),
                          TG_F32(scores), n, &err) != TG_OK)
        return tg_raise(&err, NULL);
    Py_RETURN_NONE;
}

/* ---- checkpoints: stored scores cannot be computed again, since the weights have changed ---- */

static PyObject *tensors(PyObject *object, PyObject *unused) {
    const tg_segments *s = &((py_segments *)object)->segments;
    int64_t configs, scores;
    (void)unused;
    if (s->n == 0) return PyDict_New();
    tg_segments_size(s, &configs, &scores);
    const npy_intp dims[2] = {(npy_intp)s->n, 3}, n = (npy_intp)configs, cells = (npy_intp)scores;
    PyArrayObject *a[] = {tg_new_array(NPY_INT64, 2, dims), tg_new_array(NPY_INT64, 1, &n),
                          tg_new_array(NPY_FLOAT32, 1, &cells)};
    PyObject *dict = NULL;
    if (a[0] != NULL && a[1] != NULL && a[2] != NULL) {
        tg_segments_save(s, TG_I64(a[0]), TG_I64(a[1]), TG_F32(a[2]));
        dict = Py_BuildValue("{sOsOsO}", "segments.sizes", (PyObject *)a[0], "segments.configs",
                             (PyObject *)a[1], "segments.scores", (PyObject *)a[2]);
    }
    for (int i = 0; i < 3; i++) Py_XDECREF((PyObject *)a[i]);
    return dict;
}

/* A tensor of a checkpoint, borrowed; NULL with `err`. */
static PyArrayObject *take(PyObject *given, const char *name, int typenum, int ndim, const char *expected,
                           tg_error *err) {
    PyObject *found = PyDict_GetItemString(given, name);
    if (found != NULL && PyArray_Check(found)) {
        PyArrayObject *a = (PyArrayObject *)found;
        if (PyArray_TYPE(a) == typenum && PyArray_NDIM(a) == ndim && PyArray_ISCARRAY_RO(a)) return a;
    }
    tg_refuse(err, TG_E_CHECKPOINT, name, expected, "another array or none");
    return NULL;
}

/* restore(path, tensors, graphs) */
static PyObject *restore(PyObject *object, PyObject *args) {
    tg_segments *s = &((py_segments *)object)->segments;
    const char *path;
    PyObject *given;
    long long graphs;
    if (!PyArg_ParseTuple(args, "sO!L:restore", &path, &PyDict_Type, &given, &graphs)) return NULL;
    tg_error err;
    if (PyDict_GetItemString(given, "segments.sizes") == NULL) {
        tg_segments_free(s);
        Py_RETURN_NONE;
    }
    PyArrayObject *sizes = take(given, "segments.sizes", NPY_INT64, 2, "int64 (graphs, 3)", &err);
    PyArrayObject *configs =
        sizes == NULL ? NULL : take(given, "segments.configs", NPY_INT64, 1, "int64 (n,)", &err);
    PyArrayObject *scores =
        configs == NULL ? NULL : take(given, "segments.scores", NPY_FLOAT32, 1, "float32 (n,)", &err);
    int status = scores == NULL ? TG_E_CHECKPOINT : TG_OK;
    if (status == TG_OK && PyArray_DIM(sizes, 1) != 3)
        status = tg_refuse(&err, TG_E_CHECKPOINT, "segments.sizes", "int64 (graphs, 3)", "other columns");
    if (status == TG_OK)
        status =
            tg_segments_load(s, TG_I64(sizes), PyArray_DIM(sizes, 0), TG_I64(configs),
                             PyArray_DIM(configs, 0), TG_F32(scores), PyArray_DIM(scores, 0), graphs, &err);
    if (status != TG_OK) return tg_raise(&err, path);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"draw", draw, METH_VARARGS,
     PyDoc_STR(
         "draw(graph, visit, prepared, rows, moved=None) -> (prepared, rows, segment, moved): what a visit "
         "trains of a graph. `moved` are scale and shift of the scores, and those of the graph's score if "
         "given. A graph in one segment is trained as a whole: its segment is None.")},
    {"store", store, METH_VARARGS,
     PyDoc_STR(
         "store(graph, count, segment, rows (n,), scores (n,)): keep the fresh scores of configs of a graph "
         "in one of its `count` segments.")},
    {"tensors", tensors, METH_NOARGS,
     PyDoc_STR("tensors(): everything stored, as tensors of a checkpoint; none if nothing is.")},
    {"restore", restore, METH_VARARGS,
     PyDoc_STR(
         "restore(path, tensors, graphs): take back what `tensors` returned; `path` is for errors, `graphs` "
         "their number.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, segments_new},
    {Py_tp_dealloc, segments_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Segments(keep, seed): the segments of graphs that the steps of a fit train (Graph Segment "
         "Training), and the scores that the others had last. `keep` is the chance that a stored "
         "score counts; with 0 none are stored.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Segments",
                           .basicsize = sizeof(py_segments),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int tg_add_segments_type(PyObject *module) { return tg_add_type(module, &spec, "Segments", NULL); }
