#include "py/py_program.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

/* Raise a ConfigError: "preprocessing: step 'prune': method: expected one of none, k-hop, found 3". */
static int wrong(const char *step, const char *what, const char *expected, PyObject *found) {
    if (PyErr_Occurred()) return -1;
    PyObject *text = found == NULL ? PyUnicode_FromString("nothing") : PyObject_Repr(found);
    PyObject *bytes = text == NULL ? NULL : PyUnicode_AsUTF8String(text);
    if (bytes != NULL) {
        tg_error err;
        tg_fail(&err, TG_E_CONFIG, "preprocessing: step '%.48s': %.60s: expected %.300s, found %.120s", step,
                what, expected, PyBytes_AsString(bytes));
        tg_raise(&err, NULL);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return -1;
}

/* A copy of a Python string as UTF-8, freed with free; NULL with an exception. */
static char *copy_text(PyObject *text) {
    const char *from = tg_utf8(text, NULL);
    if (from == NULL) return NULL;
    char *copy = malloc(strlen(from) + 1);
    if (copy != NULL) strcpy(copy, from);
    else PyErr_NoMemory();
    return copy;
}

/* ---- columns of a schema ---- */

/* A list or tuple as a tuple that no code run meanwhile can change (a new reference); else NULL, maybe with an
   exception. */
static PyObject *list_items(PyObject *list) {
    if (list == NULL || (!PyList_Check(list) && !PyTuple_Check(list))) return NULL;
    return PySequence_Tuple(list);
}

static int take_values(tg_column *column, const char *step, PyObject *values) {
    PyObject *items = list_items(values);
    const Py_ssize_t n = items == NULL ? 0 : PyTuple_Size(items);
    if (n < 1 || n > TG_MAX_COLUMNS) {
        Py_XDECREF(items);
        return wrong(step, column->name, "a list of 1..65536 values of a category", values);
    }
    if ((column->values = calloc((size_t)n, sizeof *column->values)) == NULL) PyErr_NoMemory();
    while (column->values != NULL && column->n_values < n) {
        PyObject *text = PyObject_Str(PyTuple_GetItem(items, column->n_values));
        char *copy = text == NULL ? NULL : copy_text(text);
        Py_XDECREF(text);
        if (copy == NULL) break;
        column->values[column->n_values++] = copy;
    }
    Py_DECREF(items);
    return column->n_values == n ? 0 : -1;
}

/* One column from {"name": ..., "kind": ..., "values": [...]}. */
static int take_column(tg_column *column, const char *step, const char *attr, PyObject *item) {
    static const char expected[] = "columns {'name': text, 'kind': one of number, log, category, flag, ...}";
    PyObject *name = PyDict_Check(item) ? PyDict_GetItemString(item, "name") : NULL;
    PyObject *kind = PyDict_Check(item) ? PyDict_GetItemString(item, "kind") : NULL;
    if (name == NULL || !PyUnicode_Check(name) || kind == NULL || !PyUnicode_Check(kind))
        return wrong(step, attr, expected, item);
    if ((column->name = copy_text(name)) == NULL) return -1;
    int found = 0;
    while (found < TG_KINDS && PyUnicode_CompareWithASCIIString(kind, tg_kind_names[found]) != 0) found++;
    if (found == TG_KINDS) return wrong(step, column->name, expected, kind);
    column->kind = (tg_column_kind)found;
    return found == TG_KIND_CATEGORY ? take_values(column, step, PyDict_GetItemString(item, "values")) : 0;
}

static int take_columns(tg_columns *columns, const char *step, const char *attr, PyObject *list) {
    PyObject *items = list_items(list);
    const Py_ssize_t n = items == NULL ? -1 : PyTuple_Size(items);
    if (n < 0 || n > TG_MAX_COLUMNS) {
        Py_XDECREF(items);
        return wrong(step, attr, "a list of at most 65536 columns", list);
    }
    int status = 0;
    if ((columns->column = calloc((size_t)n + 1, sizeof *columns->column)) == NULL) {
        PyErr_NoMemory();
        status = -1;
    } else columns->n = (int)n;
    for (int c = 0; status == 0 && c < columns->n; c++)
        status = take_column(&columns->column[c], step, attr, PyTuple_GetItem(items, c));
    Py_DECREF(items);
    return status;
}

static int take_numbers(tg_columns *list, const char *step, const tg_step_attr *attr, PyObject *given) {
    char expected[96];
    snprintf(expected, sizeof expected, "a list of at most %d whole numbers in %.0f..%.0f", TG_MAX_COLUMNS,
             attr->low, attr->high);
    PyObject *items = list_items(given);
    const Py_ssize_t n = items == NULL ? -1 : PyTuple_Size(items);
    int fine = n >= 0 && n <= TG_MAX_COLUMNS;
    if (fine && (list->number = calloc((size_t)n + 1, sizeof *list->number)) == NULL) {
        Py_DECREF(items);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        const double number = PyLong_Check(item) && !PyBool_Check(item) ? PyLong_AsDouble(item) : NAN;
        if (PyErr_Occurred() != NULL) PyErr_Clear(), fine = 0;
        fine &= number >= attr->low && number <= attr->high;
        if (fine) list->number[list->n++] = (int32_t)number;
    }
    Py_XDECREF(items);
    return fine ? 0 : wrong(step, attr->name, expected, given);
}

/* ---- attributes ---- */

static int take_choice(double *to, const char *step, const tg_step_attr *attr, PyObject *value) {
    char name[32], expected[192] = "one of ";
    for (int i = 0; tg_word(attr->choices, i, name, sizeof name); i++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, name) == 0) {
            *to = i;
            return 0;
        }
        const size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", i > 0 ? ", " : "", name);
    }
    return wrong(step, attr->name, expected, value);
}

