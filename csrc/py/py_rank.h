/* Sums of losses from Python, for all functions that take them. */
#ifndef TG_PY_RANK_H
#define TG_PY_RANK_H

#include "py/pycore.h"

#include "rank/loss.h"

/* From a list of dicts or its JSON text, see tg_losses_read; a "loss" may be a function. 0, or -1 with an exception. */
int tg_py_losses(PyObject *list, tg_losses *out);

#endif
