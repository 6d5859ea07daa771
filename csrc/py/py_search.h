/* The Python type _core.Search: which codes to score next. */
#ifndef TG_PY_SEARCH_H
#define TG_PY_SEARCH_H

#include "py/pycore.h"

int tg_add_search_type(PyObject *module);
extern PyMethodDef tg_search_methods[];

#endif
