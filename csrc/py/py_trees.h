/* The Python type _core.Forest: trees that score; and the tables that some are trained on. */
#ifndef TG_PY_TREES_H
#define TG_PY_TREES_H

#include "py/pycore.h"

int tg_add_forest_type(PyObject *module);
extern PyMethodDef tg_tree_methods[];

#endif
