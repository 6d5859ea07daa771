#include "py/py_pass.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "py/py_rank.h"

/* ---- memory ---- */

static void *own(tg_py_pass *p, size_t bytes) {
    void *block = calloc(1, bytes + 1);
    if (block == NULL) PyErr_NoMemory();
    else p->owned[p->n_owned++] = block;
    return block;
}

static void free_rows(tg_py_rows *rows) {
    free(rows->rows);
    Py_CLEAR(rows->arrays);
    rows->rows = NULL;
}

void tg_py_pass_free(tg_py_pass *p) {
    for (int i = 0; i < TG_MAX_INPUTS; i++) free_rows(&p->fed_rows[i]);
    for (int i = 0; i < TG_MAX_SLOTS; i++) free_rows(&p->fetched_rows[i]);
    for (int i = 0; i < TG_MAX_INPUTS; i++) free_rows(&p->input_grad_rows[i]);
    free_rows(&p->digit_rows);
    Py_CLEAR(p->unique_of);
    for (int i = 0; i < p->n_keep; i++) Py_XDECREF(p->keep[i]);
    for (int i = 0; i < p->n_owned; i++) free(p->owned[i]);
    p->n_keep = p->n_owned = 0;
    tg_py_batch_free(&p->batch);
}

/* ---- the batch ---- */

int tg_py_precision(const char *name, int training) {
    const int precision = tg_find_precision(name);
    if (precision < 0 || (training && precision == TG_INT8)) {
        PyErr_Format(PyExc_ValueError, "precision: expected %s, got '%s'",
                     training ? "'f32' or 'bf16'" : "'f32', 'bf16' or 'int8'", name);
        return -1;
    }
    return precision;
}

static int check_graphs(const tg_model *m, const tg_py_batch *batch) {
    const int F = m->slots[TG_SLOT_NODE_FEAT].shape.cols;
    for (int i = 0; i < batch->n; i++) {
        const tg_graph *g = batch->entries[i].graph;
        const char *what = tg_model_lacks(m, g);
        if (what == NULL) continue;
        PyErr_Format(
            PyExc_ValueError,
            "slate %d: the model wants graphs of %d node feature%s, %d of configs, %d of the graph; this one "
            "has %s (%d, %d, %d)",
            i, F, TG_S(F), m->slots[TG_SLOT_CONFIG_FEAT].shape.cols, m->slots[TG_SLOT_GRAPH_FEAT].shape.cols,
            what, g->F, g->T, g->G);
        return -1;
    }
    return 0;
}

int tg_py_pass_init(tg_py_pass *p, const tg_state *state, const tg_model *model, PyObject *slates,
                    const char *precision, int training) {
    memset(p, 0, sizeof *p);
    const int found = tg_py_precision(precision, training);
    if (found < 0 || tg_py_batch_init(&p->batch, state, slates) < 0) return -1;
    p->pass = (tg_pass){.n_entries = p->batch.n,
                        .entries = p->batch.entries,
                        .parts = 1,
                        .precision = (tg_precision)found,
                        .fed = p->fed,
                        .fetched = p->fetched,
                        .input_grads = p->input_grads};
    return check_graphs(model, &p->batch);
}

/* ---- arrays per slate ---- */

/* Rows and dimensions that slot `shape` has for a slate. */
static int slot_dims(const tg_slate *slate, tg_shape shape, npy_intp dims[3]) {
    const int per = tg_per_item(slate, shape.space);
    const int three = shape.space == TG_SPACE_NODE_CONFIG || shape.space == TG_SPACE_CONFIG_NODE_CONFIG ||
                      shape.space == TG_SPACE_EDGE_CONFIG;
    dims[0] = (npy_intp)tg_items(slate, shape.space);
    dims[1] = three ? per : shape.cols;
    dims[2] = shape.cols;
    return three ? 3 : 2;
}

