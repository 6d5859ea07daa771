/* The op table and single ops, as Python sees them. */
#ifndef TG_PY_OPS_H
#define TG_PY_OPS_H

#include "py/pycore.h"

#include "ops/op.h"

/* The name of rows ("NODE", "NODE_CONFIG", ...: TG_SPACE_LIST), the shape of their arrays, "(N, C, F)", and the number
   of their dimensions. */
const char *tg_py_rows_name(tg_space space);
const char *tg_py_rows_shape(tg_space space);
int tg_py_rows_dims(tg_space space);

/* _core.ops(): the op table, and _core.row_shapes(). */
PyObject *tg_py_ops(PyObject *self, PyObject *unused);
PyObject *tg_py_row_shapes(PyObject *self, PyObject *unused);

/* _core.require(): an array of one of several shapes, or a ShapeError. */
PyObject *tg_py_require(PyObject *self, PyObject *args, PyObject *kwargs);
/* Whether a call of an op depends on the number of nodes, which follows from no input that it must have. */
int tg_py_asks_for_nodes(const tg_op *op);
/* _core.op_arguments(): arguments by name, sorted as op_forward takes them. */
PyObject *tg_py_op_arguments(PyObject *self, PyObject *args);

#endif
