/* Configs as numbers of table entries, as Python gives them. */
#ifndef TG_PY_CONFIGS_H
#define TG_PY_CONFIGS_H

#include "configs/codes.h"
#include "py/pycore.h"

/* data, size, C and K of `codes` from an array (C,K,3) of uint8, uint16 or uint32; K < 0 takes any. Sets ShapeError and
   returns -1 for anything else. */
int tg_codes_array(PyObject *object, npy_intp K, tg_codes *codes);

/* The equal rows among C rows of `width` bytes: (first, inverse), or NULL with an exception. */
PyObject *tg_equal_rows(const void *rows, npy_intp C, int64_t width);

#endif
