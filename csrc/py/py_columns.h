/* Columns of a schema (tuples of tpugraphs.data.columns.Column), and whether values are such as they allow. */
#ifndef TG_PY_COLUMNS_H
#define TG_PY_COLUMNS_H

#include "prepare/rules.h"
#include "py/pycore.h"

/* The rules of columns, to be freed. NULL with an exception. */
tg_rule *tg_rules_of(PyObject *columns);

/* Raise a DataError, with the column and the row, unless a table (rows, columns) of float32 or float64 follows the
   rules of its columns. `where` it is from and `place`, a function of the number of a row, are for the message;
   place is NULL where the number alone does. 0 or -1. */
int tg_check_table(PyObject *columns, const tg_rule *rules, PyArrayObject *table, PyObject *where,
                   PyObject *place);

#endif
