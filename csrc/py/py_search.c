#include "py/py_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "features/schema.h"
#include "search/cells.h"
#include "search/search.h"

typedef struct py_search {
    PyObject_HEAD tg_search search;
    PyObject *given; /* starts, or NULL */
} py_search;

/* ---- making and freeing ---- */

static int method_of(const char *name) {
    for (int i = 0; i < TG_SEARCHES; i++)
        if (strcmp(name, tg_search_names[i]) == 0) return i;
    PyErr_Format(PyExc_ValueError, "method: there is no search called '%s'", name);
    return -1;
}

static int check_options(const tg_search_options *o) {
    static const int64_t most = INT32_MAX;
    const int fine = o->members >= 1 && o->members <= most && o->starts >= o->members && o->starts <= most &&
                     o->keep >= 1 && o->keep <= most && o->rate > 0 && o->rate <= 1e6 && o->budget >= 0;
    if (!fine)
        PyErr_SetString(PyExc_ValueError,
                        "Search: expected 1 <= members <= starts, keep >= 1, budget >= 0 and rate > 0");
    return fine ? 0 : -1;
}

static int fill(py_search *self, const tg_search_options *options, PyObject *sizes, PyObject *ordered,
                PyObject *start) {
    npy_intp P[1] = {-1}, dims[2] = {-1, -1};
    PyArrayObject *size = tg_array(sizes, "sizes", NPY_INT32, 1, P, "(P,)"), *order = NULL, *given = NULL;
    if (size == NULL) return -1;
    if (ordered != Py_None && (order = tg_array(ordered, "ordered", NPY_BOOL, 1, P, "(P,)")) == NULL)
        return -1;
    dims[1] = P[0];
    if (start != Py_None) {
        if ((given = tg_array(start, "start", NPY_INT32, 2, dims, "(n, P)")) == NULL) return -1;
        if ((self->given = (PyObject *)tg_private_copy(given)) == NULL) return -1;
        given = (PyArrayObject *)self->given;
    }
    tg_error err;
    const tg_status status =
        tg_search_new(&self->search, options, TG_I32(size), order == NULL ? NULL : TG_U8(order), P[0],
                      given == NULL ? NULL : TG_I32(given), given == NULL ? 0 : dims[0], &err);
    return status == TG_OK ? 0 : (tg_raise(&err, NULL), -1);
}

