#include "py/py_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "py/py_graph_type.h"

/* One call of one op over arrays: the op is planned as in a model, its memory is NumPy's. */
typedef struct call {
    const tg_op *op;
    double attr[TG_MAX_ATTRS];
    tg_op_plan plan;
    tg_slate slate;
    tg_exec e;
    PyArrayObject *read[TG_MAX_IN + TG_MAX_PARAMS + 1]; /* arrays given: results must not lie in them */
    int n_read;
    int8_t *digits; /* gathered */
    float *block;   /* statistics, then memory of the call */
} call;

static void call_free(call *c) {
    free(c->digits);
    tg_aligned_free(c->block);
}

static PyArrayObject *take_input(call *c, PyObject *item, int i) {
    const int joined = i == 1 && c->op->joins;
    const int ndim = joined || (PyArray_Check(item) && PyArray_NDIM((PyArrayObject *)item) == 2) ? 2 : 3;
    npy_intp dims[3] = {joined ? 1 : c->slate.N, ndim == 2 ? -1 : c->slate.C, -1};
    PyArrayObject *a = tg_array(item,
                                i == 0   ? "x"
                                : joined ? "row"
                                         : "residual",
                                NPY_FLOAT32, ndim, dims,
                                joined      ? "(1, G)"
                                : ndim == 2 ? "(N, F)"
                                            : "(N, C, F)");
    if (a == NULL) return NULL;
    if (dims[ndim - 1] < 1 || dims[ndim - 1] > 65536) {
        PyErr_Format(PyExc_ValueError, "x: expected 1..65536 columns, got %zd", dims[ndim - 1]);
        return NULL;
    }
    c->plan.in[i] = (tg_shape){joined      ? TG_SPACE_SLATE
                               : ndim == 2 ? TG_SPACE_NODE
                                           : TG_SPACE_NODE_CONFIG,
                               (int)dims[ndim - 1]};
    c->e.x[i] = TG_F32(a);
    c->read[c->n_read++] = a;
    return a;
}

static int take_params(call *c, PyObject *params) {
    if (PyTuple_Size(params) != c->plan.n_params) {
        PyErr_Format(PyExc_ValueError, "%s: expected %d parameters, got %zd", c->op->name, c->plan.n_params,
                     PyTuple_Size(params));
        return -1;
    }
    for (int i = 0; i < c->plan.n_params; i++) {
        const tg_param_spec *p = &c->plan.params[i];
        npy_intp dims[2] = {p->rows, p->cols};
        char shape[48];
        PyOS_snprintf(shape, sizeof shape, p->cols == 0 ? "(%d,)" : "(%d, %d)", p->rows, p->cols);
        PyArrayObject *a =
            tg_array(PyTuple_GetItem(params, i), p->name, NPY_FLOAT32, p->cols == 0 ? 1 : 2, dims, shape);
        if (a == NULL) return -1;
        c->e.w[i] = TG_F32(a);
        c->read[c->n_read++] = a;
    }
    return 0;
}

