/* Losses and metrics over NumPy arrays. Orders are all the core needs, so runtimes become 64-bit keys here.
 */
#include "py/py_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "py/py_json.h"
#include "rank/metrics.h"
#include "rank/ratio.h"
#include "rank/repeats.h"

/* ---- losses ---- */

/* A new array of these n items. */
static PyObject *copied(int typenum, const void *items, int64_t n, size_t size) {
    npy_intp dims[1] = {(npy_intp)n};
    PyArrayObject *array = tg_new_array(typenum, 1, dims);
    if (array != NULL && n > 0) memcpy(PyArray_DATA(array), items, (size_t)n * size);
    return (PyObject *)array;
}

/* The readable name of a function, as plain_name in tpugraphs/recipes/functions.py makes it. A new reference. */
static PyObject *name_of(PyObject *function) {
    PyObject *name = PyObject_GetAttrString(function, "__qualname__");
    if (name != NULL) return name;
    PyErr_Clear();
    PyObject *inner = PyObject_GetAttrString(function, "func"); /* of functools.partial */
    if (inner == NULL) PyErr_Clear();
    name = inner != NULL ? name_of(inner) : PyType_GetQualName(Py_TYPE(function));
    Py_XDECREF(inner);
    return name;
}

/* -1 with a ConfigError: what a function was expected to return. `found`, a new text, is let go. */
static int returned(PyObject *function, const char *expected, PyObject *found, const char *todo) {
    PyObject *name = found == NULL ? NULL : name_of(function);
    PyObject *text = name == NULL ? NULL
                                  : PyUnicode_FromFormat("loss %S: expected it to return %s, got %U%s", name,
                                                         expected, found, todo);
    const char *message = text == NULL ? NULL : tg_utf8(text, NULL);
    if (message != NULL) {
        tg_error err;
        tg_fail(&err, TG_E_CONFIG, "%s", message);
        tg_raise(&err, NULL);
    }
    Py_XDECREF(found);
    Py_XDECREF(name);
    Py_XDECREF(text);
    return -1;
}

#define DIVERGED "; see that it is defined for equal scores and runtimes, or lower the learning_rate"

static int take_value(PyObject *function, PyObject *given, double *value) {
    int number = !PyBool_Check(given) && tg_plain_number(given, value);
    if (!number && PyArray_CheckScalar(given)) {
        PyObject *array = PyArray_FromAny(given, NULL, 0, 0, 0, NULL);
        if (array == NULL) return -1;
        const int type = PyArray_TYPE((PyArrayObject *)array);
        PyObject *real = PyTypeNum_ISINTEGER(type) || PyTypeNum_ISFLOAT(type) ? PyNumber_Float(given) : NULL;
        number = real != NULL;
        if (number) *value = PyFloat_AsDouble(real);
        Py_DECREF(array);
        Py_XDECREF(real);
        if (PyErr_Occurred()) return -1;
    }
    if (!number) return returned(function, "a number as the loss", PyUnicode_FromFormat("%.60R", given), "");
    if (isfinite(*value)) return 0;
    return returned(function, "a finite loss", PyUnicode_FromFormat("%.60R", given), DIVERGED);
}