static PyObject *search_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"method", "sizes", "seed", "ordered", "start", "members", "starts",
                            "budget", "rate",  "hot",  "cold",    "keep",  NULL};
    const char *method;
    PyObject *sizes, *ordered = Py_None, *start = Py_None;
    unsigned long long seed;
    long long members = 8, starts = 8, budget = 1000, keep = 1024;
    tg_search_options o = {.rate = 1, .hot = -1, .cold = -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOK|$OOLLLdddL:Search", names, &method, &sizes, &seed,
                                     &ordered, &start, &members, &starts, &budget, &o.rate, &o.hot, &o.cold,
                                     &keep))
        return NULL;
    const int number = method_of(method);
    o.method = (tg_search_method)number, o.seed = seed, o.members = members, o.starts = starts;
    o.budget = budget, o.keep = keep;
    if (number < 0 || check_options(&o) < 0) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_search *self = (py_search *)alloc(type, 0);
    if (self != NULL && fill(self, &o, sizes, ordered, start) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void search_dealloc(PyObject *object) {
    py_search *self = (py_search *)object;
    PyTypeObject *type = Py_TYPE(object);
    tg_search_free(&self->search);
    Py_XDECREF(self->given);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* ---- ask and tell ---- */

static PyArrayObject *copied(int type, int ndim, const npy_intp *dims, const void *from) {
    PyArrayObject *array = tg_new_array(type, ndim, dims);
    if (array != NULL && PyArray_SIZE(array) > 0)
        memcpy(PyArray_DATA(array), from, (size_t)PyArray_NBYTES(array));
    return array;
}

/* ask(n) -> (m, P) int32 */
static PyObject *ask(PyObject *object, PyObject *arg) {
    tg_search *s = &((py_search *)object)->search;
    const long long n = PyLong_AsLongLong(arg);
    if (n == -1 && PyErr_Occurred()) return NULL;
    if (n < 1) return PyErr_Format(PyExc_ValueError, "ask: expected a number of codes >= 1, got %lld", n);
    tg_error err;
    if (tg_search_ask(s, n, &err) != TG_OK) return tg_raise(&err, NULL);
    const npy_intp dims[2] = {(npy_intp)tg_search_waiting(s), (npy_intp)s->P};
    return (PyObject *)copied(NPY_INT32, 2, dims, dims[0] == 0 ? NULL : tg_search_codes(s));
}

/* tell(scores, changes=None) */
static PyObject *tell(PyObject *object, PyObject *args) {
    tg_search *s = &((py_search *)object)->search;
    PyObject *given, *slope = Py_None;
    npy_intp dims[2] = {-1, (npy_intp)s->S};
    if (!PyArg_ParseTuple(args, "O|O:tell", &given, &slope)) return NULL;
    PyArrayObject *scores = tg_array(given, "scores", NPY_FLOAT64, 1, dims, "(m,)"), *changes = NULL;
    if (scores == NULL) return NULL;
    if (slope != Py_None && (changes = tg_array(slope, "changes", NPY_FLOAT32, 2, dims, "(m, S)")) == NULL)
        return NULL;
    tg_error err;
    if (tg_search_tell(s, TG_F64(scores), changes == NULL ? NULL : TG_F32(changes), dims[0], &err) != TG_OK)
        return tg_raise(&err, NULL);
    Py_RETURN_NONE;
}

/* best(k, differ=1) -> codes (m, P), scores (m,) */
static PyObject *best(PyObject *object, PyObject *args) {
    const tg_best *b = &((py_search *)object)->search.best;
    long long k, differ = 1;
    if (!PyArg_ParseTuple(args, "L|L:best", &k, &differ)) return NULL;
    if (k < 1 || differ < 0)
        return PyErr_Format(PyExc_ValueError, "best: expected k >= 1 and differ >= 0, got %lld and %lld", k,
                            differ);
    k = k < b->count ? k : b->count;
    int64_t *rows = PyMem_Malloc((size_t)k * sizeof *rows + 1), found = 0;
    tg_error err;
    if (rows == NULL) return PyErr_NoMemory();
    PyArrayObject *codes = NULL, *scores = NULL;
    if (tg_best_take(b, k, differ, rows, &found, &err) != TG_OK) tg_raise(&err, NULL);
    else {
        const npy_intp dims[2] = {(npy_intp)found, (npy_intp)b->P};
        codes = tg_new_array(NPY_INT32, 2, dims);
        scores = tg_new_array(NPY_FLOAT64, 1, dims);
    }
    for (int64_t i = 0; codes != NULL && scores != NULL && i < found; i++) {
        memcpy(TG_I32(codes) + i * b->P, b->code + rows[i] * b->P, (size_t)b->P * sizeof *b->code);
        TG_F64(scores)[i] = b->score[rows[i]];
    }
    PyMem_Free(rows);
    if (codes != NULL && scores != NULL) return Py_BuildValue("NN", codes, scores);
    Py_XDECREF((PyObject *)codes);
    Py_XDECREF((PyObject *)scores);
    return NULL;
}

/* ---- state ---- */

enum { NUMBERS = 13 };

/* What a saved search is compared by, and its counters. */
static void numbers_of(const tg_search *s, int64_t *to) {
    const tg_search_options *o = &s->options;
    const int64_t all[NUMBERS] = {(int64_t)o->method, (int64_t)o->seed, o->members, o->starts, s->P,
                                  s->givens,          s->filled,        s->drawn,   s->taken,  s->scored,
                                  s->failed,          s->rounds,        s->best.put};
    memcpy(to, all, sizeof all);
}

static int put(PyObject *dict, const char *name, int type, int64_t rows, int64_t columns, const void *from) {
    const npy_intp dims[2] = {(npy_intp)rows, (npy_intp)columns};
    PyObject *array = (PyObject *)copied(type, columns < 0 ? 1 : 2, dims, from);
    const int failed = array == NULL || PyDict_SetItemString(dict, name, array) < 0;
    Py_XDECREF(array);
    return failed;
}

static int64_t owned_by(const tg_search *s) {
    const int64_t waiting = tg_search_waiting(s);
    return waiting < s->options.members ? waiting : s->options.members;
}

static PyObject *state(PyObject *object, PyObject *unused) {
    const tg_search *s = &((py_search *)object)->search;
    const tg_best *b = &s->best;
    int64_t numbers[NUMBERS];
    PyObject *dict = PyDict_New();
    (void)unused;
    numbers_of(s, numbers);
    if (dict != NULL && (put(dict, "numbers", NPY_INT64, NUMBERS, -1, numbers) ||
                         put(dict, "sizes", NPY_INT32, s->P, -1, s->sizes) ||
                         put(dict, "codes", NPY_INT32, s->seen.count, s->P, s->seen.code) ||
                         put(dict, "scores", NPY_FLOAT64, s->seen.told, -1, s->seen.score) ||
                         put(dict, "changes", NPY_FLOAT32, s->seen.told, s->seen.S, s->seen.change) ||
                         put(dict, "members", NPY_INT64, s->filled, -1, s->member) ||
                         put(dict, "steps", NPY_INT64, s->options.members, -1, s->steps) ||
                         put(dict, "owners", NPY_INT64, owned_by(s), -1, s->owner) ||
                         put(dict, "spread", NPY_FLOAT64, 1, -1, &s->spread) ||
                         put(dict, "best_codes", NPY_INT32, b->count, b->P, b->code) ||
                         put(dict, "best_scores", NPY_FLOAT64, b->count, -1, b->score) ||
                         put(dict, "best_numbers", NPY_INT64, b->count, -1, b->number)))
        Py_CLEAR(dict);
    return dict;
}

/* An array of a state, borrowed; rows >= 0 are demanded, otherwise fewer than -rows are taken. */
static PyArrayObject *saved(PyObject *dict, const char *name, int type, int64_t rows, int64_t columns,
                            int64_t *found) {
    npy_intp dims[2] = {rows >= 0 ? (npy_intp)rows : -1, (npy_intp)columns};
    PyObject *given = PyDict_GetItemString(dict, name);
    tg_error err;
    if (given != NULL && tg_fits(given, type, columns < 0 ? 1 : 2, dims)) {
        PyArrayObject *array = (PyArrayObject *)given;
        *found = PyArray_DIM(array, 0);
        if (rows >= 0 || *found < -rows) return array;
    }
    tg_refuse(&err, TG_E_CHECKPOINT, name, "an array that state() returned for a search with these settings",
              given == NULL ? "none" : "another array");
    return (PyArrayObject *)tg_raise(&err, NULL);
}

static tg_status again(tg_search *s, const int32_t *codes, int64_t count, tg_error *err) {
    tg_seen_clear(&s->seen);
    for (int64_t i = 0; i < count; i++) {
        if (tg_seen_find(&s->seen, codes + i * s->P) >= 0)
            return tg_refuse(err, TG_E_CHECKPOINT, "codes", "each code once", "one twice");
        if (tg_seen_add(&s->seen, codes + i * s->P, err) != TG_OK) return TG_E_MEMORY;
    }
    return TG_OK;
}

typedef struct parts {
    PyArrayObject *numbers, *sizes, *codes, *scores, *changes, *members, *steps, *owners, *spread,
        *best_codes, *best_scores, *best_numbers;
    int64_t count, told, filled, owned, best;
} parts;

static int take_parts(const tg_search *s, PyObject *dict, parts *p) {
    int64_t n;
    return (p->numbers = saved(dict, "numbers", NPY_INT64, NUMBERS, -1, &n)) == NULL ||
           (p->sizes = saved(dict, "sizes", NPY_INT32, s->P, -1, &n)) == NULL ||
           (p->codes = saved(dict, "codes", NPY_INT32, -INT64_MAX, s->P, &p->count)) == NULL ||
           (p->scores = saved(dict, "scores", NPY_FLOAT64, -p->count - 1, -1, &p->told)) == NULL ||
           (p->changes = saved(dict, "changes", NPY_FLOAT32, p->told, s->seen.S, &n)) == NULL ||
           (p->members = saved(dict, "members", NPY_INT64, -s->options.members - 1, -1, &p->filled)) ==
               NULL ||
           (p->steps = saved(dict, "steps", NPY_INT64, s->options.members, -1, &n)) == NULL ||
           (p->owners = saved(dict, "owners", NPY_INT64, -s->options.members - 1, -1, &p->owned)) == NULL ||
           (p->spread = saved(dict, "spread", NPY_FLOAT64, 1, -1, &n)) == NULL ||
           (p->best_codes = saved(dict, "best_codes", NPY_INT32, -s->best.room - 1, s->P, &p->best)) ==
               NULL ||
           (p->best_scores = saved(dict, "best_scores", NPY_FLOAT64, p->best, -1, &n)) == NULL ||
           (p->best_numbers = saved(dict, "best_numbers", NPY_INT64, p->best, -1, &n)) == NULL;
}

static void copy(void *to, PyArrayObject *from) {
    if (PyArray_SIZE(from) > 0) memcpy(to, PyArray_DATA(from), (size_t)PyArray_NBYTES(from));
}

/* Whether the state is of a search with the same settings; its counters are put back. */
static tg_status take_numbers(tg_search *s, const parts *p, tg_error *err) {
    int64_t own[NUMBERS];
    const int64_t *n = TG_I64(p->numbers);
    numbers_of(s, own);
    if (memcmp(own, n, 6 * sizeof *own) ||
        memcmp(TG_I32(p->sizes), s->sizes, (size_t)s->P * sizeof *s->sizes))
        return tg_refuse(err, TG_E_CHECKPOINT, "numbers", "those of a search with the same settings",
                         "others");
    if (n[6] != p->filled)
        return tg_refuse(err, TG_E_CHECKPOINT, "members", "as many as are counted", "others");
    s->filled = n[6], s->drawn = n[7], s->taken = n[8], s->scored = n[9], s->failed = n[10],
    s->rounds = n[11];
    s->best.put = n[12];
    return TG_OK;
}

static tg_status take_state(tg_search *s, const parts *p, tg_error *err) {
    tg_status status = take_numbers(s, p, err);
    if (status == TG_OK) status = again(s, TG_I32(p->codes), p->count, err);
    if (status != TG_OK) return status;
    s->seen.told = p->told;
    if (p->owned != owned_by(s))
        return tg_refuse(err, TG_E_CHECKPOINT, "owners", "one of each code that waits", "others");
    copy(s->seen.score, p->scores);
    copy(s->seen.change, p->changes);
    copy(s->member, p->members);
    copy(s->steps, p->steps);
    copy(s->owner, p->owners);
    copy(&s->spread, p->spread);
    s->best.count = p->best;
    copy(s->best.code, p->best_codes);
    copy(s->best.score, p->best_scores);
    copy(s->best.number, p->best_numbers);
    s->least = INFINITY;
    for (int64_t i = 0; i < p->best; i++) s->least = fmin(s->least, s->best.score[i]);
    return tg_search_check(s, err);
}

/* A search that could not take a state is as new. */
static PyObject *restore(PyObject *object, PyObject *dict) {
    tg_search *s = &((py_search *)object)->search;
    parts p = {.count = 0};
    tg_error err;
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "restore: expected a dict, got %R", dict);
    if (take_parts(s, dict, &p)) return NULL;
    if (take_state(s, &p, &err) == TG_OK) Py_RETURN_NONE;
    tg_seen_clear(&s->seen);
    s->filled = s->drawn = s->taken = s->scored = s->failed = s->rounds = s->best.count = s->best.put = 0;
    memset(s->steps, 0, (size_t)s->options.members * sizeof *s->steps);
    s->spread = -1, s->least = INFINITY;
    return tg_raise(&err, NULL);
}

/* ---- attributes ---- */

static PyObject *get_number(PyObject *object, void *which) {
    const tg_search *s = &((py_search *)object)->search;
    const int64_t numbers[] = {s->scored, s->failed, s->size, s->S, tg_search_waiting(s)};
    return PyLong_FromLongLong(numbers[(intptr_t)which]);
}

static PyObject *get_temperature(PyObject *object, void *unused) {
    (void)unused;
    return PyFloat_FromDouble(tg_search_temperature(&((py_search *)object)->search));
}

static PyObject *get_least(PyObject *object, void *unused) {
    const tg_search *s = &((py_search *)object)->search;
    (void)unused;
    return PyFloat_FromDouble(s->least);
}

static PyObject *get_chains(PyObject *object, void *unused) {
    const tg_search *s = &((py_search *)object)->search;
    const npy_intp dims[2] = {(npy_intp)s->filled, (npy_intp)s->P};
    PyArrayObject *codes = tg_new_array(NPY_INT32, 2, dims);
    (void)unused;
    for (int64_t i = 0; codes != NULL && i < s->filled; i++)
        memcpy(TG_I32(codes) + i * s->P, s->seen.code + s->member[i] * s->P, (size_t)s->P * sizeof(int32_t));
    return (PyObject *)codes;
}

static PyMethodDef methods[] = {
    {"ask", ask, METH_O,
     PyDoc_STR("ask(n) -> (m, P) int32: codes to score, n at most; none: there are no others. Until their "
               "scores are "
               "told, they are the same.")},
    {"tell", tell, METH_VARARGS,
     PyDoc_STR("tell(scores, changes=None): scores (m,) float64 of what was asked for, infinite for codes "
               "that cannot "
               "be; for \"langevin\" also the changes (m, S) float32 of the score if one parameter took "
               "another value.")},
    {"best", best, METH_VARARGS,
     PyDoc_STR("best(k, differ=1) -> codes (m, P), scores (m,): the k best, each with at least `differ` "
               "other values "
               "than every better one.")},
    {"state", state, METH_NOARGS, PyDoc_STR("state() -> arrays by name, for restore().")},
    {"restore", restore, METH_O,
     PyDoc_STR("restore(state): go on where a search with the same settings was.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"scored", get_number, NULL, PyDoc_STR("Finite scores so far."), (void *)0},
    {"failed", get_number, NULL, PyDoc_STR("Other scores so far."), (void *)1},
    {"size", get_number, NULL, PyDoc_STR("Codes in all, -1 if that number is huge."), (void *)2},
    {"values", get_number, NULL, PyDoc_STR("Values S of all parameters."), (void *)3},
    {"waiting", get_number, NULL, PyDoc_STR("Codes that wait for scores."), (void *)4},
    {"temperature", get_temperature, NULL, PyDoc_STR("Temperature of the chains."), NULL},
    {"least", get_least, NULL, PyDoc_STR("The least score so far, infinite without one."), NULL},
    {"members", get_chains, NULL, PyDoc_STR("(m, P) int32: where the chains are, or the population."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, search_new},
    {Py_tp_dealloc, search_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, (void *)PyDoc_STR("Search(method, sizes, seed, ...): which codes to score next.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Search",
                           .basicsize = sizeof(py_search),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

/* ---- cells of configs ---- */

/* cell_values(cells (C, M, W) int8) -> (C, M) int32 */
static PyObject *cell_values(PyObject *self, PyObject *arg) {
    npy_intp dims[3] = {-1, -1, -1};
    (void)self;
    PyArrayObject *cells = tg_array(arg, "cells", NPY_INT8, 3, dims, "(C, M, W)");
    PyArrayObject *numbers = cells == NULL ? NULL : tg_new_array(NPY_INT32, 2, dims);
    if (numbers == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_cell_values(TG_I32(numbers), TG_U8(cells), dims[0], dims[1], dims[2], &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)numbers;
    Py_DECREF((PyObject *)numbers);
    return tg_raise(&err, NULL);
}

/* What cells_make and cells_changes take, with dims {n, R, W}; code NULL with an exception if they are something else. */
typedef struct cells_given {
    tg_cell_map map;
    PyArrayObject *code, *from;
    npy_intp n, R, W;
} cells_given;

static cells_given take_cells(PyObject *const o[5]) {
    npy_intp codes[2] = {-1, -1}, P[1] = {-1}, S[1] = {-1}, M[1] = {-1}, cells[3] = {-1, -1, -1};
    PyArrayObject *first, *row, *of;
    cells_given g = {.code = NULL};
    if ((first = tg_array(o[1], "first", NPY_INT64, 1, P, "(P,)")) == NULL ||
        (row = tg_array(o[2], "row", NPY_INT64, 1, S, "(S,)")) == NULL ||
        (of = tg_array(o[3], "of", NPY_INT64, 1, M, "(M,)")) == NULL)
        return g;
    codes[1] = P[0], cells[1] = M[0];
    if ((g.from = tg_array(o[4], "cells", NPY_INT8, 3, cells, "(R, M, W)")) == NULL) return g;
    g.code = tg_array(o[0], "codes", NPY_INT32, 2, codes, "(n, P)");
    g.map = (tg_cell_map){P[0], S[0], M[0], TG_I64(first), TG_I64(row), TG_I64(of)};
    g.n = codes[0], g.R = cells[0], g.W = cells[2];
    return g;
}

/* The array if it could be made, else NULL with an exception. */
static PyObject *if_there(PyArrayObject *made, int there) {
    if (made == NULL || there) return (PyObject *)made;
    Py_DECREF((PyObject *)made);
    return PyErr_Format(PyExc_ValueError, "expected codes of existing values");
}

/* cells_make(codes (n, P) int32, first (P,), row (S,), of (M,), cells (R, M, W) int8) -> (n, M, W) int8 */
static PyObject *cells_make(PyObject *self, PyObject *args) {
    PyObject *o[5];
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOO:cells_make", &o[0], &o[1], &o[2], &o[3], &o[4])) return NULL;
    const cells_given g = take_cells(o);
    if (g.code == NULL) return NULL;
    const npy_intp dims[3] = {g.n, (npy_intp)g.map.M, g.W};
    PyArrayObject *made = tg_new_array(NPY_INT8, 3, dims);
    return if_there(made, made != NULL && tg_cells_make(TG_U8(made), &g.map, TG_I32(g.code), g.n,
                                                        TG_U8(g.from), g.R, g.W));
}

/* cells_changes(codes, first, row, of, cells, slope (n, M, W, V) float32) -> (n, S) float32 */
static PyObject *cells_changes(PyObject *self, PyObject *args) {
    PyObject *o[5], *slope_in;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOO:cells_changes", &o[0], &o[1], &o[2], &o[3], &o[4], &slope_in))
        return NULL;
    const cells_given g = take_cells(o);
    if (g.code == NULL) return NULL;
    npy_intp wanted[4] = {g.n, (npy_intp)g.map.M, g.W, -1};
    const npy_intp dims[2] = {g.n, (npy_intp)g.map.S};
    PyArrayObject *slope = tg_array(slope_in, "slope", NPY_FLOAT32, 4, wanted, "(n, M, W, V)");
    PyArrayObject *made = slope == NULL ? NULL : tg_new_array(NPY_FLOAT32, 2, dims);
    if (made == NULL) return NULL;
    memset(TG_F32(made), 0, (size_t)PyArray_NBYTES(made));
    return if_there(made,
                    tg_cells_changes(TG_F32(made), &g.map, TG_I32(g.code), g.n, TG_F32(slope),
                                     (const int8_t *)TG_U8(g.from), g.R, g.W, wanted[3], TG_DIGIT_MIN - 1));
}

PyMethodDef tg_search_methods[] = {
    {"cells_make", cells_make, METH_VARARGS,
     PyDoc_STR("cells_make(codes, first, row, of, cells) -> (n, M, W) int8: cells of codes; value v of "
               "parameter p is that "
               "of row[first[p] + v], and of says which parameter sets a cell.")},
    {"cells_changes", cells_changes, METH_VARARGS,
     PyDoc_STR("cells_changes(codes, first, row, of, cells, slope (n, M, W, V)) -> (n, S) float32: changes "
               "of scores with "
               "each other value of a parameter, of slopes by the digits of cells.")},
    {"cell_values", cell_values, METH_O,
     PyDoc_STR("cell_values(cells (C, M, W) int8) -> (C, M) int32: the number of each cell's value in its "
               "column, in "
               "the order in which they first come.")},
    {NULL, NULL, 0, NULL},
};

int tg_add_search_type(PyObject *module) { return tg_add_type(module, &spec, "Search", NULL); }
