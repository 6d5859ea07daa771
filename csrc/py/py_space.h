/* The type _core.Space: a space of configs (search/space.h) whose values are Python's. */
#ifndef TG_PY_SPACE_H
#define TG_PY_SPACE_H

#include "py/pycore.h"
#include "search/space.h"

typedef struct tg_py_space {
    PyObject_HEAD tg_cspace space;
    PyObject *args;      /* as they were given, to make it again */
    PyObject *names;     /* of parameters (P,) */
    PyObject *values;    /* of parameters: a tuple, a range or the number of elements of a permutation */
    PyObject *index;     /* of parameters with a tuple: value -> code; else None */
    PyObject *functions; /* of constraints: a function or None */
    int calls;           /* there are functions: the GIL stays */
} tg_py_space;

int tg_add_space_type(PyObject *module);

/* Fill a new space from its arguments (parameters, constraints, table, budget). 0, or -1 with an exception. */
int tg_py_space_fill(tg_py_space *self, PyObject *parameters, PyObject *constraints, PyObject *table,
                     int64_t budget);

/* Free what tg_py_space_fill made, but its Python objects. */
void tg_py_space_release(tg_py_space *self);

/* A new reference to the value of a code. */
PyObject *tg_py_space_value(const tg_py_space *self, int32_t param, int32_t code);

/* The code of a value: 1, 0 if the parameter has no equal one; -1 with an exception. */
int tg_py_space_code(const tg_py_space *self, int32_t param, PyObject *value, int32_t *code);

/* A new dict of the config row(P). */
PyObject *tg_py_space_config(const tg_py_space *self, const int32_t *row);

#endif