static int take_gradient(PyObject *function, PyObject *given, int64_t n, float *gradient) {
    char expected[96];
    PyArrayObject *a = PyArray_Check(given) ? (PyArrayObject *)given : NULL;
    const int type = a == NULL ? -1 : PyArray_TYPE(a);
    if (type != NPY_FLOAT32 && type != NPY_FLOAT64) {
        snprintf(expected, sizeof expected, "a gradient (%lld,) float32 or float64", (long long)n);
        PyObject *found =
            a == NULL ? PyType_GetQualName(Py_TYPE(given)) : PyObject_Str((PyObject *)PyArray_DESCR(a));
        return returned(function, expected, found, "");
    }
    if (PyArray_NDIM(a) != 1 || PyArray_DIM(a, 0) != (npy_intp)n) {
        snprintf(expected, sizeof expected, "a gradient of the shape of the scores, (%lld,)", (long long)n);
        PyObject *shape = PyObject_GetAttrString(given, "shape");
        PyObject *found = shape == NULL ? NULL : PyObject_Str(shape);
        Py_XDECREF(shape);
        return returned(function, expected, found, "");
    }
    a = (PyArrayObject *)PyArray_FromAny(given, PyArray_DescrFromType(type), 1, 1, NPY_ARRAY_CARRAY_RO, NULL);
    if (a == NULL) return -1;
    int status = 0;
    for (int64_t i = 0; i < n && status == 0; i++) {
        const double x = type == NPY_FLOAT32 ? (double)TG_F32(a)[i] : TG_F64(a)[i];
        gradient[i] = (float)x;
        if (isfinite(gradient[i])) continue;
        char found[64];
        snprintf(found, sizeof found, "%g at score %lld", isnan(x) ? NAN : x, (long long)i);
        status = returned(function, "a finite gradient", PyUnicode_FromString(found), DIVERGED);
    }
    Py_DECREF((PyObject *)a);
    return status;
}

/* (value, gradient (E,)) of a function of the caller's, called with copies that are its own. */
static int call_own(PyObject *function, const tg_own_lists *l, float *gradient, double *value) {
    PyObject *scores = copied(NPY_FLOAT32, l->scores, l->E, sizeof *l->scores),
             *times = copied(NPY_FLOAT64, l->time, l->E, sizeof *l->time),
             *offsets = copied(NPY_INT64, l->offsets, l->count + 1, sizeof *l->offsets), *result = NULL;
    int status = -1;
    if (scores != NULL && times != NULL && offsets != NULL)
        result = PyObject_CallFunctionObjArgs(function, scores, times, offsets, NULL);
    if (result != NULL && (!PyTuple_Check(result) || PyTuple_Size(result) != 2))
        returned(function, "a pair (loss, gradient)", PyType_GetQualName(Py_TYPE(result)), "");
    else if (result != NULL && (status = take_value(function, PyTuple_GetItem(result, 0), value)) == 0)
        status = take_gradient(function, PyTuple_GetItem(result, 1), l->E, gradient);
    Py_XDECREF(scores);
    Py_XDECREF(times);
    Py_XDECREF(offsets);
    Py_XDECREF(result);
    return status;
}

/* Its exception stays set, as that of an interrupted pass does. */
static tg_status run_own(void *context, const tg_own_lists *lists, float *gradient, double *value,
                         tg_error *err) {
    PyGILState_STATE gil = PyGILState_Ensure();
    const int status = call_own(context, lists, gradient, value);
    PyGILState_Release(gil);
    return status == 0 ? TG_OK : tg_fail(err, TG_E_CANCELLED, "a loss of the caller's own failed");
}

/* The name of a term's loss if it is a function, borrowed; else NULL. */
static PyObject *own_function(PyObject *term) {
    PyObject *loss = PyDict_Check(term) ? PyDict_GetItemString(term, "loss") : NULL;
    return loss == NULL || PyUnicode_Check(loss) || !PyCallable_Check(loss) ? NULL : loss;
}

/* A copy of the list in which None stands for functions, and in `functions` what they were: one per term. */
static PyObject *without_functions(PyObject *list, PyObject **functions) {
    PyObject *copy = PyList_New(0);
    for (Py_ssize_t i = 0; copy != NULL && i < PyList_Size(list); i++) {
        PyObject *term = PyList_GetItem(list, i), *own = own_function(term);
        PyObject *item = own == NULL ? Py_NewRef(term) : PyDict_Copy(term);
        if (own != NULL && item != NULL && PyDict_SetItemString(item, "loss", Py_None) < 0) Py_CLEAR(item);
        if (i < TG_MAX_LOSSES) functions[i] = own;
        tg_append(&copy, item);
    }
    return copy;
}