static int take_value(double *to, tg_columns *columns, const char *step, const tg_step_attr *attr,
                      PyObject *value) {
    if (attr->type == TG_STEP_COLUMNS) return take_columns(columns, step, attr->name, value);
    if (attr->type == TG_STEP_NUMBERS) return take_numbers(columns, step, attr, value);
    if (attr->type == TG_STEP_CHOICE) return take_choice(to, step, attr, value);
    if (attr->type == TG_STEP_FLAG) {
        if (!PyBool_Check(value)) return wrong(step, attr->name, "True or False", value);
        *to = value == Py_True;
        return 0;
    }
    char expected[96];
    snprintf(expected, sizeof expected, "a whole number in %.0f..%.0f", attr->low, attr->high);
    if (!PyLong_Check(value) || PyBool_Check(value)) return wrong(step, attr->name, expected, value);
    *to = PyLong_AsDouble(value);
    if (PyErr_Occurred() != NULL) PyErr_Clear(), *to = NAN;
    return *to >= attr->low && *to <= attr->high ? 0 : wrong(step, attr->name, expected, value);
}

/* Every key of the dict is an attribute of the step; those that are required are there. */
static int take_attrs(const tg_prepare_step *step, PyObject *dict, double *attr, tg_columns *columns) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int given = 0;
    for (int a = 0; a < TG_STEP_ATTRS; a++) attr[a] = step->attrs[a].fallback;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, "step") == 0) continue;
        int a = 0;
        while (a < TG_STEP_ATTRS && step->attrs[a].name != NULL &&
               !(PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, step->attrs[a].name) == 0))
            a++;
        if (a == TG_STEP_ATTRS || step->attrs[a].name == NULL)
            return wrong(step->name, "attributes", "only those that the step has", key);
        if (take_value(&attr[a], &columns[a], step->name, &step->attrs[a], value) < 0) return -1;
        given |= 1 << a;
    }
    for (int a = 0; a < TG_STEP_ATTRS && step->attrs[a].name != NULL; a++)
        if (step->attrs[a].required && !(given >> a & 1))
            return wrong(step->name, step->attrs[a].name, "a value", NULL);
    return 0;
}

