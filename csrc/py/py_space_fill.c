/* Values of Python as those of a space, and back. */
#include "py/py_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 16 << 20 /* of a list, at most */ };

/* Raise a ConfigError about a parameter. Returns -1. */
static int refuse(const char *name, const char *expected, PyObject *found) {
    tg_error err;
    PyObject *text = found == NULL ? NULL : PyObject_ASCII(found);
    const char *shown = text == NULL ? "it" : PyUnicode_AsUTF8AndSize(text, NULL);
    PyErr_Clear();
    tg_fail(&err, TG_E_CONFIG, "parameter '%.80s': expected %s, found %.120s", name, expected,
            shown == NULL ? "another" : shown);
    tg_error_printable(&err);
    Py_XDECREF(text);
    tg_raise(&err, NULL);
    return -1;
}

/* ---- values of one parameter ---- */

static int take_value(const char *name, PyObject *object, tg_value *value) {
    *value = (tg_value){TG_VALUE_WHOLE, 0, {.whole = 0}};
    if (PyBool_Check(object)) {
        value->kind = TG_VALUE_FLAG;
        value->whole = object == Py_True;
    } else if (PyLong_Check(object)) {
        int beyond;
        value->whole = PyLong_AsLongLongAndOverflow(object, &beyond);
        if (beyond) return refuse(name, "whole numbers of 64 bits", object);
    } else if (PyFloat_Check(object)) {
        value->kind = TG_VALUE_REAL;
        value->real = PyFloat_AsDouble(object);
        if (!isfinite(value->real)) return refuse(name, "finite numbers", object);
    } else if (PyUnicode_Check(object)) {
        Py_ssize_t size;
        value->kind = TG_VALUE_TEXT;
        value->text = tg_utf8(object, &size);
        if (value->text == NULL) return -1;
        if (size > 1 << 20) return refuse(name, "texts of at most a megabyte", NULL);
        value->size = (int32_t)size;
    } else return refuse(name, "numbers, texts, True or False", object);
    return 0;
}

/* Whether the logarithm spreads values better: all are positive, and span a wide range or grow by factors. */
static int wants_log(const tg_axis *param) {
    double low = HUGE_VAL, high = 0;
    int flags = 0;
    for (int32_t i = 0; i < param->n; i++) {
        const double v = tg_value_real(&param->values[i]);
        if (!(v > 0)) return 0;
        low = fmin(low, v), high = fmax(high, v);
        flags += param->values[i].kind == TG_VALUE_FLAG;
    }
    if (flags == param->n) return 0;
    if (high >= 16 * low) return 1;
    int grows = param->n > 2;
    for (int32_t i = 1; grows && i < param->n; i++)
        grows = tg_value_real(&param->values[i]) > 1.5 * tg_value_real(&param->values[i - 1]);
    return grows;
}

static int take_list(tg_axis *param, PyObject *values, PyObject **index) {
    const Py_ssize_t n = PyTuple_Size(values);
    tg_value *to = n < 1 || n > VALUES ? NULL : calloc((size_t)n, sizeof *to);
    if (n < 1 || n > VALUES) return refuse(param->name, "1 to 16,777,216 values", NULL);
    if (to == NULL || (*index = PyDict_New()) == NULL) {
        free(to);
        return PyErr_NoMemory(), -1;
    }
    param->values = to, param->n = (int32_t)n, param->ordered = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyTuple_GetItem(values, i), *code;
        if (take_value(param->name, value, &to[i]) < 0) return -1;
        if (to[i].kind == TG_VALUE_TEXT) param->ordered = 0;
        if (PyDict_GetItemWithError(*index, value) != NULL)
            return refuse(param->name, "every value once (1, 1.0 and True are equal)", value);
        code = PyLong_FromSsize_t(i);
        const int failed = code == NULL || PyDict_SetItem(*index, value, code) < 0;
        Py_XDECREF(code);
        if (failed) return -1;
    }
    param->log = param->ordered && wants_log(param);
    return 0;
}

static int take_range(tg_axis *param, PyObject *range) {
    const Py_ssize_t n = PySequence_Size(range);
    if (n < 1 || n > INT32_MAX) {
        PyErr_Clear();
        return refuse(param->name, "1 to 2,147,483,647 values", range);
    }
    PyObject *ends[3] = {PyObject_GetAttrString(range, "start"), PyObject_GetAttrString(range, "step"),
                         PySequence_GetItem(range, n - 1)};
    int64_t number[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        if (ends[i] != NULL && !PyErr_Occurred()) number[i] = PyLong_AsLongLong(ends[i]);
        Py_XDECREF(ends[i]);
    }
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return refuse(param->name, "whole numbers of 64 bits", range);
    }
    param->kind = TG_AXIS_RANGE, param->n = (int32_t)n, param->ordered = 1;
    param->low = number[0], param->step = number[1];
    const int64_t low = number[1] > 0 ? number[0] : number[2], high = number[1] > 0 ? number[2] : number[0];
    param->log = low > 0 && high / 16 >= low;
    return 0;
}

