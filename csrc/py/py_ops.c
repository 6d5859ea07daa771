#include "py/py_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/arena.h"
#include "py/py_json.h"
#include "py/py_model_graph.h"

/* One call of one op over arrays: the op is planned as in a model, its memory is NumPy's. */
typedef struct call {
    const tg_op *op;
    _Alignas(16) char attrs[TG_ATTR_BYTES];
    tg_op_plan plan;
    tg_slate slate;
    tg_exec e;
    PyArrayObject *read[TG_MAX_IN + TG_MAX_PARAMS + 1]; /* arrays given: results must not lie in them */
    int n_read;
    void *cells;  /* digits and numbers of unique cells, gathered */
    float *kept;  /* statistics of the input, saved slots, the output where backward reads it */
    float *block; /* memory of the call */
} call;

static void call_free(call *c) {
    free(c->cells);
    tg_aligned_free(c->kept);
    tg_aligned_free(c->block);
}

/* Dimensions of an array in a space; returns their number. `cols` may be -1. */
static int space_dims(const tg_slate *slate, tg_space space, npy_intp cols, npy_intp dims[3]) {
    const int three = tg_py_rows_dims(space) == 3;
    dims[0] = (npy_intp)tg_items(slate, space);
    dims[1] = three ? slate->C : cols;
    dims[2] = cols;
    return three ? 3 : 2;
}

/* The first space of the mask that has the array's number of dimensions, best one with its rows. A single row is the
   graph's rather than that of its one config. */
static tg_space guess_space(const call *c, PyObject *item, unsigned spaces) {
    const int ndim = PyArray_Check(item) ? PyArray_NDIM((PyArrayObject *)item) : 0;
    int first = -1;
    for (int s = 0; s < TG_SPACES; s++) {
        npy_intp dims[3];
        if (!(spaces >> s & 1u)) continue;
        if (s == TG_SPACE_CONFIG && c->slate.C == 1 && (spaces & TG_IN(SLATE))) continue;
        if (first < 0 || (space_dims(&c->slate, (tg_space)first, -1, dims) != ndim &&
                          space_dims(&c->slate, (tg_space)s, -1, dims) == ndim))
            first = s;
        if (space_dims(&c->slate, (tg_space)s, -1, dims) != ndim) continue;
        const npy_intp *given = PyArray_DIMS((PyArrayObject *)item);
        if (given[0] == dims[0] && (ndim == 2 || given[1] == dims[1])) return (tg_space)s;
    }
    return (tg_space)first;
}

static PyArrayObject *take_input(call *c, PyObject *item, int i) {
    const tg_in_spec *spec = &c->op->inputs[i];
    const tg_space space = guess_space(c, item, spec->spaces);
    npy_intp dims[3];
    const int ndim = space_dims(&c->slate, space, -1, dims);
    PyArrayObject *a = tg_array(item, spec->name, NPY_FLOAT32, ndim, dims, tg_py_rows_shape(space));
    if (a == NULL) return NULL;
    if (dims[ndim - 1] < 1 || dims[ndim - 1] > 65536) {
        tg_error err;
        tg_fail(&err, TG_E_SHAPE, "%s: expected 1..65536 columns, got %lld", spec->name,
                (long long)dims[ndim - 1]);
        return (PyArrayObject *)tg_raise(&err, NULL);
    }
    c->plan.in[i] = (tg_shape){space, (int)dims[ndim - 1]};
    c->e.x[i] = TG_F32(a);
    c->read[c->n_read++] = a;
    return a;
}

static int count_params(const tg_op_plan *plan) {
    int n = 0;
    for (int i = 0; i < TG_MAX_PARAMS; i++) n += plan->params[i].name != NULL;
    return n;
}

