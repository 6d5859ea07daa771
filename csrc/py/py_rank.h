/* Sums of losses from Python, for every entry that takes them. */
#ifndef TG_PY_RANK_H
#define TG_PY_RANK_H

#include "py/pycore.h"

#include "rank/loss.h"

/* From a list of dicts, one a term: "loss" (its name), and of "weight", "reduction", "over" and the loss's attributes
   those that are not at their fallback. The key is 0. 0, or -1 with an exception. */
int tg_py_losses(PyObject *list, tg_losses *out);

#endif
