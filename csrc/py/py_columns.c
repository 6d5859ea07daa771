#include "py/py_columns.h"

#include <stdio.h>
#include <stdlib.h>

#include "py/py_arrays.h"

static int kind_of(PyObject *column, tg_column_kind *kind) {
    PyObject *text = PyObject_GetAttrString(column, "kind");
    int found = 0;
    if (text == NULL) return -1;
    while (found < TG_KINDS &&
           !(PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, tg_kind_names[found]) == 0))
        found++;
    if (found == TG_KINDS) PyErr_Format(PyExc_ValueError, "expected a known kind of columns, got %R", text);
    Py_DECREF(text);
    *kind = (tg_column_kind)found;
    return found < TG_KINDS ? 0 : -1;
}

static int rule_of(PyObject *column, tg_rule *rule) {
    if (kind_of(column, &rule->kind) < 0) return -1;
    rule->values = 0;
    if (rule->kind != TG_KIND_CATEGORY) return 0;
    PyObject *values = PyObject_GetAttrString(column, "values");
    const Py_ssize_t n = values == NULL ? -1 : PyObject_Size(values);
    Py_XDECREF(values);
    if (n > INT32_MAX) PyErr_SetString(PyExc_OverflowError, "a category of more than 2^31 - 1 values");
    if (PyErr_Occurred()) return -1;
    rule->values = (int)n;
    return 0;
}

tg_rule *tg_rules_of(PyObject *columns) {
    const Py_ssize_t n = PyTuple_Size(columns);
    if (n < 0) return NULL;
    tg_rule *rules = calloc((size_t)n + 1, sizeof *rules);
    if (rules == NULL) return (tg_rule *)PyErr_NoMemory();
    for (Py_ssize_t c = 0; c < n; c++)
        if (rule_of(PyTuple_GetItem(columns, c), &rules[c]) < 0) {
            free(rules);
            return NULL;
        }
    return rules;
}

/* "0.5 in row 3", as Python writes the number: a new reference. */
static PyObject *found_text(double x, int64_t row, PyObject *place) {
    PyObject *number = PyFloat_FromDouble(x), *format = PyUnicode_FromString("g");
    PyObject *value = number == NULL || format == NULL ? NULL : PyObject_Format(number, format);
    PyObject *at = value == NULL   ? NULL
                   : place == NULL ? PyUnicode_FromFormat("row %lld", (long long)row)
                                   : PyObject_CallFunction(place, "L", (long long)row);
    PyObject *text = at == NULL ? NULL : PyUnicode_FromFormat("%U in %S", value, at);
    Py_XDECREF(number);
    Py_XDECREF(format);
    Py_XDECREF(value);
    Py_XDECREF(at);
    return text;
}

static void refuse(PyObject *column, tg_rule rule, double x, PyObject *where, PyObject *found) {
    char expected[96];
    const char *text = tg_rule_expects(rule, x);
    if (rule.kind == TG_KIND_CATEGORY)
        snprintf(expected, sizeof expected, "%s, 0..%d", text, rule.values - 1);
    else snprintf(expected, sizeof expected, "%s", text);
    PyObject *module = PyImport_ImportModule("tpugraphs.data.arrays");
    PyObject *name = module == NULL ? NULL : PyObject_GetAttrString(column, "name");
    PyObject *error = name == NULL ? NULL
                                   : PyObject_CallMethod(module, "fail", "OsOsO", name, expected, found,
                                                         tg_check_writer, where);
    if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(name);
    Py_XDECREF(module);
}

int tg_check_table(PyObject *columns, const tg_rule *rules, PyArrayObject *table, PyObject *where,
                   PyObject *place) {
    const int64_t F = PyTuple_Size(columns), rows = F == 0 ? 0 : PyArray_SIZE(table) / F;
    const int wide = PyArray_TYPE(table) == NPY_FLOAT64;
    const void *x = PyArray_DATA(table);
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS;
    bad = wide ? tg_rules_misfit_f64(rules, F, x, rows) : tg_rules_misfit(rules, F, x, rows);
    Py_END_ALLOW_THREADS;
    if (bad < 0) return 0;
    const double value = wide ? TG_F64(table)[bad] : (double)TG_F32(table)[bad];
    PyObject *found = found_text(value, bad / F, place);
    if (found != NULL)
        refuse(PyTuple_GetItem(columns, (Py_ssize_t)(bad % F)), rules[bad % F], value, where, found);
    Py_XDECREF(found);
    return -1;
}

/* check_columns(where, columns, table (n, F), place=None) */
static PyObject *check_columns(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *where, *columns, *object, *place = Py_None;
    if (!PyArg_ParseTuple(args, "UO!O|O:check_columns", &where, &PyTuple_Type, &columns, &object, &place))
        return NULL;
    const int wide = PyArray_Check(object) && PyArray_TYPE((PyArrayObject *)object) == NPY_FLOAT64;
    npy_intp dims[2] = {-1, PyTuple_Size(columns)};
    PyArrayObject *table = tg_array(object, "array", wide ? NPY_FLOAT64 : NPY_FLOAT32, 2, dims, "(n, F)");
    tg_rule *rules = table == NULL ? NULL : tg_rules_of(columns);
    if (rules == NULL) return NULL;
    const int status = tg_check_table(columns, rules, table, where, place == Py_None ? NULL : place);
    free(rules);
    if (status < 0) return NULL;
    Py_RETURN_NONE;
}

PyMethodDef tg_column_methods[] = {
    {"check_columns", check_columns, METH_VARARGS,
     PyDoc_STR(
         "check_columns(where, columns, table (n, F), place=None): raise a DataError for the first value "
         "that its column of a schema does not allow.")},
    {NULL, NULL, 0, NULL},
};