static int reserve_rows(const tg_py_pass *p, tg_py_rows *rows) {
    rows->rows = calloc((size_t)p->batch.n, sizeof *rows->rows);
    if (rows->rows != NULL) return 0;
    PyErr_NoMemory();
    return -1;
}

/* New arrays for a slot of every entry. `slates`: of the bound batch, NULL before. */
static int make_rows(const tg_py_pass *p, tg_shape shape, const tg_slate *slates, tg_py_rows *rows) {
    if ((rows->arrays = PyList_New(p->batch.n)) == NULL) return -1;
    for (int i = 0; i < p->batch.n; i++) {
        const tg_slate slate = slates != NULL ? slates[i] : tg_make_slate(&p->batch.entries[i]);
        npy_intp dims[3];
        PyArrayObject *a = tg_new_array(NPY_FLOAT32, slot_dims(&slate, shape, dims), dims);
        if (a == NULL) return -1;
        rows->rows[i] = TG_F32(a);
        PyList_SetItem(rows->arrays, i, (PyObject *)a);
    }
    return 0;
}

static int make_unique_of(const tg_slate *slates, PyObject *list, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        npy_intp dims[2] = {slates[i].K, slates[i].C};
        PyArrayObject *a = tg_new_array(NPY_INT32, 2, dims);
        if (a == NULL) return -1;
        if (PyArray_NBYTES(a) > 0) memcpy(PyArray_DATA(a), slates[i].unique_of, (size_t)PyArray_NBYTES(a));
        PyList_SetItem(list, i, (PyObject *)a);
    }
    return 0;
}

/* Everything whose size follows from the number of unique cells. */
static tg_status make_unique(void *context, const tg_slate *slates, tg_error *err) {
    tg_py_pass *p = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    int status = p->unique_of == NULL ? 0 : make_unique_of(slates, p->unique_of, p->batch.n);
    for (int i = 0; status == 0 && i < p->pass.n_fetched; i++)
        if (p->fetched_rows[i].arrays == NULL)
            status = make_rows(p, p->model->slots[p->fetched[i].slot].shape, slates, &p->fetched_rows[i]);
    if (status < 0) PyErr_Clear();
    PyGILState_Release(gil);
    return status == 0 ? TG_OK : tg_fail(err, TG_E_MEMORY, "no memory for rows of unique cells");
}

/* `arrays` as a tuple of as many items as there are slates (a new reference), or NULL with an exception. */
static PyObject *per_slate(const tg_py_pass *p, PyObject *arrays, const char *name) {
    PyObject *items = PySequence_Tuple(arrays);
    if (items == NULL || PyTuple_Size(items) == p->batch.n) return items;
    PyErr_Format(PyExc_ValueError, "%s: expected one array per slate (%d), got %zd", name, p->batch.n,
                 PyTuple_Size(items));
    Py_DECREF(items);
    return NULL;
}

int tg_py_pass_feed(tg_py_pass *p, const tg_model *m, PyObject *inputs) {
    const int none = inputs == NULL || inputs == Py_None;
    if (!none && !PyDict_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "inputs must be a dict of lists of arrays");
        return -1;
    }
    const Py_ssize_t given = none ? 0 : PyDict_Size(inputs);
    if (given != m->n_inputs - TG_GRAPH_SLOTS) {
        PyErr_Format(PyExc_ValueError, "inputs: the model is fed %d input%s per call, got %zd",
                     m->n_inputs - TG_GRAPH_SLOTS, TG_S(m->n_inputs - TG_GRAPH_SLOTS), given);
        return -1;
    }
    for (int slot = TG_GRAPH_SLOTS; slot < m->n_inputs; slot++) {
        const int at = slot - TG_GRAPH_SLOTS;
        PyObject *arrays = PyDict_GetItemString(inputs, m->slots[slot].name);
        if (arrays == NULL) {
            PyErr_Format(PyExc_ValueError, "inputs: '%s' is missing", m->slots[slot].name);
            return -1;
        }
        tg_py_rows *rows = &p->fed_rows[at];
        if ((rows->arrays = per_slate(p, arrays, m->slots[slot].name)) == NULL || reserve_rows(p, rows) < 0)
            return -1;
        for (int i = 0; i < p->batch.n; i++) {
            const tg_slate slate = tg_make_slate(&p->batch.entries[i]);
            npy_intp dims[3];
            const int ndim = slot_dims(&slate, m->slots[slot].shape, dims);
            PyArrayObject *a = tg_array(PyTuple_GetItem(rows->arrays, i), m->slots[slot].name, NPY_FLOAT32,
                                        ndim, dims, ndim == 3 ? "(rows, C, F)" : "(rows, F)");
            if (a == NULL) return -1;
            rows->rows[i] = TG_F32(a);
        }
        p->fed[p->pass.n_fed++] = (tg_slot_rows){slot, rows->rows};
    }
    return 0;
}

