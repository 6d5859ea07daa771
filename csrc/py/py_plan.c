#include "py/py_plan.h"

#include "py/py_json.h"
#include "py/py_ops.h"

int tg_py_plan(tg_model *model, PyObject *steps, PyObject *inputs, PyObject *outputs) {
    enum { INPUTS, STEPS, OUTPUTS, PARTS };
    static const char *const names[PARTS] = {"inputs", "steps", "outputs"};
    PyObject *const given[PARTS] = {inputs, steps, outputs};
    tg_json_tree trees[PARTS] = {{NULL, NULL}};
    tg_error err;
    int status = 0;
    for (int i = 0; status == 0 && i < PARTS; i++)
        if (given[i] != NULL && given[i] != Py_None)
            status = tg_py_json(given[i], names[i], TG_E_RECIPE, &trees[i]);
    if (status == 0 &&
        tg_model_read(model, trees[INPUTS].root, trees[STEPS].root, trees[OUTPUTS].root, &err) != TG_OK) {
        tg_raise(&err, NULL);
        status = -1;
    }
    for (int i = 0; i < PARTS; i++) tg_json_free(&trees[i]);
    return status;
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
        PyObject *value = Py_BuildValue("(si)", tg_py_rows_name(shape.space), shape.cols);
        if (value == NULL || PyDict_SetItemString(dict, m->slots[i].name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *plan_parameters(PyObject *self, PyObject *args, PyObject *kwargs) {
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
    if (tg_py_plan(m, steps, NULL, NULL) == 0) list = list_parameters(m);
    tg_model_free(m);
    return list;
}

static PyObject *plan_slots(PyObject *self, PyObject *args, PyObject *kwargs) {
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
    if (tg_py_plan(m, steps, inputs, outputs) == 0) {
        PyObject *slots = tg_py_list_slots(m), *parameters = slots == NULL ? NULL : list_parameters(m);
        if (parameters != NULL) result = Py_BuildValue("NN", slots, parameters);
        else Py_XDECREF(slots);
    }
    tg_model_free(m);
    return result;
}

PyMethodDef tg_plan_methods[] = {
    {"plan_parameters", (PyCFunction)(void (*)(void))plan_parameters, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "List of (name, shape) of every parameter that a model of these steps has, without making one.")},
    {"plan_slots", (PyCFunction)(void (*)(void))plan_slots, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("({name: (rows, columns)} of every slot, parameters) of steps, without making a model; "
               "outputs: slots that no step needs to read.")},
    {NULL, NULL, 0, NULL},
};