static int take_order(tg_axis *param, PyObject *elements) {
    const long k = PyLong_AsLong(elements);
    if (k < 2 || k > TG_EXPR_ORDER) {
        PyErr_Clear();
        return refuse(param->name, "a permutation of 2 to 12 elements", elements);
    }
    param->kind = TG_AXIS_ORDER, param->elements = (int32_t)k, param->n = 1;
    for (int32_t i = 2; i <= k; i++) param->n *= i;
    return 0;
}

/* One parameter: (values, scale); *index becomes a new reference. */
static int take_param(tg_axis *param, PyObject *spec, PyObject **values, PyObject **index) {
    PyObject *scale;
    if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "OO:parameter", values, &scale)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "parameters: expected (values, scale)");
        return -1;
    }
    const int failed = PyTuple_Check(*values)                       ? take_list(param, *values, index)
                       : PyObject_TypeCheck(*values, &PyRange_Type) ? take_range(param, *values)
                       : PyLong_Check(*values)
                           ? take_order(param, *values)
                           : refuse(param->name, "a tuple, a range or a whole number", *values);
    if (failed) return -1;
    if (scale != Py_None && !PyUnicode_Check(scale))
        return PyErr_SetString(PyExc_TypeError, "parameters: expected a text or None as scale"), -1;
    if (scale != Py_None && param->ordered) {
        param->log = PyUnicode_CompareWithASCIIString(scale, "log") == 0;
        for (int32_t i = 0; param->log && i < param->n;
             i += param->kind == TG_AXIS_LIST || param->n < 2 ? 1 : param->n - 1) {
            const tg_value v = tg_axis_value(param, i);
            if (!(tg_value_real(&v) > 0))
                return refuse(param->name, "positive numbers on a logarithmic scale", *values);
        }
    }
    if (*index == NULL) *index = Py_NewRef(Py_None);
    return 0;
}

static int take_params(tg_py_space *self, PyObject *parameters) {
    const Py_ssize_t P = PyDict_Size(parameters);
    tg_error err;
    if (P < 1 || P > TG_CSPACE_PARAMS) {
        tg_fail(&err, TG_E_CONFIG, "parameters: expected 1 to %d, found %zd", TG_CSPACE_PARAMS, P);
        return tg_raise(&err, NULL), -1;
    }
    self->names = PyTuple_New(P), self->values = PyTuple_New(P), self->index = PyTuple_New(P);
    tg_axis *params = self->space.params = calloc((size_t)P, sizeof *params);
    if (self->names == NULL || self->values == NULL || self->index == NULL || params == NULL)
        return PyErr_NoMemory(), -1;
    self->space.P = (int32_t)P;
    Py_ssize_t at = 0;
    PyObject *name, *spec;
    for (Py_ssize_t p = 0; PyDict_Next(parameters, &at, &name, &spec); p++) {
        PyObject *values = NULL, *index = NULL;
        Py_ssize_t size = 0;
        const char *text = PyUnicode_Check(name) ? tg_utf8(name, &size) : "";
        if (text == NULL) return -1;
        if (size < 1 || strlen(text) != (size_t)size)
            return refuse("", "a name of one character or more", name);
        params[p].name = text;
        const int failed = take_param(&params[p], spec, &values, &index);
        if (index != NULL) PyTuple_SetItem(self->index, p, index);
        if (failed) return -1;
        PyTuple_SetItem(self->names, p, Py_NewRef(name));
        PyTuple_SetItem(self->values, p, Py_NewRef(values));
    }
    return 0;
}

/* ---- constraints ---- */

/* A function with the numbers of the parameters it takes, or None for the whole config, and its name. */
static int take_function(tg_py_space *self, tg_constraint *to, PyObject *given, Py_ssize_t c) {
    PyObject *function, *takes;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "constraints: expected a text or (function, parameters, name)");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "OOO&:constraint", &function, &takes, tg_take_text, &to->name)) return -1;
    const int whole = takes == Py_None;
    const Py_ssize_t n = whole ? self->space.P : PyTuple_Check(takes) ? PyTuple_Size(takes) : -1;
    if (n < 0 || n > TG_CSPACE_PARAMS) {
        PyErr_SetString(PyExc_TypeError, "constraints: expected a tuple of numbers of parameters");
        return -1;
    }
    int32_t *reads = malloc(((size_t)n + 1) * sizeof *reads);
    if (reads == NULL) return PyErr_NoMemory(), -1;
    to->reads = reads, to->n_reads = (int32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        const long p = whole ? (long)i : PyLong_AsLong(PyTuple_GetItem(takes, i));
        if (p < 0 || p >= self->space.P) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "constraints: no such parameter");
            return -1;
        }
        reads[i] = (int32_t)p;
    }
    self->calls = 1;
    PyTuple_SetItem(self->functions, c, Py_BuildValue("(OO)", function, whole ? Py_True : Py_False));
    return PyErr_Occurred() ? -1 : 0;
}

