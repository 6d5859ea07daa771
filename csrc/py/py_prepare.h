/* The Python type _core.Prepare: a program of preprocessing. */
#ifndef TG_PY_PREPARE_H
#define TG_PY_PREPARE_H

#include "py/pycore.h"

int tg_add_prepare_type(PyObject *module);
extern PyMethodDef tg_prepare_methods[];

#endif