/* "linear: expected the parameters ['weight', 'bias'], got 3; slope goes with act=prelu, and nothing else" */
static int refuse_params(const call *c, Py_ssize_t given) {
    char hint[3 * TG_MAX_NAME] = "";
    PyObject *names = PyList_New(0);
    for (int i = 0; names != NULL && i < TG_MAX_PARAMS; i++)
        if (c->plan.params[i].name != NULL) tg_append(&names, PyUnicode_FromString(c->plan.params[i].name));
    for (int i = 0; i < tg_attrs_count(c->op->attrs, TG_MAX_ATTRS); i++) {
        const tg_attr *attr = &c->op->attrs[i];
        if (attr->param != NULL)
            PyOS_snprintf(hint, sizeof hint, "; %s goes with %s=%s, and nothing else", attr->param,
                          attr->name, attr->choice);
    }
    if (names != NULL)
        PyErr_Format(PyExc_ValueError, "%s: expected the parameters %R, got %zd%s", c->op->name, names, given,
                     hint);
    Py_XDECREF(names);
    return -1;
}

static int take_params(call *c, PyObject *params) {
    const int n = count_params(&c->plan);
    if (PyTuple_Size(params) != n) return refuse_params(c, PyTuple_Size(params));
    for (int i = 0, at = 0; i < TG_MAX_PARAMS; i++) {
        const tg_param_spec *p = &c->plan.params[i];
        if (p->name == NULL) continue;
        npy_intp dims[2] = {p->rows, p->cols};
        char shape[48];
        PyOS_snprintf(shape, sizeof shape, p->cols == 0 ? "(%d,)" : "(%d, %d)", p->rows, p->cols);
        PyArrayObject *a =
            tg_array(PyTuple_GetItem(params, at++), p->name, NPY_FLOAT32, p->cols == 0 ? 1 : 2, dims, shape);
        if (a == NULL) return -1;
        c->e.w[i] = TG_F32(a);
        c->read[c->n_read++] = a;
    }
    return 0;
}

