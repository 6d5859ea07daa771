#include "py/py_batch.h"

#include <stdlib.h>
#include <string.h>

static int wrong_entry(void) {
    PyErr_SetString(PyExc_TypeError,
                    "slates: every entry must be a tuple (ModelGraph, rows), (Prepared, rows), "
                    "(Prepared, rows, segment) or (Prepared, rows, segment, moved)");
    return -1;
}

/* Which of the stored configs are rows (n,) of the distinct ones: a new array, kept by the batch. */
static const int64_t *stored_rows(tg_py_batch *batch, PyObject *kept, const int64_t *rows, npy_intp n) {
    PyArrayObject *stored = tg_new_array(NPY_INT64, 1, &n);
    if (stored == NULL) return NULL;
    const int64_t *of = TG_I64((PyArrayObject *)kept), C = PyArray_DIM((PyArrayObject *)kept, 0);
    for (npy_intp i = 0; i < n; i++) {
        if (rows[i] < 0 || rows[i] >= C) {
            PyErr_Format(PyExc_ValueError, "rows: expected 0..%lld, got %lld", (long long)C - 1,
                         (long long)rows[i]);
            Py_DECREF((PyObject *)stored);
            return NULL;
        }
        TG_I64(stored)[i] = of[rows[i]];
    }
    const int status = PyList_Append(batch->rows, (PyObject *)stored);
    Py_DECREF((PyObject *)stored);
    return status < 0 ? NULL : TG_I64(stored);
}

static int take_entry(tg_py_batch *batch, const tg_state *state, PyObject *item, tg_entry *entry) {
    const Py_ssize_t size = PyTuple_Check(item) ? PyTuple_Size(item) : 0;
    if (size < 2 || size > 4) return wrong_entry();
    PyObject *of = PyTuple_GetItem(item, 0), *which = size > 2 ? PyTuple_GetItem(item, 2) : Py_None;
    PyObject *moved = size > 3 ? PyTuple_GetItem(item, 3) : Py_None;
    const int prepared = PyObject_TypeCheck(of, state->prepared);
    if (!prepared && (size > 2 || !PyObject_TypeCheck(of, state->model_graph))) return wrong_entry();
    if (moved != Py_None && (!PyTuple_Check(moved) || PyTuple_Size(moved) != 2)) return wrong_entry();
    npy_intp dims[1] = {-1};
    PyArrayObject *rows = tg_array(PyTuple_GetItem(item, 1), "rows", NPY_INT64, 1, dims, "(C,)");
    if (rows == NULL) return -1;
    if (dims[0] < 1 || dims[0] > TG_MOST_ROWS) {
        PyErr_Format(PyExc_ValueError, "rows: expected 1..2^24 config rows, got %zd", dims[0]);
        return -1;
    }
    const long long segment = which == Py_None ? -1 : PyLong_AsLongLong(which);
    if (segment == -1 && PyErr_Occurred()) return -1;
    tg_py_model_graph *graph = prepared ? tg_py_part((tg_py_prepared *)of, segment) : (tg_py_model_graph *)of;
    PyObject *kept = prepared ? ((tg_py_prepared *)of)->kept : Py_None;
    const int64_t *found = TG_I64(rows);
    if (graph == NULL || (kept != Py_None && (found = stored_rows(batch, kept, found, dims[0])) == NULL))
        return -1;
    *entry = (tg_entry){&graph->graph, found, (int32_t)dims[0]};
    return 0;
}

int tg_py_batch_init(tg_py_batch *batch, const tg_state *state, PyObject *slates) {
    memset(batch, 0, sizeof *batch);
    if ((batch->items = PySequence_Tuple(slates)) == NULL) return -1;
    const Py_ssize_t n = PyTuple_Size(batch->items);
    if (n < 1 || n > 65536) {
        PyErr_Format(PyExc_ValueError, "slates: expected 1..65536 entries, got %zd", n);
        goto fail;
    }
    if ((batch->rows = PyList_New(0)) == NULL) goto fail;
    if ((batch->entries = calloc((size_t)n, sizeof *batch->entries)) == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    batch->n = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (take_entry(batch, state, PyTuple_GetItem(batch->items, i), &batch->entries[i]) < 0) goto fail;
        batch->total += batch->entries[i].C;
    }
    return 0;
fail:
    tg_py_batch_free(batch);
    return -1;
}

void tg_py_batch_free(tg_py_batch *batch) {
    Py_CLEAR(batch->items);
    Py_CLEAR(batch->rows);
    free(batch->entries);
    batch->entries = NULL;
}

tg_py_prepared *tg_py_batch_prepared(const tg_py_batch *batch, const tg_state *state, int i,
                                     const int64_t **rows) {
    PyObject *item = PyTuple_GetItem(batch->items, i), *of = PyTuple_GetItem(item, 0);
    if (!PyObject_TypeCheck(of, state->prepared)) {
        PyErr_SetString(PyExc_ValueError, "targets: expected arrays, as a slate is no prepared graph");
        return NULL;
    }
    *rows = TG_I64((PyArrayObject *)PyTuple_GetItem(item, 1));
    return (tg_py_prepared *)of;
}