/* Checked copies of all digits of the graph's first `configs` configs. */
static int take_digits(call *c, const tg_graph *g, int configs) {
    tg_error err;
    tg_status status;
    int64_t *rows = malloc((size_t)configs * sizeof *rows);
    c->digits = malloc((size_t)configs * (size_t)g->K * TG_DIGITS + 1);
    status = rows == NULL || c->digits == NULL
                 ? tg_fail(&err, TG_E_MEMORY, "no memory for %d configs", configs)
                 : TG_OK;
    for (int i = 0; status == TG_OK && i < configs; i++) rows[i] = i;
    if (status == TG_OK) status = tg_gather_configs(&(tg_entry){g, rows, configs}, c->digits, NULL, &err);
    free(rows);
    c->slate.digits = c->digits;
    if (status == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* The slate of a graph and `configs` of its configs or, for ops that do not ask how nodes are connected nor what
   they are, of a number of nodes. */
static int take_slate(call *c, PyObject *object, int configs) {
    const int whole = PyObject_IsInstance(object, (PyObject *)tg_graph_type());
    if (whole < 0) return -1;
    if (whole) {
        const tg_entry entry = {&((tg_py_graph *)object)->graph, NULL, configs};
        c->slate = tg_make_slate(&entry);
        return 0;
    }
    const char *const needy[] = {"embedding", "config_linear", "sage"};
    for (size_t i = 0; i < sizeof needy / sizeof *needy; i++)
        if (strcmp(c->op->name, needy[i]) == 0 || !PyLong_Check(object)) {
            PyErr_Format(PyExc_TypeError, "%s: expected a Graph", c->op->name);
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

/* (op, attrs, inputs, params, graph, configs, key, training, rest[0], rest[1]) -> a call ready but for its
   memory */
static int call_init(call *c, PyObject *args, PyObject **rest) {
    const char *name, *precision = "f32";
    PyObject *attrs, *inputs, *params, *object;
    int configs, training, n_attrs;
    unsigned long long key;
    memset(c, 0, sizeof *c);
    if (!PyArg_ParseTuple(args, "sO!O!O!OiKp|OOs", &name, &PyDict_Type, &attrs, &PyTuple_Type, &inputs,
                          &PyTuple_Type, &params, &object, &configs, &key, &training, &rest[0], &rest[1],
                          &precision))
        return -1;
    if ((c->e.k = tg_kernels_named(precision)) == NULL) return -1;
    tg_attr_value values[TG_MAX_ATTRS];
    tg_error err;
    if (tg_py_attrs(attrs, values, &n_attrs) < 0) return -1;
    c->op = tg_find_op(name);
    const Py_ssize_t n_in = PyTuple_Size(inputs);
    if (c->op == NULL || configs < 1 || n_in < c->op->min_in || n_in > c->op->max_in) {
        PyErr_Format(PyExc_ValueError, "no op '%s' with %zd inputs and %d configs", name, n_in, configs);
        return -1;
    }
    if (take_slate(c, object, configs) < 0) return -1;
    c->plan.attr = c->attr;
    c->plan.inplace_in = -1;
    c->plan.n_in = (int)n_in;
    for (int i = 0; i < n_in; i++)
        if (take_input(c, PyTuple_GetItem(inputs, i), i) == NULL) return -1;
    tg_status status = tg_resolve_attrs(c->op, n_attrs, values, c->attr, &err);
    if (status == TG_OK) status = c->op->plan(&c->plan, &err);
    if (status != TG_OK) {
        tg_raise(&err, NULL);
        return -1;
    }
    if (take_params(c, params) < 0) return -1;
    c->e.op = c->op;
    c->e.whole_nodes = c->plan.whole_nodes;
    c->e.slate = &c->slate;
    c->e.attr = c->attr;
    memcpy(c->e.in, c->plan.in, sizeof c->e.in);
    c->e.out = c->plan.out;
    c->e.training = training;
    c->e.key = key;
    if (c->op->wants_table >= 0) c->e.table_cols = c->plan.params[c->op->wants_table].cols;
    if (c->slate.layout == NULL && strcmp(name, "embedding") == 0 && (int)c->attr[0] == 1) {
        PyErr_SetString(PyExc_ValueError, "embedding: the graph has no layout digits");
        return -1;
    }
    if (strcmp(name, "config_linear") != 0) return 0;
    return take_digits(c, &((tg_py_graph *)object)->graph, configs);
}

/* Memory of the call; statistics of the input are computed where the op wants them. */
static int call_reserve(call *c, int back) {
    tg_exec *e = &c->e;
    const int64_t stats = c->plan.needs_stats ? 2 * (int64_t)tg_per_in(e) * e->in[0].cols : 0;
    if (stats > 0) e->x_stats = e->x[0]; /* any non-NULL pointer: sizes depend on its presence */
    e->threads = tg_max_threads() < TG_MAX_CHUNKS ? tg_max_threads() : TG_MAX_CHUNKS;
    const int64_t floats = (stats + 15) / 16 * 16 + tg_place_call(e, back, NULL);
    if ((c->block = tg_aligned_alloc((size_t)floats * sizeof(float))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (stats > 0) {
        Py_BEGIN_ALLOW_THREADS
        tg_stats_of(e, e->x[0], e->in[0].cols, c->block);
        Py_END_ALLOW_THREADS
        e->x_stats = c->block;
    }
    tg_place_call(e, back, c->block + (stats + 15) / 16 * 16);
    return 0;
}

/* An array of a slot's shape, see tg_out_array. */
static PyArrayObject *result_like(const call *c, tg_shape shape, PyObject *out, const char *name) {
    npy_intp dims[3] = {c->slate.N, c->slate.C, shape.cols};
    const int ndim = shape.space == TG_SPACE_NODE_CONFIG ? 3 : 2;
    if (ndim == 2) {
        dims[0] = tg_rows(&c->slate, shape.space);
        dims[1] = shape.cols;
    }
    return tg_out_array(out, name, NPY_FLOAT32, ndim, dims, c->n_read, c->read);
}

/* (op, attrs, inputs, params, graph, configs, key, training, None, out=None) */
static PyObject *op_forward(PyObject *self, PyObject *args) {
    call c;
    PyObject *rest[2] = {NULL, NULL};
    PyArrayObject *y = NULL;
    (void)self;
    if (call_init(&c, args, rest) == 0 && call_reserve(&c, 0) == 0 &&
        (y = result_like(&c, c.e.out, rest[1], "out")) != NULL) {
        c.e.y = TG_F32(y);
        Py_BEGIN_ALLOW_THREADS
        tg_run(&c.e, 0);
        Py_END_ALLOW_THREADS
    }
    call_free(&c);
    return (PyObject *)y;
}

/* Whether `outs` is None or a tuple of n, else an exception. */
static int check_outs(PyObject *outs, Py_ssize_t n) {
    if (outs == NULL || outs == Py_None || (PyTuple_Check(outs) && PyTuple_Size(outs) == n)) return 1;
    PyErr_Format(PyExc_TypeError, "op_backward: outs must be None or a tuple of %zd arrays or None", n);
    return 0;
}

/* Item i of a checked `outs`, NULL without one. Borrowed. */
static PyObject *given_out(PyObject *outs, Py_ssize_t i) {
    return outs == NULL || outs == Py_None ? NULL : PyTuple_GetItem(outs, i);
}

/* Arrays for all gradients, filled in by backward: ([dx...], [dw...], ddigits or None). `outs`: for each of them,
   in that order, an array or None. */
static PyObject *gradient_arrays(call *c, PyObject *outs, int with_digits) {
    if (!check_outs(outs, c->plan.n_in + c->plan.n_params + with_digits)) return NULL;
    PyObject *dx = PyList_New(c->plan.n_in), *dw = PyList_New(c->plan.n_params), *dd = Py_None;
    int fine = dx != NULL && dw != NULL;
    PyArrayObject *made[TG_MAX_IN + TG_MAX_PARAMS + 1];
    int n = 0;
    for (int i = 0; fine && i < c->plan.n_in; i++) {
        PyArrayObject *a = result_like(c, c->e.in[i], given_out(outs, n), "out");
        if ((fine = a != NULL)) {
            c->e.dx[i] = TG_F32(made[n++] = a);
            PyList_SetItem(dx, i, (PyObject *)a);
        }
    }
    for (int i = 0; fine && i < c->plan.n_params; i++) {
        npy_intp dims[2] = {c->plan.params[i].rows, c->plan.params[i].cols};
        PyArrayObject *a = tg_out_array(given_out(outs, n), c->plan.params[i].name, NPY_FLOAT32,
                                        dims[1] == 0 ? 1 : 2, dims, c->n_read, c->read);
        if ((fine = a != NULL)) {
            c->e.dw[i] = TG_F32(made[n++] = a);
            PyList_SetItem(dw, i, (PyObject *)a);
        }
    }
    Py_INCREF(Py_None);
    if (fine && with_digits) {
        npy_intp dims[4] = {c->slate.C, c->slate.K, TG_DIGITS, TG_DIGIT_ROWS};
        Py_DECREF(Py_None);
        PyArrayObject *a =
            tg_out_array(given_out(outs, n), "digits", NPY_FLOAT32, 4, dims, c->n_read, c->read);
        dd = (PyObject *)a;
        if ((fine = a != NULL)) c->e.ddigits = TG_F32(made[n++] = a);
    }
    for (int i = 0; fine && i < n; i++)
        for (int j = 0; fine && j < i; j++)
            if (tg_overlap(made[i], made[j])) {
                PyErr_SetString(PyExc_ValueError, "out: two of its arrays share memory");
                fine = 0;
            }
    if (fine) return Py_BuildValue("NNN", dx, dw, dd);
    Py_XDECREF(dx);
    Py_XDECREF(dw);
    Py_XDECREF(dd);
    return NULL;
}

/* (..., dy, outs=None) after the arguments of op_forward */
static PyObject *op_backward(PyObject *self, PyObject *args) {
    call c;
    PyObject *rest[2] = {NULL, NULL}, *result = NULL;
    (void)self;
    if (call_init(&c, args, rest) == 0 && call_reserve(&c, 1) == 0) {
        const int three = c.e.out.space == TG_SPACE_NODE_CONFIG;
        npy_intp dims[3] = {three ? c.slate.N : tg_rows(&c.slate, c.e.out.space),
                            three ? c.slate.C : c.e.out.cols, c.e.out.cols};
        PyArrayObject *given = rest[0] == NULL ? NULL
                                               : tg_array(rest[0], "dy", NPY_FLOAT32, three ? 3 : 2, dims,
                                                          three ? "(N, C, F)" : "(rows, F)");
        if (rest[0] == NULL) PyErr_SetString(PyExc_TypeError, "op_backward: dy is missing");
        c.read[c.n_read++] = given;
        if (given != NULL &&
            (result = gradient_arrays(&c, rest[1], strcmp(c.op->name, "config_linear") == 0)) != NULL) {
            c.e.dy = TG_F32(given);
            Py_BEGIN_ALLOW_THREADS
            tg_run(&c.e, 1);
            Py_END_ALLOW_THREADS
        }
    }
    call_free(&c);
    return result;
}

static PyObject *name_list(const char *const *names) {
    PyObject *list = PyList_New(0);
    for (; list != NULL && *names != NULL; names++) {
        PyObject *name = PyUnicode_FromString(*names);
        if (name == NULL || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *op_names(PyObject *self, PyObject *unused) {
    const char *names[64] = {NULL};
    (void)self, (void)unused;
    for (int i = 0; tg_ops[i] != NULL && i < 63; i++) names[i] = tg_ops[i]->name;
    return name_list(names);
}

static PyObject *isa_levels(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return name_list(tg_isa_levels());
}

static PyObject *get_isa(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString(tg_kernel_table()->name);
}

static PyObject *set_isa(PyObject *self, PyObject *arg) {
    Py_ssize_t size;
    const char *name = PyUnicode_AsUTF8AndSize(arg, &size);
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
         "ddigits or None). outs: a tuple with an array to write to, or None, for each of them.")},
    {"op_names", op_names, METH_NOARGS, PyDoc_STR("Names of all ops.")},
    {"isa_levels", isa_levels, METH_NOARGS,
     PyDoc_STR("Instruction sets this machine can run, fastest first.")},
    {"get_isa", get_isa, METH_NOARGS, PyDoc_STR("The instruction set in use.")},
    {"set_isa", set_isa, METH_O, PyDoc_STR("Use one of isa_levels().")},
    {NULL, NULL, 0, NULL},
};