/* The slot called `name`, below `most`, or -1 with an exception. */
static int find_slot(const tg_model *m, PyObject *name, int most, const char *what) {
    const char *text = PyUnicode_Check(name) ? tg_utf8(name, NULL) : NULL;
    const int slot = text == NULL ? -1 : tg_model_find_slot(m, text);
    if (slot >= 0 && slot < most && m->slots[slot].shape.cols > 0) return slot;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s: the model has no '%S'", what, name);
    return -1;
}

/* New arrays for the slot called `name`, below `most`: the next of the n wanted ones, each once. */
static int want_slot(const tg_py_pass *p, const tg_model *m, PyObject *name, int most, const char *what,
                     tg_slot_rows *wanted, tg_py_rows *rows, int *n) {
    const int slot = find_slot(m, name, most, what);
    if (slot < 0) return -1;
    for (int i = 0; i < *n; i++)
        if (wanted[i].slot == slot) {
            PyErr_Format(PyExc_ValueError, "%s: '%s' is there twice", what, m->slots[slot].name);
            return -1;
        }
    const tg_shape shape = m->slots[slot].shape;
    if (reserve_rows(p, &rows[*n]) < 0) return -1;
    if (shape.space != TG_SPACE_UNIQUE && make_rows(p, shape, NULL, &rows[*n]) < 0) return -1;
    wanted[*n] = (tg_slot_rows){slot, rows[*n].rows};
    ++*n;
    return 0;
}

/* 1 if `name` is that of the numbers of unique cells, which then are wanted; -1 with an exception. */
static int want_unique_of(tg_py_pass *p, const tg_model *m, PyObject *name) {
    if (!PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "unique_of") != 0 ||
        tg_model_find_slot(m, "unique_of") >= 0)
        return 0;
    if (m->flags & TG_NEEDS_UNIQUE && p->unique_of == NULL)
        return (p->unique_of = PyList_New(p->batch.n)) == NULL ? -1 : 1;
    PyErr_SetString(PyExc_ValueError, p->unique_of != NULL
                                          ? "outputs: 'unique_of' is there twice"
                                          : "outputs: 'unique_of': no step of the model has unique cells");
    return -1;
}

int tg_py_pass_fetch(tg_py_pass *p, const tg_model *m, PyObject *names) {
    PyObject *items = PySequence_Tuple(names);
    if (items == NULL) return -1;
    p->keep[p->n_keep++] = items;
    p->model = m;
    p->pass.bound = make_unique;
    p->pass.bound_context = p;
    for (Py_ssize_t i = 0; i < PyTuple_Size(items); i++) {
        PyObject *name = PyTuple_GetItem(items, i);
        int status = want_unique_of(p, m, name);
        if (status == 0)
            status =
                want_slot(p, m, name, m->n_slots, "outputs", p->fetched, p->fetched_rows, &p->pass.n_fetched);
        if (status < 0) return -1;
    }
    return 0;
}

int tg_py_pass_scores(tg_py_pass *p, const tg_model *m) {
    if (m->scores < 0) {
        PyErr_SetString(PyExc_ValueError, "the model makes no 'scores'");
        return -1;
    }
    return (p->pass.scores = own(p, (size_t)p->batch.total * sizeof(float))) == NULL ? -1 : 0;
}

