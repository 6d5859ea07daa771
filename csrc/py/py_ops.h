/* Single ops over NumPy arrays: the generic entries behind tpugraphs.kernels. */
#ifndef TG_PY_OPS_H
#define TG_PY_OPS_H

#include "py/pycore.h"

#include "model/model.h"

/* Attributes from a dict; 0, or -1 with an exception. values has TG_MAX_ATTRS entries. */
int tg_py_attrs(PyObject *dict, tg_attr_value *values, int *count);

#endif