static int take_constraints(tg_py_space *self, PyObject *constraints) {
    const Py_ssize_t n = PyTuple_Size(constraints);
    tg_error err;
    if (n > TG_CSPACE_CONSTRAINTS) {
        tg_fail(&err, TG_E_CONFIG, "constraints: expected at most %d, found %zd", TG_CSPACE_CONSTRAINTS, n);
        return tg_raise(&err, NULL), -1;
    }
    tg_constraint *given = self->space.given = calloc((size_t)n + 1, sizeof *given);
    self->functions = PyTuple_New(n);
    if (given == NULL || self->functions == NULL) return PyErr_NoMemory(), -1;
    self->space.n_given = (int32_t)n;
    for (Py_ssize_t c = 0; c < n; c++) {
        PyObject *one = PyTuple_GetItem(constraints, c);
        PyTuple_SetItem(self->functions, c, Py_NewRef(Py_None));
        if (PyUnicode_Check(one)) {
            Py_ssize_t size;
            given[c].text = given[c].name = tg_utf8(one, &size);
            if (given[c].text == NULL) return -1;
            given[c].size = (size_t)size;
        } else if (take_function(self, &given[c], one, c) < 0) return -1;
    }
    return 0;
}

/* Call a function with a config; without an exception where arithmetic failed, as in expressions. */
static int call(void *context, int32_t constraint, const int32_t *code) {
    const tg_py_space *self = context;
    const tg_constraint *given = &self->space.given[constraint];
    PyObject *pair = PyTuple_GetItem(self->functions, constraint), *args;
    if (PyTuple_GetItem(pair, 1) == Py_True) args = Py_BuildValue("(N)", tg_py_space_config(self, code));
    else {
        args = PyTuple_New(given->n_reads);
        for (int32_t i = 0; args != NULL && i < given->n_reads; i++)
            PyTuple_SetItem(args, i, tg_py_space_value(self, given->reads[i], code[given->reads[i]]));
    }
    PyObject *result =
        args == NULL || PyErr_Occurred() ? NULL : PyObject_CallObject(PyTuple_GetItem(pair, 0), args);
    Py_XDECREF(args);
    int holds = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    if (holds < 0 && PyErr_ExceptionMatches(PyExc_ArithmeticError)) {
        PyErr_Clear();
        holds = 0;
    }
    return holds;
}

/* ---- tables ---- */

/* Codes of a table: a list of columns, each a sequence of values. */
static int take_table(tg_py_space *self, PyObject *table) {
    const int32_t P = self->space.P;
    if (!PyTuple_Check(table) || PyTuple_Size(table) != P) {
        PyErr_SetString(PyExc_TypeError, "table: expected a tuple of lists, one per parameter");
        return -1;
    }
    Py_ssize_t n = -1;
    int32_t *rows = NULL;
    for (int32_t p = 0; p < P; p++) {
        PyObject *column = PyTuple_GetItem(table, p);
        const Py_ssize_t length = PyList_Check(column) ? PyList_Size(column) : 0;
        if (p == 0) {
            n = length;
            if (n < 1 || (size_t)n > PTRDIFF_MAX / sizeof *rows / (size_t)P)
                return refuse(self->space.params[p].name, "a table of one row or more", NULL);
            self->space.rows = rows = malloc((size_t)n * (size_t)P * sizeof *rows);
            if (rows == NULL) return PyErr_NoMemory(), -1;
        }
        if (length != n) return refuse(self->space.params[p].name, "columns of the same length", NULL);
        for (Py_ssize_t i = 0; i < n; i++) {
            const int found = tg_py_space_code(self, p, PyList_GetItem(column, i), &rows[i * P + p]);
            if (found < 0) return -1;
            if (!found)
                return refuse(self->space.params[p].name, "values of the parameter",
                              PyList_GetItem(column, i));
        }
    }
    /* A row that is there already would be drawn twice as often. */
    tg_rowset set;
    if (!tg_rowset_open(&set, rows, P, n)) return PyErr_NoMemory(), -1;
    int64_t kept = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        memmove(rows + kept * P, rows + i * P, (size_t)P * sizeof *rows);
        kept += tg_rowset_add(&set, kept);
    }
    tg_rowset_free(&set);
    self->space.n_rows = kept;
    return 0;
}