int tg_py_losses(PyObject *given, tg_losses *out) {
    PyObject *functions[TG_MAX_LOSSES] = {NULL};
    PyObject *list = PyList_Check(given) ? without_functions(given, functions) : Py_NewRef(given);
    tg_json_tree tree;
    tg_error err;
    if (list == NULL) return -1;
    int status = tg_py_json(list, "loss", TG_E_CONFIG, &tree);
    Py_DECREF(list);
    if (status == 0 && tg_losses_read(out, tree.root, run_own, &err) != TG_OK) {
        tg_raise(&err, NULL);
        status = -1;
    }
    tg_json_free(&tree);
    for (int i = 0; status == 0 && i < out->n; i++) {
        if (out->term[i].own == NULL) continue;
        out->term[i].context = functions[i];
        if (functions[i] == NULL) {
            PyErr_SetString(PyExc_TypeError, "loss: expected a name or a function, got None");
            status = -1;
        }
    }
    return status;
}

static PyObject *target_words(unsigned targets) {
    static const char *const words[] = {"",      "runtimes",       "values",       "runtimes|values",
                                        "times", "runtimes|times", "values|times", "runtimes|values|times"};
    return targets == 0 ? PyTuple_New(0) : tg_py_words(words[targets]);
}

/* What a loss may read, whatever its choices. */
static unsigned may_read(const tg_loss *loss) {
    char word[64];
    tg_losses one = {.n = 1, .term[0] = tg_loss_default(loss)};
    unsigned targets = tg_losses_need(&one);
    for (int a = 0; a < tg_attrs_count(loss->attrs, TG_MAX_LOSS_ATTRS); a++)
        for (int i = 0; loss->attrs[a].kind == TG_ATTR_CHOICE &&
                        tg_attr_word(loss->attrs[a].choices, i, word, sizeof word);
             i++) {
            one.term[0].attr[a] = i;
            targets |= tg_losses_need(&one);
        }
    return targets;
}

/* The default first. */
static PyObject *reductions_of(const tg_loss *loss) {
    char words[128];
    int used = snprintf(words, sizeof words, "%s", tg_reduction_names[loss->reduction]);
    for (int r = 0; r < TG_REDUCTIONS; r++)
        if (loss->reductions >> r & 1 && r != (int)loss->reduction)
            used += snprintf(words + used, sizeof words - (size_t)used, "|%s", tg_reduction_names[r]);
    return tg_py_words(words);
}

static PyObject *describe_loss(const tg_loss *loss) {
    const tg_losses one = {.n = 1, .term[0] = tg_loss_default(loss)};
    return Py_BuildValue("{s:s,s:s,s:i,s:N,s:N,s:N,s:N}", "name", loss->name, "doc", loss->doc, "least",
                         loss->least, "reads", target_words(tg_losses_need(&one)), "may_read",
                         target_words(may_read(loss)), "reductions", reductions_of(loss), "attrs",
                         tg_py_attrs(loss->attrs, TG_MAX_LOSS_ATTRS));
}

/* () -> the table of losses as a list of dicts */
static PyObject *losses_table(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && tg_loss_table[i] != NULL; i++)
        tg_append(&list, describe_loss(tg_loss_table[i]));
    return list;
}

/* (terms) -> what they read */
static PyObject *losses_need(PyObject *self, PyObject *terms) {
    (void)self;
    tg_losses losses;
    return tg_py_losses(terms, &losses) < 0 ? NULL : target_words(tg_losses_need(&losses));
}

/* A 1-D array of one of the number types a metric or loss takes; NULL with ShapeError set. dims as in
 * tg_array. */
static PyArrayObject *numbers(PyObject *object, const char *name, npy_intp *dims, int integers_first) {
    static const int types[] = {NPY_FLOAT32, NPY_FLOAT64, NPY_INT64, NPY_INT32};
    int type = integers_first ? NPY_INT64 : NPY_FLOAT32;
    if (PyArray_Check(object))
        for (int i = 0; i < 4; i++)
            if (PyArray_TYPE((PyArrayObject *)object) == types[i]) type = types[i];
    return tg_array(object, name, type, 1, dims, "(L,)");
}

/* What tg_keys needs to know of an array. */
static tg_numbers view(PyArrayObject *array) {
    tg_numbers x = {PyArray_DATA(array), TG_NUMBER_F32, PyArray_DIM(array, 0)};
    if (PyArray_TYPE(array) == NPY_FLOAT64) x.type = TG_NUMBER_F64;
    if (PyArray_TYPE(array) == NPY_INT64) x.type = TG_NUMBER_I64;
    if (PyArray_TYPE(array) == NPY_INT32) x.type = TG_NUMBER_I32;
    return x;
}