/* Checked copies of all digits of the graph's first `configs` configs, and which cells are equal. */
static int take_cells(call *c, const tg_graph *g, int configs) {
    tg_error err;
    const size_t cells = (size_t)configs * (size_t)g->K, bytes = tg_align(cells * (size_t)g->D + 1);
    int64_t *rows = malloc((size_t)configs * sizeof *rows);
    c->cells = malloc(bytes + 2 * cells * sizeof(int32_t));
    tg_status status = rows == NULL || c->cells == NULL
                           ? tg_fail(&err, TG_E_MEMORY, "no memory for %d configs", configs)
                           : TG_OK;
    const tg_entry entry = {g, rows, configs};
    int8_t *digits = c->cells;
    for (int i = 0; status == TG_OK && i < configs; i++) rows[i] = i;
    if (status == TG_OK) status = tg_gather_configs(&entry, digits, NULL, &err);
    if (status == TG_OK && (c->op->flags & TG_NEEDS_UNIQUE)) {
        int32_t *unique = (int32_t *)((char *)c->cells + bytes);
        c->slate.U = tg_unique_cells(&entry, digits, TG_ALIKE_CELLS, unique, unique + cells);
        c->slate.unique_of = unique;
        c->slate.unique_at = unique + cells;
        if (c->slate.U < 0) status = tg_fail(&err, TG_E_MEMORY, "no memory for %d configs", configs);
    }
    free(rows);
    c->slate.digits = digits;
    if (status == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* The slate of a graph and `configs` of its configs or, for ops that do not ask how nodes are connected nor what
   they are, of a number of nodes. */
static int take_slate(call *c, const tg_state *state, PyObject *object, int configs) {
    const unsigned needy = TG_NEEDS_EDGES | TG_NEEDS_DIGITS | TG_NEEDS_OPCODE | TG_NEEDS_LAYOUT |
                           TG_NEEDS_UNIQUE | TG_NEEDS_CONFIG_NODES;
    if (PyObject_TypeCheck(object, state->model_graph)) {
        const tg_graph *graph = &((tg_py_model_graph *)object)->graph;
        const tg_entry entry = {graph, NULL, configs};
        c->slate = tg_make_slate(&entry);
        if ((c->op->flags & (TG_NEEDS_DIGITS | TG_NEEDS_UNIQUE)) == 0) return 0;
        return take_cells(c, graph, configs);
    }
    if ((c->op->flags & needy) != 0 || !PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a ModelGraph", c->op->name);
        return -1;
    }
    const long nodes = PyLong_AsLong(object);
    if (nodes == -1 && PyErr_Occurred()) return -1;
    if (nodes < 1 || nodes > INT32_MAX / 2) {
        PyErr_Format(PyExc_ValueError, "%s: expected 1..%d nodes, got %ld", c->op->name, INT32_MAX / 2,
                     nodes);
        return -1;
    }
    c->slate = (tg_slate){.N = (int32_t)nodes, .C = configs};
    return 0;
}

static int plan_call(call *c, PyObject *attrs, PyObject *inputs) {
    tg_json_tree tree;
    tg_error err;
    c->plan.attrs = c->attrs;
    c->plan.n_in = (int)PyTuple_Size(inputs);
    c->plan.digit_cols = c->slate.digit_cols;
    c->plan.digit_rows = c->slate.digit_rows;
    for (int i = 0; i < c->plan.n_in; i++)
        if (take_input(c, PyTuple_GetItem(inputs, i), i) == NULL) return -1;
    tg_status status = tg_py_json(attrs, c->op->name, TG_E_RECIPE, &tree) < 0
                           ? TG_E_CANCELLED
                           : tg_op_attrs(c->op, tree.root, c->op->name, c->attrs, &err);
    tg_json_free(&tree);
    if (status == TG_E_CANCELLED) return -1;
    if (status == TG_OK) status = tg_plan_op(c->op, &c->plan, &err);
    if (status == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* (op, attrs, inputs, params, graph, configs, key, training, rest[0], rest[1]) -> a call ready but for its
   memory */
static int call_init(call *c, const tg_state *state, PyObject *args, PyObject **rest) {
    const char *name;
    PyObject *attrs, *inputs, *params, *object;
    int configs, training;
    unsigned long long key;
    memset(c, 0, sizeof *c);
    c->e.k = tg_kernel_table();
    if (!PyArg_ParseTuple(args, "sO!O!O!OiKp|OOO&", &name, &PyDict_Type, &attrs, &PyTuple_Type, &inputs,
                          &PyTuple_Type, &params, &object, &configs, &key, &training, &rest[0], &rest[1],
                          tg_take_kernels, &c->e.k))
        return -1;
    c->op = tg_find_op(name);
    const Py_ssize_t n_in = PyTuple_Size(inputs);
    if (c->op == NULL || configs < 1 || n_in < tg_op_least_in(c->op) || n_in > tg_op_most_in(c->op)) {
        PyErr_Format(PyExc_ValueError, "no op '%s' with %zd input%s and %d config%s", name, n_in, TG_S(n_in),
                     configs, TG_S(configs));
        return -1;
    }
    if (take_slate(c, state, object, configs) < 0 || plan_call(c, attrs, inputs) < 0 ||
        take_params(c, params) < 0)
        return -1;
    c->e.op = c->op;
    c->e.whole_nodes = c->plan.whole_nodes;
    c->e.slate = &c->slate;
    c->e.attrs = c->attrs;
    c->e.n_in = c->plan.n_in;
    memcpy(c->e.in, c->plan.in, sizeof c->e.in);
    memcpy(c->e.params, c->plan.params, sizeof c->e.params);
    c->e.out = c->plan.out;
    c->e.training = training;
    c->e.key = key;
    c->e.batch_key = ~key;
    const int no_opcode = (c->plan.flags & TG_NEEDS_OPCODE) && c->slate.opcode == NULL;
    if (no_opcode || ((c->plan.flags & TG_NEEDS_LAYOUT) && c->slate.layout == NULL)) {
        PyErr_Format(PyExc_ValueError, "%s: the graph has no %s", name,
                     no_opcode ? "node_opcode" : "layout_digits");
        return -1;
    }
    return 0;
}

/* ---- memory ---- */

static int64_t slot_floats(const call *c, tg_shape shape) {
    return shape.cols == 0 ? 0 : (tg_rows(&c->slate, shape.space) * shape.cols + 15) / 16 * 16;
}

/* Makes memory for one pass and runs it: 0, or -1 with an exception. */
static int run(call *c, int back) {
    tg_aligned_free(c->block);
    const int64_t floats = tg_place_call(&c->e, back, NULL);
    if ((c->block = tg_aligned_alloc((size_t)floats * sizeof(float))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    tg_place_call(&c->e, back, c->block);
    Py_BEGIN_ALLOW_THREADS
    tg_run(&c->e, back);
    Py_END_ALLOW_THREADS
    return 0;
}

/* Memory of the call; statistics of the input are computed where the op wants them, and for backward what its forward
   saves. */
static int call_reserve(call *c, int back) {
    tg_exec *e = &c->e;
    int64_t sizes[TG_MAX_SAVED], floats = c->plan.needs_stats ? 2 * (int64_t)tg_per_in(e) * e->in[0].cols : 0;
    floats = (floats + 15) / 16 * 16;
    const int64_t stats = floats, whole = back && c->plan.needs_out ? slot_floats(c, e->out) : 0;
    int saves = 0;
    for (int i = 0; i < TG_MAX_SAVED; i++) {
        floats += sizes[i] = slot_floats(c, c->plan.saved[i]);
        saves |= sizes[i] > 0;
    }
    const int forward = back && (saves || whole > 0);
    const int64_t output = forward ? slot_floats(c, e->out) : 0;
    e->threads = tg_max_threads() < TG_MAX_CHUNKS ? tg_max_threads() : TG_MAX_CHUNKS;
    if ((c->kept = tg_aligned_alloc((size_t)(floats + output) * sizeof(float))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    float *at = c->kept + stats;
    for (int i = 0; i < TG_MAX_SAVED; at += sizes[i++]) e->saved[i] = sizes[i] > 0 ? at : NULL;
    if (stats > 0) {
        Py_BEGIN_ALLOW_THREADS
        tg_stats_of(e, e->x[0], e->in[0].cols, c->kept);
        Py_END_ALLOW_THREADS
        e->x_stats = c->kept;
    }
    if (forward) {
        e->y = at;
        if (run(c, 0) < 0) return -1;
    }
    return 0;
}

/* An array of a slot's shape, see tg_out_array. */
static PyArrayObject *result_like(const call *c, tg_shape shape, PyObject *out, const char *name) {
    npy_intp dims[3];
    const int ndim = space_dims(&c->slate, shape.space, shape.cols, dims);
    return tg_out_array(out, name, NPY_FLOAT32, ndim, dims, c->n_read, c->read);
}

/* (op, attrs, inputs, params, graph, configs, key, training, None, out=None) */
static PyObject *op_forward(PyObject *self, PyObject *args) {
    call c;
    PyObject *rest[2] = {NULL, NULL};
    PyArrayObject *y = NULL;
    if (call_init(&c, PyModule_GetState(self), args, rest) == 0 && call_reserve(&c, 0) == 0 &&
        (y = result_like(&c, c.e.out, rest[1], "out")) != NULL) {
        c.e.y = TG_F32(y);
        if (run(&c, 0) < 0) Py_CLEAR(y);
    }
    call_free(&c);
    return (PyObject *)y;
}

/* Whether `outs` is None or a tuple of n, else an exception. */
static int check_outs(PyObject *outs, Py_ssize_t n) {
    if (outs == NULL || outs == Py_None || (PyTuple_Check(outs) && PyTuple_Size(outs) == n)) return 1;
    PyErr_Format(PyExc_TypeError, "op_backward: outs must be None or a tuple of %zd array%s, None or False",
                 n, TG_S(n));
    return 0;
}

/* Gradients that are made one after the other; `outs`: for each an array, None, or False if nobody wants it. */
typedef struct gradients {
    PyObject *outs;
    PyArrayObject *made[TG_MAX_IN + TG_MAX_PARAMS + 1];
    int n_made, n;
} gradients;

static PyObject *out_given(const gradients *g, int i) {
    return g->outs == NULL || g->outs == Py_None ? NULL : PyTuple_GetItem(g->outs, i);
}

/* The next of them: 0, or -1 with an exception. `list` takes it, `*place` is where it is written to; both have none of
   one that may be left out and that nobody wants. */
static int next_gradient(const call *c, gradients *g, const char *name, int ndim, const npy_intp *dims,
                         PyObject *list, int at, int needed, float **place) {
    PyObject *given = out_given(g, g->n++);
    *place = NULL;
    if (given == Py_False) {
        if (!needed) return PyList_SetItem(list, at, Py_NewRef(Py_None));
        given = NULL;
    }
    PyArrayObject *a = tg_out_array(given, name, NPY_FLOAT32, ndim, dims, c->n_read, c->read);
    if (a == NULL) return -1;
    for (int i = 0; i < g->n_made; i++)
        if (tg_overlap(g->made[i], a)) {
            PyErr_SetString(PyExc_ValueError, "out: two of its arrays share memory");
            Py_DECREF(a);
            return -1;
        }
    g->made[g->n_made++] = a;
    *place = TG_F32(a);
    return PyList_SetItem(list, at, (PyObject *)a);
}

static int input_gradients(call *c, gradients *g, PyObject *list) {
    for (int i = 0; i < c->plan.n_in; i++) {
        npy_intp dims[3];
        const int ndim = space_dims(&c->slate, c->e.in[i].space, c->e.in[i].cols, dims);
        if (next_gradient(c, g, "out", ndim, dims, list, i, 0, &c->e.dx[i]) < 0) return -1;
    }
    return 0;
}

/* All or none, as in models: some ops make them together. */
static int param_gradients(call *c, gradients *g, PyObject *list) {
    int needed = 0;
    for (int i = 0; i < count_params(&c->plan); i++) needed |= out_given(g, g->n + i) != Py_False;
    for (int i = 0, at = 0; i < TG_MAX_PARAMS; i++) {
        const tg_param_spec *p = &c->plan.params[i];
        npy_intp dims[2] = {p->rows, p->cols};
        if (p->name == NULL) continue;
        if (next_gradient(c, g, p->name, p->cols == 0 ? 1 : 2, dims, list, at++, needed, &c->e.dw[i]) < 0)
            return -1;
    }
    return 0;
}

/* Arrays for all gradients, filled in by backward: ([dx...], [dw...], ddigits or None). `outs`: for each of them,
   in that order, an array, None, or False for one that nobody wants: None stands in its place, unless others of the
   parameters are wanted. */
static PyObject *gradient_arrays(call *c, PyObject *outs) {
    const int digits = (c->plan.flags & TG_NEEDS_DIGITS) != 0, params = count_params(&c->plan);
    if (!check_outs(outs, c->plan.n_in + params + digits)) return NULL;
    gradients g = {.outs = outs};
    PyObject *dx = PyList_New(c->plan.n_in), *dw = PyList_New(params), *dd = PyList_New(1), *result = NULL;
    int fine = dx != NULL && dw != NULL && dd != NULL && input_gradients(c, &g, dx) == 0 &&
               param_gradients(c, &g, dw) == 0;
    if (fine && digits) {
        npy_intp dims[4] = {c->slate.C, c->slate.K, c->slate.digit_cols, c->slate.digit_rows};
        fine = next_gradient(c, &g, "digits", 4, dims, dd, 0, 0, &c->e.ddigits) == 0;
    }
    if (fine) result = Py_BuildValue("OOO", dx, dw, digits ? PyList_GetItem(dd, 0) : Py_None);
    Py_XDECREF(dx);
    Py_XDECREF(dw);
    Py_XDECREF(dd);
    return result;
}

/* (..., dy, outs=None) after the arguments of op_forward */
static PyObject *op_backward(PyObject *self, PyObject *args) {
    call c;
    PyObject *rest[2] = {NULL, NULL}, *result = NULL;
    if (call_init(&c, PyModule_GetState(self), args, rest) == 0 && rest[0] == NULL)
        PyErr_SetString(PyExc_TypeError, "op_backward: dy is missing");
    if (!PyErr_Occurred() && call_reserve(&c, 1) == 0) {
        npy_intp dims[3];
        const int ndim = space_dims(&c.slate, c.e.out.space, c.e.out.cols, dims);
        char shape[80];
        PyOS_snprintf(shape, sizeof shape, ndim == 3 ? "(%lld, %lld, %lld)" : "(%lld, %lld)",
                      (long long)dims[0], (long long)dims[1], ndim == 3 ? (long long)dims[2] : 0);
        PyArrayObject *given = tg_array(rest[0], "dy", NPY_FLOAT32, ndim, dims, shape);
        c.read[c.n_read++] = given;
        if (given != NULL && (result = gradient_arrays(&c, rest[1])) != NULL) {
            c.e.dy = TG_F32(given);
            if (run(&c, 1) < 0) Py_CLEAR(result);
        }
    }
    call_free(&c);
    return result;
}

static PyObject *name_list(const char *const *names) {
    PyObject *list = PyList_New(0);
    for (; list != NULL && *names != NULL; names++) tg_append(&list, PyUnicode_FromString(*names));
    return list;
}

static PyObject *isa_levels(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return name_list(tg_isa_levels());
}

/* Whether `word` is among words with spaces between them. */
static int has_word(const char *words, const char *word) {
    const size_t size = strlen(word);
    while (*words != 0) {
        const size_t length = strcspn(words, " ");
        if (length == size && memcmp(words, word, size) == 0) return 1;
        words += length + (words[length] == ' ');
    }
    return 0;
}

static PyObject *isa_levels_of(PyObject *self, PyObject *args) {
    const char *vendor, *features, *names[TG_MOST_LEVELS + 1];
    (void)self;
    if (!PyArg_ParseTuple(args, "ss", &vendor, &features)) return NULL;
    const tg_cpu cpu = {.amd = strcmp(vendor, "AuthenticAMD") == 0,
#define TG_HAS(feature) .feature = has_word(features, #feature),
                        TG_CPU_LIST(TG_HAS)
#undef TG_HAS
    };
    tg_isa_levels_of(&cpu, names);
    return name_list(names);
}

static PyObject *get_isa(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString(tg_kernel_table()->name);
}

static PyObject *set_isa(PyObject *self, PyObject *arg) {
    Py_ssize_t size;
    const char *name = tg_utf8(arg, &size);
    (void)self;
    if (name == NULL) return NULL;
    if (tg_set_isa(name)) Py_RETURN_NONE;
    return PyErr_Format(PyExc_ValueError, "set_isa: '%s' is not among isa_levels() of this machine", name);
}

PyMethodDef tg_model_methods[] = {
    {"op_forward", op_forward, METH_VARARGS,
     PyDoc_STR(
         "(op, attrs, inputs, params, graph or number of nodes, configs, key, training, None, out=None) -> "
         "output of one op.")},
    {"op_backward", op_backward, METH_VARARGS,
     PyDoc_STR(
         "(op, attrs, inputs, params, graph, configs, key, training, dy, outs=None) -> (dx list, dw list, "
         "ddigits or None). outs: a tuple with an array to write to, or None, for each of them; False: it is "
         "not wanted, and may be None.")},
    {"require", (PyCFunction)(void (*)(void))tg_py_require, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("(array, name, shape, ..., dtype=float32): ShapeError unless it is C-contiguous, of the dtype "
               "and of "
               "one of the shapes. Letters stand for any size, \"...\" for any dimensions in front.")},
    {"op_arguments", tg_py_op_arguments, METH_VARARGS,
     PyDoc_STR(
         "(op, {name: array, attribute, num_nodes, digit_rows, key or training}) -> (what op_forward takes "
         "first, names of the gradients).")},
    {"row_shapes", tg_py_row_shapes, METH_NOARGS, PyDoc_STR("Shapes of the arrays of all rows, by name.")},
    {"ops", tg_py_ops, METH_NOARGS,
     PyDoc_STR("What every op says about itself: name, doc, inputs, params, attrs, flags.")},
    {"isa_levels", isa_levels, METH_NOARGS,
     PyDoc_STR("Instruction sets this machine can run, fastest first.")},
    {"isa_levels_of", isa_levels_of, METH_VARARGS,
     PyDoc_STR(
         "(vendor, features) -> those of another processor: its vendor as in /proc/cpuinfo, its features "
         "as gcc names them, spaces between.")},
    {"get_isa", get_isa, METH_NOARGS, PyDoc_STR("The instruction set in use.")},
    {"set_isa", set_isa, METH_O, PyDoc_STR("Use one of isa_levels().")},
    {NULL, NULL, 0, NULL},
};