int tg_py_space_fill(tg_py_space *self, PyObject *parameters, PyObject *constraints, PyObject *table,
                     int64_t budget) {
    if (take_params(self, parameters) < 0 || take_constraints(self, constraints) < 0 ||
        (table != Py_None && take_table(self, table) < 0))
        return -1;
    self->space.call = call, self->space.context = self;
    tg_cancel cancel = tg_python_cancel();
    tg_error err;
    PyThreadState *thread = self->calls ? NULL : PyEval_SaveThread();
    const tg_status status = tg_cspace_open(&self->space, budget, &cancel, &err);
    if (thread != NULL) PyEval_RestoreThread(thread);
    return status == TG_OK ? 0 : (tg_raise(&err, NULL), -1);
}

void tg_py_space_release(tg_py_space *self) {
    tg_cspace *space = &self->space;
    tg_cspace_free(space);
    for (int32_t p = 0; p < space->P && space->params != NULL; p++) free((void *)space->params[p].values);
    for (int32_t c = 0; c < space->n_given && space->given != NULL; c++) free((void *)space->given[c].reads);
    free(space->params);
    free(space->given);
    free((void *)space->rows);
    space->params = NULL, space->given = NULL, space->rows = NULL;
}

/* ---- codes and values ---- */

PyObject *tg_py_space_value(const tg_py_space *self, int32_t p, int32_t code) {
    const tg_axis *param = &self->space.params[p];
    if (param->kind == TG_AXIS_LIST)
        return Py_NewRef(PyTuple_GetItem(PyTuple_GetItem(self->values, p), code));
    const tg_value value = tg_axis_value(param, code);
    if (param->kind == TG_AXIS_RANGE) return PyLong_FromLongLong(value.whole);
    PyObject *tuple = PyTuple_New(param->elements);
    for (int32_t i = 0; tuple != NULL && i < param->elements; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLong((long)(value.order >> (4 * i) & 15)));
    return tuple;
}

static int code_in_range(const tg_axis *param, PyObject *value, int32_t *code) {
    int64_t number, away;
    if (PyFloat_Check(value)) {
        const double real = PyFloat_AsDouble(value);
        if (!(fabs(real) < 0x1p62) || real != floor(real)) return 0;
        number = (int64_t)real;
    } else {
        PyObject *whole = PyNumber_Index(value);
        if (whole == NULL) return PyErr_Clear(), 0;
        number = PyLong_AsLongLong(whole);
        Py_DECREF(whole);
        if (number == -1 && PyErr_Occurred()) return PyErr_Clear(), 0;
    }
    if (__builtin_sub_overflow(number, param->low, &away) || away % param->step != 0) return 0;
    away /= param->step;
    if (away < 0 || away >= param->n) return 0;
    *code = (int32_t)away;
    return 1;
}

static int code_of_order(const tg_axis *param, PyObject *value, int32_t *code) {
    uint64_t order = 0, seen = 0;
    if (!PyTuple_Check(value) && !PyList_Check(value)) return 0;
    if (PySequence_Size(value) != param->elements) return 0;
    for (int32_t i = 0; i < param->elements; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        const long element = item == NULL ? -1 : PyLong_AsLong(item);
        Py_XDECREF(item);
        PyErr_Clear();
        if (element < 0 || element >= param->elements || (seen >> element & 1)) return 0;
        seen |= UINT64_C(1) << element;
        order |= (uint64_t)element << (4 * i);
    }
    *code = tg_code_of_order(order, param->elements);
    return 1;
}

int tg_py_space_code(const tg_py_space *self, int32_t p, PyObject *value, int32_t *code) {
    const tg_axis *param = &self->space.params[p];
    if (param->kind == TG_AXIS_RANGE) return code_in_range(param, value, code);
    if (param->kind == TG_AXIS_ORDER) return code_of_order(param, value, code);
    PyObject *found = PyDict_GetItemWithError(PyTuple_GetItem(self->index, p), value);
    if (found == NULL) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
        PyErr_Clear(); /* what cannot be a key is no value */
        return 0;
    }
    *code = (int32_t)PyLong_AsLong(found);
    return 1;
}

PyObject *tg_py_space_config(const tg_py_space *self, const int32_t *row) {
    PyObject *config = PyDict_New();
    for (int32_t p = 0; config != NULL && p < self->space.P; p++) {
        PyObject *value = tg_py_space_value(self, p, row[p]);
        if (value == NULL || PyDict_SetItem(config, PyTuple_GetItem(self->names, p), value) < 0)
            Py_CLEAR(config);
        Py_XDECREF(value);
    }
    return config;
}