static int want_digits(tg_py_pass *p) {
    tg_py_rows *rows = &p->digit_rows;
    if (reserve_rows(p, rows) < 0 || (rows->arrays = PyList_New(p->batch.n)) == NULL) return -1;
    for (int i = 0; i < p->batch.n; i++) {
        const tg_graph *g = p->batch.entries[i].graph;
        npy_intp dims[4] = {p->batch.entries[i].C, g->K, g->D, g->digit_rows};
        PyArrayObject *a = tg_new_array(NPY_FLOAT32, 4, dims);
        if (a == NULL) return -1;
        memset(PyArray_DATA(a), 0, (size_t)PyArray_NBYTES(a));
        rows->rows[i] = TG_F32(a);
        PyList_SetItem(rows->arrays, i, (PyObject *)a);
    }
    p->pass.ddigits = rows->rows;
    return 0;
}

int tg_py_pass_gradients(tg_py_pass *p, const tg_model *m, PyObject *names) {
    PyObject *items = PySequence_Tuple(names);
    if (items == NULL) return -1;
    p->keep[p->n_keep++] = items;
    for (Py_ssize_t i = 0; i < PyTuple_Size(items); i++) {
        PyObject *name = PyTuple_GetItem(items, i);
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "digits") == 0) {
            if (!(m->flags & TG_NEEDS_DIGITS)) {
                PyErr_SetString(PyExc_ValueError, "gradients: no step of the model reads config digits");
                return -1;
            }
            if (p->pass.ddigits == NULL && want_digits(p) < 0) return -1;
            continue;
        }
        if (want_slot(p, m, name, m->n_inputs, "gradients", p->input_grads, p->input_grad_rows,
                      &p->pass.n_input_grads) < 0)
            return -1;
    }
    return 0;
}

/* ---- losses ---- */

/* The arrays of all slates one after the other, in memory of the pass; NULL with an exception. */
static void *gather(tg_py_pass *p, PyObject *arrays, const char *name, int typenum, size_t size) {
    PyObject *items = per_slate(p, arrays, name);
    char *all = items == NULL ? NULL : own(p, (size_t)p->batch.total * size), *at = all;
    for (int i = 0; all != NULL && i < p->batch.n; i++) {
        npy_intp dims[1] = {p->batch.entries[i].C};
        PyArrayObject *a = tg_array(PyTuple_GetItem(items, i), name, typenum, 1, dims, "(C,)");
        if (a == NULL) {
            all = NULL;
            break;
        }
        memcpy(at, PyArray_DATA(a), (size_t)dims[0] * size);
        at += (size_t)dims[0] * size;
    }
    Py_XDECREF(items);
    return all;
}

/* What a slate's prepared graph has of `which`, or 1 where it has no weights: to (C), in the order of the rows. */
static int take_made(const tg_py_pass *p, const tg_state *state, int i, tg_made which, char *to,
                     size_t size) {
    const int64_t *rows;
    tg_py_prepared *prepared = tg_py_batch_prepared(&p->batch, state, i, &rows);
    PyArrayObject *made = prepared == NULL ? NULL : tg_py_made(prepared, which);
    if (made == NULL) return -1;
    const char *from = PyArray_BYTES(made);
    for (int32_t c = 0; c < p->batch.entries[i].C; c++) {
        if (rows[c] < 0 || rows[c] >= prepared->C) {
            PyErr_Format(PyExc_ValueError, "rows: expected 0..%lld, got %lld", (long long)prepared->C - 1,
                         (long long)rows[c]);
            return -1;
        }
        memcpy(to + (size_t)c * size, from + (size_t)rows[c] * size, size);
    }
    return 0;
}