static int add_dict(tg_program *program, PyObject *dict) {
    PyObject *name = PyDict_Check(dict) ? PyDict_GetItemString(dict, "step") : NULL;
    if (name == NULL) return wrong("?", "step", "a dict {'step': name, ...}", dict);
    const tg_prepare_step *step = NULL;
    for (int i = 0; step == NULL && tg_steps[i] != NULL; i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, tg_steps[i]->name) == 0)
            step = tg_steps[i];
    if (step == NULL) {
        char known[400] = "one of ";
        for (int i = 0; tg_steps[i] != NULL; i++) {
            const size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", tg_steps[i]->name);
        }
        return wrong("?", "step", known, name);
    }
    double attr[TG_STEP_ATTRS];
    tg_columns columns[TG_STEP_ATTRS] = {{0, NULL, NULL}};
    if (take_attrs(step, dict, attr, columns) < 0) {
        for (int a = 0; a < TG_STEP_ATTRS; a++) tg_columns_free(&columns[a]);
        return -1;
    }
    tg_error err;
    if (tg_program_add(program, step, attr, columns, &err) == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

static int add_step(tg_program *program, PyObject *given) {
    /* a copy: turning values into text may run code that changes the caller's */
    PyObject *dict = PyDict_Check(given) ? PyDict_Copy(given) : Py_NewRef(given);
    const int status = dict == NULL ? -1 : add_dict(program, dict);
    Py_XDECREF(dict);
    return status;
}

int tg_py_program(PyObject *list, tg_program *program) {
    PyObject *items = list_items(list);
    if (items == NULL) return wrong("?", "preprocessing", "a list of steps", list);
    int status = 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_Size(items); i++)
        status = add_step(program, PyTuple_GetItem(items, i));
    Py_DECREF(items);
    tg_error err;
    if (status == 0 && tg_program_close(program, &err) != TG_OK) {
        tg_raise(&err, NULL);
        status = -1;
    }
    return status;
}

/* ---- the table ---- */

static PyObject *describe_attr(const tg_step_attr *attr) {
    static const char *const types[] = {"int", "flag", "choice", "columns", "numbers"};
    PyObject *range = Py_None, *fallback = Py_None;
    char text[32];
    if (attr->type == TG_STEP_INT || attr->type == TG_STEP_NUMBERS)
        range = Py_BuildValue("LL", (long long)attr->low, (long long)attr->high);
    if (attr->type == TG_STEP_CHOICE) range = Py_BuildValue("s", attr->choices);
    if (attr->type == TG_STEP_CHOICE && !attr->required) {
        tg_word(attr->choices, (int)attr->fallback, text, sizeof text);
        fallback = Py_BuildValue("s", text);
    }
    if (attr->type == TG_STEP_INT && !attr->required) fallback = PyLong_FromDouble(attr->fallback);
    if (attr->type == TG_STEP_FLAG) fallback = PyBool_FromLong(attr->fallback != 0);
    PyObject *result = Py_BuildValue("{s:s,s:s,s:O,s:O,s:O,s:s}", "name", attr->name, "type",
                                     types[attr->type], "required", attr->required ? Py_True : Py_False,
                                     "default", fallback, "range", range, "doc", attr->doc);
    if (range != Py_None) Py_XDECREF(range);
    if (fallback != Py_None) Py_XDECREF(fallback);
    return result;
}

static PyObject *describe_step(const tg_prepare_step *step) {
    PyObject *attrs = PyList_New(0);
    for (int a = 0; attrs != NULL && a < TG_STEP_ATTRS && step->attrs[a].name != NULL; a++)
        tg_append(&attrs, describe_attr(&step->attrs[a]));
    if (attrs == NULL) return NULL;
    return Py_BuildValue("{s:s,s:s,s:N,s:O,s:O,s:O}", "name", step->name, "doc", step->doc, "attrs", attrs,
                         "learns", step->fit != NULL ? Py_True : Py_False, "training",
                         step->flags & TG_STEP_TRAINING ? Py_True : Py_False, "configs",
                         step->flags & TG_STEP_CONFIGS ? Py_True : Py_False);
}

PyObject *tg_py_step_table(void) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && tg_steps[i] != NULL; i++) tg_append(&list, describe_step(tg_steps[i]));
    return list;
}
