#include "py/py_steps.h"

#include <string.h>

/* The name of a slot. */
static int copy_text(PyObject *text, const char *what, char *to, size_t size) {
    Py_ssize_t length;
    const char *utf8 = text == NULL || !PyUnicode_Check(text) ? NULL : tg_utf8(text, &length);
    if (utf8 == NULL || (size_t)length >= size || memchr(utf8, 0, (size_t)length) != NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%s: expected names of at most %zu characters", what, size - 1);
        return -1;
    }
    memcpy(to, utf8, (size_t)length + 1);
    return 0;
}

static const char *const SPACES[] = {
#define NAME(name, text, items, per) #name,
    TG_SPACE_LIST(NAME)
#undef NAME
};

const char *tg_py_space_name(tg_space space) { return SPACES[space]; }

const char *tg_py_space_text(tg_space space) {
    static const char *const texts[] = {
        [TG_SPACE_NODE] = "(N, F)",        [TG_SPACE_NODE_CONFIG] = "(N, C, F)",
        [TG_SPACE_CONFIG_NODE] = "(K, F)", [TG_SPACE_CONFIG_NODE_CONFIG] = "(K, C, F)",
        [TG_SPACE_EDGE] = "(E, F)",        [TG_SPACE_EDGE_CONFIG] = "(E, C, F)",
        [TG_SPACE_CONFIG] = "(C, F)",      [TG_SPACE_SLATE] = "(1, F)",
        [TG_SPACE_UNIQUE] = "(U, F)"};
    return texts[space];
}

int tg_py_space_dims(tg_space space) {
    return space == TG_SPACE_NODE_CONFIG || space == TG_SPACE_CONFIG_NODE_CONFIG ||
                   space == TG_SPACE_EDGE_CONFIG
               ? 3
               : 2;
}

int tg_py_space(const char *name) {
    for (int i = 0; i < TG_SPACES; i++)
        if (strcmp(SPACES[i], name) == 0) return i;
    PyErr_Format(PyExc_ValueError, "inputs: there are no rows of '%s'", name);
    return -1;
}

static int fail(const tg_error *err) {
    tg_raise(err, NULL);
    return -1;
}

static int add_inputs(tg_model *model, PyObject *inputs, tg_error *err) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (inputs == NULL || inputs == Py_None) return 0;
    if (!PyDict_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "inputs must be a dict");
        return -1;
    }
    while (PyDict_Next(inputs, &at, &key, &value)) {
        char name[TG_MAX_NAME];
        const char *space;
        int cols;
        if (copy_text(key, "inputs", name, sizeof name) < 0 || !PyTuple_Check(value) ||
            !PyArg_ParseTuple(value, "si;inputs must be {name: (space, columns)}", &space, &cols)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "inputs must be {name: (space, columns)}");
            return -1;
        }
        const int found = tg_py_space(space);
        if (found < 0) return -1;
        if (tg_model_add_input(model, name, (tg_shape){(tg_space)found, cols}, err) != TG_OK)
            return fail(err);
    }
    return 0;
}

static int add_outputs(tg_model *model, PyObject *outputs, tg_error *err) {
    PyObject *names = outputs == NULL ? Py_BuildValue("(s)", "scores") : PySequence_Tuple(outputs);
    int status = names == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_Size(names); i++) {
        char name[TG_MAX_NAME];
        status = copy_text(PyTuple_GetItem(names, i), "outputs", name, sizeof name);
        if (status == 0 && tg_model_add_output(model, name, err) != TG_OK) status = fail(err);
    }
    Py_XDECREF(names);
    return status;
}