static void *gather_made(tg_py_pass *p, const tg_state *state, tg_made which) {
    char *all = own(p, (size_t)p->batch.total * sizeof(int64_t)), *at = all;
    for (int i = 0; all != NULL && i < p->batch.n; i++) {
        if (take_made(p, state, i, which, at, sizeof(int64_t)) < 0) return NULL;
        at += (size_t)p->batch.entries[i].C * sizeof(int64_t);
    }
    return all;
}

/* Weights of all slates, 1 where one has none; NULL if none has any, or with an exception. */
static float *gather_weights(tg_py_pass *p, const tg_state *state) {
    float *all = NULL, *at;
    const int64_t *rows;
    for (int i = 0; all == NULL && i < p->batch.n; i++) {
        const tg_py_prepared *prepared = tg_py_batch_prepared(&p->batch, state, i, &rows);
        if (prepared == NULL) return NULL;
        if (prepared->weights != Py_None && (all = own(p, (size_t)p->batch.total * sizeof *all)) == NULL)
            return NULL;
    }
    at = all;
    for (int i = 0; all != NULL && i < p->batch.n; i++) {
        PyObject *weights = tg_py_batch_prepared(&p->batch, state, i, &rows)->weights;
        for (int32_t c = 0; c < p->batch.entries[i].C; c++)
            *at++ = weights == Py_None ? 1.0f : TG_F32((PyArrayObject *)weights)[rows[c]];
    }
    return all;
}

/* `of` is (value, across): the targets of prepared graphs. */
static int prepared_targets(tg_py_pass *p, const tg_state *state, PyObject *of) {
    tg_targets *t = &p->pass.targets;
    const char *value;
    int across;
    if (!PyArg_ParseTuple(of, "zp;targets must be (value, across)", &value, &across)) return -1;
    const int target = value == NULL ? 0 : tg_py_target(value);
    if (target < 0) return -1;
    t->order =
        gather_made(p, state, across ? TG_MADE_ACROSS : TG_MADE_ORDER); /* which checks the rows, too */
    if (t->order == NULL) return -1;
    if (value != NULL && (t->value = gather_made(p, state, (tg_made)(TG_MADE_VALUES + target))) == NULL)
        return -1;
    if ((tg_losses_need(&p->losses) & TG_NEED_TIME) &&
        (t->time = gather_made(p, state, TG_MADE_TIMES)) == NULL)
        return -1;
    t->weight = gather_weights(p, state);
    return PyErr_Occurred() ? -1 : 0;
}

static int take_targets(tg_py_pass *p, const tg_state *state, PyObject *targets) {
    tg_targets *t = &p->pass.targets;
    const unsigned need = tg_losses_need(&p->losses);
    if (PyTuple_Check(targets)) return prepared_targets(p, state, targets);
    if (!PyDict_Check(targets))
        return (t->order = gather(p, targets, "runtimes", NPY_INT64, sizeof(int64_t))) == NULL ? -1 : 0;
    PyObject *order = PyDict_GetItemString(targets, "order"), *value = PyDict_GetItemString(targets, "value"),
             *weight = PyDict_GetItemString(targets, "weight"), *time = PyDict_GetItemString(targets, "time");
    if (((need & TG_NEED_ORDER) && order == NULL) || ((need & TG_NEED_VALUE) && value == NULL)) {
        PyErr_Format(PyExc_ValueError, "targets: a loss reads '%s', which is missing",
                     (need & TG_NEED_ORDER) && order == NULL ? "order" : "value");
        return -1;
    }
    if (order != NULL && (t->order = gather(p, order, "order", NPY_INT64, sizeof(int64_t))) == NULL)
        return -1;
    if (value != NULL && (t->value = gather(p, value, "value", NPY_FLOAT64, sizeof(double))) == NULL)
        return -1;
    if (weight != NULL && (t->weight = gather(p, weight, "weight", NPY_FLOAT32, sizeof(float))) == NULL)
        return -1;
    if (time != NULL && (t->time = gather(p, time, "time", NPY_FLOAT64, sizeof(double))) == NULL) return -1;
    return 0;
}

