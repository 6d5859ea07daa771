/* The optimizer as Python describes it: a dict. */
#ifndef TG_PY_OPTIM_H
#define TG_PY_OPTIM_H

#include "py/pycore.h"

#include "optim/optim.h"

/* From a dict or its JSON text: see tg_optimizer_read. 0, or -1 with an exception; tg_optimizer_free it after use. */
int tg_py_optimizer(PyObject *given, int64_t P, tg_optimizer *out);

int tg_add_tree_sum_type(PyObject *module);

#endif
