/* The optimizer as Python describes it: a dict. */
#ifndef TG_PY_OPTIM_H
#define TG_PY_OPTIM_H

#include "py/pycore.h"

#include "optim/optim.h"

/* {"kind": "adamw", "lr":, "step":, "clip": 0, "weight_decay": 0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
   "momentum": 0.9, "groups": [(begin, end, lr_scale, weight_decay), ...]}: without groups all P parameters are one
   with "weight_decay". 0, or -1 with an exception. `*room` holds the groups: PyMem_Free it after use. */
int tg_py_optimizer(PyObject *dict, int64_t P, tg_optimizer *out, tg_group **room);

/* 1, or 0 with an exception when a number of the optimizer makes no sense. */
int tg_py_check_optimizer(const tg_optimizer *o, int64_t P);

#endif