/* A private copy of an array of the dict, which is kept; NULL if it is not there, or with an exception. */
static void *take_array(tg_py_pass *p, PyObject *dict, const char *name, int typenum, npy_intp *length) {
    PyObject *given = PyDict_GetItemString(dict, name);
    if (given == NULL || given == Py_None) return NULL;
    PyArrayObject *a = tg_array(given, name, typenum, 1, length, "(n,)");
    PyArrayObject *copy = a == NULL ? NULL : tg_private_copy(a);
    p->keep[p->n_keep] = (PyObject *)copy;
    p->n_keep += copy != NULL;
    return copy == NULL ? NULL : PyArray_DATA(copy);
}

static int take_lists(tg_py_pass *p, PyObject *dict) {
    npy_intp ends = -1, entries = -1, total = (npy_intp)p->batch.total;
    p->lists.offsets = take_array(p, dict, "offsets", NPY_INT64, &ends);
    if (p->lists.offsets == NULL || ends < 2) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "lists: expected offsets (B+1,)");
        return -1;
    }
    p->lists.count = ends - 1;
    p->lists.index = take_array(p, dict, "index", NPY_INT64, &entries);
    p->lists.scale = take_array(p, dict, "scale", NPY_FLOAT32, &total);
    p->lists.shift = take_array(p, dict, "shift", NPY_FLOAT32, &total);
    if (PyErr_Occurred()) return -1;
    const int64_t all = p->lists.index == NULL ? p->batch.total : entries;
    if (p->lists.offsets[0] != 0 || p->lists.offsets[p->lists.count] != all) {
        PyErr_Format(PyExc_ValueError, "lists: offsets must run from 0 to %lld, found %lld to %lld",
                     (long long)all, (long long)p->lists.offsets[0],
                     (long long)p->lists.offsets[p->lists.count]);
        return -1;
    }
    p->pass.lists = &p->lists;
    return 0;
}

/* What moves the scores of slate i; None: nothing. */
static PyObject *moved_of(const tg_py_pass *p, int i) {
    PyObject *item = PyTuple_GetItem(p->batch.items, i);
    return PyTuple_Size(item) > 3 ? PyTuple_GetItem(item, 3) : Py_None;
}

static int take_moved(tg_py_pass *p) {
    float *scale = own(p, (size_t)p->batch.total * sizeof *scale);
    float *shift = scale == NULL ? NULL : own(p, (size_t)p->batch.total * sizeof *shift);
    if (shift == NULL) return -1;
    p->lists.scale = scale;
    p->lists.shift = shift;
    for (int i = 0; i < p->batch.n; i++) {
        const int64_t n = p->batch.entries[i].C;
        PyObject *moved = moved_of(p, i);
        for (int64_t c = 0; moved == Py_None && c < n; c++) scale[c] = 1; /* and shift 0 */
        if (moved != Py_None && tg_py_moved(moved, n, scale, shift) < 0) return -1;
        scale += n;
        shift += n;
    }
    return 0;
}

/* `of` is (kind, most): a list is a slate, a part of a slate of at most so many configs, or the whole batch. */
static int recipe_lists(tg_py_pass *p, PyObject *of) {
    enum { SLATE, PART, BATCH };
    const char *word;
    long long most;
    int moves = 0;
    if (!PyArg_ParseTuple(of, "sL;lists must be (kind, most)", &word, &most)) return -1;
    const int kind = tg_attr_choice("slate|part|batch", word);
    if (kind < 0 || most < 1) {
        PyErr_SetString(PyExc_ValueError, "lists: expected slate, part or batch, and at least 1 config");
        return -1;
    }
    for (int i = 0; i < p->batch.n; i++) moves |= moved_of(p, i) != Py_None;
    if (kind == SLATE && !moves) return 0;
    int64_t *ends = own(p, (size_t)(p->batch.total + 1) * sizeof *ends), at = 0;
    if (ends == NULL) return -1;
    for (int i = 0; i < p->batch.n; i++) {
        const int64_t n = p->batch.entries[i].C, parts = kind == PART ? (n + most - 1) / most : 1;
        for (int64_t k = 1; k <= parts; k++) ends[p->lists.count + k] = at + n * k / parts;
        at += n;
        if (kind == BATCH) ends[1] = at;
        else p->lists.count += parts;
    }
    if (kind == BATCH) p->lists.count = 1;
    p->lists.offsets = ends;
    p->pass.lists = &p->lists;
    return moves ? take_moved(p) : 0;
}

