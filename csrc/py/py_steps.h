/* Steps of a model, as Python describes them. */
#ifndef TG_PY_STEPS_H
#define TG_PY_STEPS_H

#include "py/pycore.h"

#include "features/schema.h"
#include "model/model.h"
#include "py/py_json.h"

/* The space called `name` ("NODE", "NODE_CONFIG", ...: TG_SPACE_LIST in lower case), or -1 with an exception. */
int tg_py_space(const char *name);
/* Its name, the shape of its arrays, "(N, C, F)", and the number of their dimensions. */
const char *tg_py_space_name(tg_space space);
const char *tg_py_space_text(tg_space space);
int tg_py_space_dims(tg_space space);

/* The op table: _core.ops(), and _core.row_shapes(). */
PyObject *tg_py_ops(PyObject *self, PyObject *unused);
PyObject *tg_py_row_shapes(PyObject *self, PyObject *unused);

/* _core.require(): an array of one of several shapes, or a ShapeError. */
PyObject *tg_py_require(PyObject *self, PyObject *args, PyObject *kwargs);
/* Whether a call of an op depends on the number of nodes, which follows from no input that it must have. */
int tg_py_asks_for_nodes(const tg_op *op);
/* _core.op_arguments(): arguments by name, sorted as op_forward takes them. */
PyObject *tg_py_op_arguments(PyObject *self, PyObject *args);

/* What graphs hold unless the caller says otherwise, and whether that is possible: 0, or -1 with an exception. */
#define TG_PY_SIZES                                                                                          \
    {.node_features = TG_SCALED_FEATURES, .digit_cols = TG_DIGITS, .digit_rows = TG_DIGIT_STATES}
int tg_py_check_sizes(const tg_model_sizes *sizes);

/* Add steps (list of dicts, or its JSON text), inputs {name: (space, columns)} or None, and outputs (sequence of names) to a model, and
   finish it: all but the weights. 0, or -1 with an exception. */
int tg_py_build(tg_model *model, PyObject *steps, PyObject *inputs, PyObject *outputs);

PyObject *tg_py_param_shape(const tg_param *param);
/* _core.plan_parameters(): (name, shape) of the parameters that steps have. */
PyObject *tg_py_plan_parameters(PyObject *self, PyObject *args, PyObject *kwargs);
/* {name: (rows, columns)} of every slot of a model. */
PyObject *tg_py_list_slots(const tg_model *model);
/* _core.plan_slots(): these, and the parameters, of steps that may be the beginning of a model. */
PyObject *tg_py_plan_slots(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
