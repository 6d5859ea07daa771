/* What the op table says about itself, for everything that reads it: faces, file checks, documentation, tests. */
#include "py/py_ops.h"

#include "py/py_json.h"

const char *tg_py_rows_name(tg_space space) {
    static const char *const names[] = {
#define NAME(name, text, items, per) #name,
        TG_SPACE_LIST(NAME)
#undef NAME
    };
    return names[space];
}

const char *tg_py_rows_shape(tg_space space) {
    static const char *const shapes[] = {
        [TG_SPACE_NODE] = "(N, F)",        [TG_SPACE_NODE_CONFIG] = "(N, C, F)",
        [TG_SPACE_CONFIG_NODE] = "(K, F)", [TG_SPACE_CONFIG_NODE_CONFIG] = "(K, C, F)",
        [TG_SPACE_EDGE] = "(E, F)",        [TG_SPACE_EDGE_CONFIG] = "(E, C, F)",
        [TG_SPACE_CONFIG] = "(C, F)",      [TG_SPACE_SLATE] = "(1, F)",
        [TG_SPACE_UNIQUE] = "(U, F)"};
    return shapes[space];
}

int tg_py_rows_dims(tg_space space) {
    return space == TG_SPACE_NODE_CONFIG || space == TG_SPACE_CONFIG_NODE_CONFIG ||
                   space == TG_SPACE_EDGE_CONFIG
               ? 3
               : 2;
}

static PyObject *space_names(unsigned spaces) {
    PyObject *list = PyList_New(0);
    for (int s = 0; list != NULL && s < TG_SPACES; s++) {
        if (!(spaces >> s & 1u)) continue;
        tg_append(&list, PyUnicode_FromString(tg_py_rows_name((tg_space)s)));
    }
    return list;
}

static PyObject *input(const tg_in_spec *spec) {
    return Py_BuildValue("{s:s,s:N,s:N}", "name", spec->name, "rows", space_names(spec->spaces), "optional",
                         PyBool_FromLong(spec->optional));
}

static PyObject *flags(unsigned bits) {
    static const char *const names[] = {"edges",          "digits", "opcodes",      "layout",   "unique",
                                        "across configs", "random", "config nodes", "per graph"};
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < sizeof names / sizeof *names; i++) {
        if (!(bits >> i & 1u)) continue;
        tg_append(&list, PyUnicode_FromString(names[i]));
    }
    return list;
}

static PyObject *describe(const tg_op *op) {
    PyObject *inputs = PyList_New(0), *params = PyList_New(0), *attrs = tg_py_attrs(op->attrs, TG_MAX_ATTRS);
    for (int i = 0; inputs != NULL && i < TG_MAX_IN && op->inputs[i].name != NULL; i++)
        tg_append(&inputs, input(&op->inputs[i]));
    for (int i = 0; params != NULL && i < TG_MAX_PARAMS && op->params[i] != NULL; i++)
        tg_append(&params, PyUnicode_FromString(op->params[i]));
    if (inputs != NULL && params != NULL && attrs != NULL)
        return Py_BuildValue("{s:s,s:s,s:N,s:N,s:N,s:N,s:N}", "name", op->name, "doc", op->doc, "inputs",
                             inputs, "params", params, "attrs", attrs, "flags", flags(op->flags), "num_nodes",
                             PyBool_FromLong(tg_py_asks_for_nodes(op)));
    Py_XDECREF(inputs);
    Py_XDECREF(params);
    Py_XDECREF(attrs);
    return NULL;
}

PyObject *tg_py_row_shapes(PyObject *self, PyObject *unused) {
    PyObject *dict = PyDict_New();
    (void)self, (void)unused;
    for (int s = 0; dict != NULL && s < TG_SPACES; s++) {
        PyObject *text = PyUnicode_FromString(tg_py_rows_shape((tg_space)s));
        if (text == NULL || PyDict_SetItemString(dict, tg_py_rows_name((tg_space)s), text) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(text);
    }
    return dict;
}

PyObject *tg_py_ops(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)self, (void)unused;
    for (int i = 0; list != NULL && tg_ops[i] != NULL; i++) tg_append(&list, describe(tg_ops[i]));
    return list;
}