/* runtimes as int64 of the same order: int64 as they are, others through keys into `*owned` (to be freed). */
static const int64_t *integer_runtimes(PyArrayObject *array, int64_t **owned) {
    tg_error err;
    *owned = NULL;
    if (PyArray_TYPE(array) == NPY_INT64) return TG_I64(array);
    tg_numbers x = view(array);
    uint64_t *keys = malloc((size_t)x.n * sizeof *keys + 1);
    if (keys == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (tg_number_keys(x, "runtimes", keys, &err) != TG_OK) {
        free(keys);
        tg_raise(&err, NULL);
        return NULL;
    }
    *owned = (int64_t *)keys;
    for (int64_t i = 0; i < x.n; i++) (*owned)[i] = (int64_t)(keys[i] ^ UINT64_C(1) << 63);
    return *owned;
}

/* 0 with ShapeError set if `runtimes` is a list of another length; anything else is checked later. */
static int as_many_runtimes(PyObject *runtimes, npy_intp scores) {
    if (!PyArray_Check(runtimes) || PyArray_NDIM((PyArrayObject *)runtimes) != 1) return 1;
    const npy_intp length = PyArray_DIM((PyArrayObject *)runtimes, 0);
    if (length == scores) return 1;
    tg_error err;
    tg_fail(&err, TG_E_SHAPE,
            "scores and runtimes: expected one runtime per score, got %lld score%s and %lld runtime%s",
            (long long)scores, TG_S(scores), (long long)length, TG_S(length));
    tg_raise(&err, NULL);
    return 0;
}

/* Everything losses_run reads, checked for its type and shape. */
typedef struct call {
    tg_losses losses;
    npy_intp length;
    PyArrayObject *scores;
    tg_targets targets;
    tg_lists lists;
    int64_t all[2];                 /* offsets of one list of everything */
    int64_t *owned;                 /* keys of runtimes, to be freed */
    PyArrayObject *offsets, *index; /* private copies */
} call;

static void end_call(call *c) {
    free(c->owned);
    Py_XDECREF((PyObject *)c->offsets);
    Py_XDECREF((PyObject *)c->index);
}

/* 1 with *array NULL for None; (L,) arrays only. 0 with ShapeError set. */
static int per_score(PyObject *object, const char *name, int type, const call *c, PyArrayObject **array) {
    npy_intp length = c->length;
    *array = NULL;
    return object == Py_None || (*array = tg_array(object, name, type, 1, &length, "(L,)")) != NULL;
}

static int parse_targets(PyObject *runtimes, PyObject *values, PyObject *weights, call *c) {
    PyArrayObject *array;
    npy_intp length = c->length;
    if (runtimes != Py_None) {
        if (!as_many_runtimes(runtimes, length)) return 0;
        array = numbers(runtimes, "runtimes", &length, 1);
        if (array == NULL || (c->targets.order = integer_runtimes(array, &c->owned)) == NULL) return 0;
    }
    if (!per_score(values, "values", NPY_FLOAT64, c, &array)) return 0;
    if (array != NULL) c->targets.value = TG_F64(array);
    if (!per_score(weights, "weights", NPY_FLOAT32, c, &array)) return 0;
    if (array != NULL) c->targets.weight = TG_F32(array);
    return 1;
}

static int parse_lists(PyObject *offsets, PyObject *index, PyObject *scale, PyObject *shift, call *c) {
    PyArrayObject *array;
    npy_intp ends = -1, entries = -1;
    c->lists = (tg_lists){.count = 1, .offsets = c->all};
    if (index != Py_None) {
        array = tg_array(index, "index", NPY_INT64, 1, &entries, "(E,)");
        if (array == NULL || (c->index = tg_private_copy(array)) == NULL) return 0;
        c->lists.index = TG_I64(c->index);
    }
    c->all[1] = index == Py_None ? c->length : entries;
    if (offsets != Py_None) {
        array = tg_array(offsets, "offsets", NPY_INT64, 1, &ends, "(B+1,)");
        if (array == NULL || (c->offsets = tg_private_copy(array)) == NULL) return 0;
        c->lists.offsets = TG_I64(c->offsets);
        c->lists.count = ends - 1;
    }
    tg_error err;
    const int64_t first = ends == 0 ? 0 : c->lists.offsets[0],
                  last = ends == 0 ? 0 : c->lists.offsets[c->lists.count];
    if (ends == 0)
        tg_fail(&err, TG_E_SHAPE, "offsets: expected int64 array of shape (B+1,), got an empty one");
    else if (first != 0 || last != c->all[1])
        tg_fail(&err, TG_E_SHAPE,
                "offsets: expected to run from 0 to %lld (the number of %s), found %lld to %lld",
                (long long)c->all[1], index == Py_None ? "scores" : "places of the index", (long long)first,
                (long long)last);
    if (ends == 0 || first != 0 || last != c->all[1]) {
        tg_raise(&err, NULL);
        return 0;
    }
    if (!per_score(scale, "scale", NPY_FLOAT32, c, &array)) return 0;
    if (array != NULL) c->lists.scale = TG_F32(array);
    if (!per_score(shift, "shift", NPY_FLOAT32, c, &array)) return 0;
    if (array != NULL) c->lists.shift = TG_F32(array);
    return 1;
}

/* losses_run(terms, scores, runtimes, values, weights, offsets, index, scale, shift, key), targets and lists None
   where there are none -> value, dscores */
static PyObject *losses_run(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *terms, *scores, *runtimes, *values, *weights, *offsets, *index, *scale, *shift;
    unsigned long long key;
    double value;
    tg_error err;
    call c = {.length = -1};
    if (!PyArg_ParseTuple(args, "OOOOOOOOOK:losses_run", &terms, &scores, &runtimes, &values, &weights,
                          &offsets, &index, &scale, &shift, &key))
        return NULL;
    PyArrayObject *dscores = NULL;
    tg_status status = TG_E_CONFIG;
    if (tg_py_losses(terms, &c.losses) == 0 &&
        (c.scores = tg_array(scores, "scores", NPY_FLOAT32, 1, &c.length, "(L,)")) != NULL &&
        parse_targets(runtimes, values, weights, &c) && parse_lists(offsets, index, scale, shift, &c) &&
        (dscores = tg_new_array(NPY_FLOAT32, 1, &c.length)) != NULL) {
        c.losses.key = key;
        Py_BEGIN_ALLOW_THREADS
        status = tg_losses_run(&c.losses, c.length, TG_F32(c.scores), &c.targets, &c.lists, TG_F32(dscores),
                               &value, &err);
        Py_END_ALLOW_THREADS
        if (status != TG_OK) tg_raise(&err, NULL);
    }
    end_call(&c);
    if (status == TG_OK) return Py_BuildValue("dN", value, dscores);
    Py_XDECREF((PyObject *)dscores);
    return NULL;
}

/* (runtimes, normalizers) -> ranks of the quotients */
static PyObject *ratio_ranks(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *runtimes_in, *normalizers_in;
    if (!PyArg_ParseTuple(args, "OO:ratio_ranks", &runtimes_in, &normalizers_in)) return NULL;
    npy_intp length = -1;
    PyArrayObject *y = tg_array(runtimes_in, "runtimes", NPY_INT64, 1, &length, "(n,)");
    if (y == NULL) return NULL;
    PyArrayObject *d = tg_array(normalizers_in, "normalizers", NPY_INT64, 1, &length, "(n,)");
    if (d == NULL) return NULL;
    PyArrayObject *ranks = tg_new_array(NPY_INT64, 1, &length);
    if (ranks == NULL) return NULL;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_ratio_ranks(length, TG_I64(y), TG_I64(d), TG_I64(ranks), &err);
    Py_END_ALLOW_THREADS
    if (status == TG_OK) return (PyObject *)ranks;
    Py_DECREF((PyObject *)ranks);
    return tg_raise(&err, NULL);
}

/* repeats(group (C,), time (C,)) -> None, or noise_median, noise_max, modes or None, (row, size, error) or None */
static PyObject *repeats(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *groups_in, *times_in;
    if (!PyArg_ParseTuple(args, "OO:repeats", &groups_in, &times_in)) return NULL;
    npy_intp length = -1;
    PyArrayObject *group = tg_array(groups_in, "group", NPY_INT64, 1, &length, "(C,)");
    if (group == NULL) return NULL;
    PyArrayObject *time = tg_array(times_in, "time", NPY_FLOAT64, 1, &length, "(C,)");
    PyArrayObject *private = time == NULL ? NULL : tg_private_copy(group);
    if (private == NULL) return NULL;
    tg_repeats found = {0};
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_repeats_of(&found, TG_I64(private), TG_F64(time), length, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(private);
    if (status != TG_OK) return tg_raise(&err, NULL);
    if (found.n == 0) Py_RETURN_NONE;
    PyObject *modes = found.modes > 0 ? PyFloat_FromDouble(found.modes) : Py_NewRef(Py_None);
    PyObject *shift = found.row >= 0 ? Py_BuildValue("Ldd", (long long)found.row, found.size, found.error)
                                     : Py_NewRef(Py_None);
    if (modes != NULL && shift != NULL)
        return Py_BuildValue("ddNN", found.noise_median, found.noise_max, modes, shift);
    Py_XDECREF(modes);
    Py_XDECREF(shift);
    return NULL;
}

/* The common face of the metrics: (scores, runtimes, k) -> float. */
static PyObject *run_metric(PyObject *args, tg_metric metric) {
    PyObject *scores_in, *runtimes_in;
    long long k;
    double value;
    tg_error err;
    if (!PyArg_ParseTuple(args, "OOL", &scores_in, &runtimes_in, &k)) return NULL;
    npy_intp length = -1;
    PyArrayObject *scores = numbers(scores_in, "scores", &length, 0);
    if (scores == NULL) return NULL;
    PyArrayObject *runtimes = numbers(runtimes_in, "runtimes", &length, 1);
    if (runtimes == NULL) return NULL;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = metric(view(scores), view(runtimes), k, &value, &err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) return tg_raise(&err, NULL);
    return PyFloat_FromDouble(value);
}

#define METRIC(name)                                                                                         \
    static PyObject *name(PyObject *self, PyObject *args) {                                                  \
        (void)self;                                                                                          \
        return run_metric(args, tg_##name);                                                                  \
    }
METRIC(kendall_tau)
METRIC(opa)
METRIC(spearman)
METRIC(top_k_slowdown)
METRIC(ndcg)

PyMethodDef tg_rank_methods[] = {
    {"losses", losses_table, METH_NOARGS, PyDoc_STR("The table of losses.")},
    {"losses_need", losses_need, METH_O, PyDoc_STR("What a weighted sum of losses reads besides scores.")},
    {"losses_run", losses_run, METH_VARARGS,
     PyDoc_STR("Value and score gradient of a weighted sum of losses over lists.")},
    {"ratio_ranks", ratio_ranks, METH_VARARGS, PyDoc_STR("Ranks of exact quotients of whole numbers.")},
    {"repeats", repeats, METH_VARARGS,
     PyDoc_STR("repeats(group, time): noise, modes and the largest shift of the times of equal configs")},
    {"kendall_tau", kendall_tau, METH_VARARGS, PyDoc_STR("Kendall's tau-b; the last argument is unused.")},
    {"opa", opa, METH_VARARGS, PyDoc_STR("Ordered pair accuracy; the last argument is unused.")},
    {"spearman", spearman, METH_VARARGS, PyDoc_STR("Spearman's rho; the last argument is unused.")},
    {"top_k_slowdown", top_k_slowdown, METH_VARARGS,
     PyDoc_STR("Best runtime of the top k over the best, minus 1.")},
    {"ndcg", ndcg, METH_VARARGS, PyDoc_STR("nDCG at k with relevance 1/runtime.")},
    {NULL, NULL, 0, NULL},
};