int tg_py_build(tg_model *model, PyObject *steps, PyObject *inputs, PyObject *outputs) {
    tg_error err;
    tg_json_tree tree;
    if (add_inputs(model, inputs, &err) < 0) return -1;
    int status = tg_py_json(steps, "steps", TG_E_RECIPE, &tree);
    if (status == 0 && tg_model_add_steps(model, tree.root, &err) != TG_OK) status = fail(&err);
    tg_json_free(&tree);
    if (status == 0) status = add_outputs(model, outputs, &err);
    if (status < 0) return -1;
    return tg_model_finish(model, &err) == TG_OK ? 0 : fail(&err);
}

int tg_py_check_sizes(const tg_model_sizes *sizes) {
    const int columns[] = {sizes->node_features, sizes->config_features, sizes->graph_features};
    for (int i = 0; i < 3; i++)
        if (columns[i] < 0 || columns[i] > 65536) {
            PyErr_Format(PyExc_ValueError,
                         "node_features, config_features, graph_features: expected 0..65536, got %d",
                         columns[i]);
            return -1;
        }
    if (sizes->digit_cols >= 0 && sizes->digit_cols <= TG_MOST_DIGITS && sizes->digit_rows >= 0 &&
        sizes->digit_rows <= TG_MOST_DIGIT_VALUES + 2)
        return 0;
    PyErr_Format(PyExc_ValueError, "digits: expected 0..64 columns and 0..34 rows, got (%d, %d)",
                 sizes->digit_cols, sizes->digit_rows);
    return -1;
}

PyObject *tg_py_param_shape(const tg_param *param) {
    return param->cols == 0 ? Py_BuildValue("(i)", param->rows)
                            : Py_BuildValue("(ii)", param->rows, param->cols);
}

/* A list of (name, shape) of all parameters. */
static PyObject *list_parameters(const tg_model *m) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < m->n_params; i++)
        tg_append(&list, Py_BuildValue("(sN)", m->params[i].name, tg_py_param_shape(&m->params[i])));
    return list;
}

PyObject *tg_py_list_slots(const tg_model *m) {
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < m->n_slots; i++) {
        const tg_shape shape = m->slots[i].shape;
        if (shape.cols == 0) continue; /* the graphs do not have it */
        PyObject *value = Py_BuildValue("(si)", tg_py_space_name(shape.space), shape.cols);
        if (value == NULL || PyDict_SetItemString(dict, m->slots[i].name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject *tg_py_plan_parameters(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"steps", "node_features", "config_features", "graph_features", "digits", NULL};
    PyObject *steps, *list = NULL;
    tg_model_sizes sizes = TG_PY_SIZES;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|iii(ii)", names, &steps, &sizes.node_features,
                                     &sizes.config_features, &sizes.graph_features, &sizes.digit_cols,
                                     &sizes.digit_rows) ||
        tg_py_check_sizes(&sizes) < 0)
        return NULL;
    tg_model *m = tg_model_new(&sizes);
    if (m == NULL) return PyErr_NoMemory();
    if (tg_py_build(m, steps, NULL, NULL) == 0) list = list_parameters(m);
    tg_model_free(m);
    return list;
}

PyObject *tg_py_plan_slots(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"steps",           "outputs",        "inputs", "node_features",
                            "config_features", "graph_features", "digits", NULL};
    PyObject *steps, *outputs, *inputs = NULL, *result = NULL;
    tg_model_sizes sizes = TG_PY_SIZES;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|Oiii(ii)", names, &steps, &outputs, &inputs,
                                     &sizes.node_features, &sizes.config_features, &sizes.graph_features,
                                     &sizes.digit_cols, &sizes.digit_rows) ||
        tg_py_check_sizes(&sizes) < 0)
        return NULL;
    tg_model *m = tg_model_new(&sizes);
    if (m == NULL) return PyErr_NoMemory();
    if (tg_py_build(m, steps, inputs, outputs) == 0) {
        PyObject *slots = tg_py_list_slots(m), *parameters = slots == NULL ? NULL : list_parameters(m);
        if (parameters != NULL) result = Py_BuildValue("NN", slots, parameters);
        else Py_XDECREF(slots);
    }
    tg_model_free(m);
    return result;
}
