/* What a model of described steps has, before it has weights: slots and parameters. */
#ifndef TG_PY_PLAN_H
#define TG_PY_PLAN_H

#include "py/pycore.h"

#include "features/schema.h"
#include "model/model.h"

/* What graphs hold unless the caller says otherwise, and whether that is possible: 0, or -1 with an exception. */
#define TG_PY_SIZES                                                                                          \
    {.node_features = TG_SCALED_FEATURES, .digit_cols = TG_DIGITS, .digit_rows = TG_DIGIT_STATES}
int tg_py_check_sizes(const tg_model_sizes *sizes);

/* All but the weights of a model, out of what tg_model_read reads: values of Python, or their JSON text. Inputs and
   outputs may be NULL or None. 0, or -1 with an exception. */
int tg_py_plan(tg_model *model, PyObject *steps, PyObject *inputs, PyObject *outputs);

PyObject *tg_py_param_shape(const tg_param *param);
/* {name: (rows, columns)} of every slot of a model. */
PyObject *tg_py_list_slots(const tg_model *model);

#endif