int tg_py_pass_losses(tg_py_pass *p, const tg_state *state, PyObject *losses, PyObject *targets,
                      PyObject *lists, uint64_t key) {
    if (tg_py_losses(losses, &p->losses) < 0) return -1;
    for (int t = 0; t < p->losses.n; t++) { /* functions that the list may lose while the pass runs */
        PyObject *own = p->losses.term[t].context;
        Py_XINCREF(own);
        p->keep[p->n_keep] = own;
        p->n_keep += own != NULL;
    }
    if (take_targets(p, state, targets) < 0) return -1;
    p->losses.key = p->pass.key = key;
    p->pass.losses = &p->losses;
    if (lists == NULL || lists == Py_None) return 0;
    return PyTuple_Check(lists) ? recipe_lists(p, lists) : take_lists(p, lists);
}

int tg_py_pass_start(tg_py_pass *p, PyObject *dscores) {
    return (p->pass.dscores = gather(p, dscores, "dscores", NPY_FLOAT32, sizeof(float))) == NULL ? -1 : 0;
}

int tg_py_pass_part(tg_py_pass *p, PyObject *tuple) {
    int part = 0, parts = 1;
    if (tuple != NULL && !PyArg_ParseTuple(tuple, "ii;part must be (number, parts)", &part, &parts))
        return -1;
    if (parts >= 1 && part >= 0 && part < parts && parts <= 1 << 16) {
        p->pass.part = part;
        p->pass.parts = parts;
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "part: expected (number, parts) with 0 <= number < parts <= 65536, got (%d, %d)", part,
                 parts);
    return -1;
}

/* ---- results ---- */

PyObject *tg_py_split_scores(const tg_py_pass *p) {
    const float *scores = p->pass.scores;
    PyObject *list = PyList_New(p->batch.n);
    for (int i = 0; list != NULL && i < p->batch.n; i++) {
        npy_intp dims[1] = {p->batch.entries[i].C};
        PyArrayObject *a = tg_new_array(NPY_FLOAT32, 1, dims);
        if (a == NULL) {
            Py_CLEAR(list);
            break;
        }
        memcpy(PyArray_DATA(a), scores, (size_t)dims[0] * sizeof *scores);
        scores += dims[0];
        PyList_SetItem(list, i, (PyObject *)a);
    }
    return list;
}

static PyObject *by_name(const tg_model *m, int n, const tg_slot_rows *slots, const tg_py_rows *rows) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < n; i++)
        if (PyDict_SetItemString(dict, m->slots[slots[i].slot].name, rows[i].arrays) < 0) Py_CLEAR(dict);
    return dict;
}

PyObject *tg_py_fetched(const tg_py_pass *p, const tg_model *m) {
    PyObject *dict = by_name(m, p->pass.n_fetched, p->fetched, p->fetched_rows);
    if (dict != NULL && p->unique_of != NULL && PyDict_SetItemString(dict, "unique_of", p->unique_of) < 0)
        Py_CLEAR(dict);
    return dict;
}

PyObject *tg_py_gradients(const tg_py_pass *p, const tg_model *m) {
    PyObject *dict = by_name(m, p->pass.n_input_grads, p->input_grads, p->input_grad_rows);
    if (dict != NULL && p->pass.ddigits != NULL &&
        PyDict_SetItemString(dict, "digits", p->digit_rows.arrays) < 0)
        Py_CLEAR(dict);
    return dict;
}
