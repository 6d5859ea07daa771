/* The Python type _core.Digits: config digits (C,K,D), in memory, in an .npz, or in a mapped pack. */
#ifndef TG_PY_DIGITS_H
#define TG_PY_DIGITS_H

#include "io/source.h"
#include "py/py_arrays.h"

typedef struct tg_py_digits {
    PyObject_HEAD long long shape[3];
    tg_digit_values values; /* of each digit */
    PyObject *array;        /* (C,K,D) int8, read-only, or NULL: not read yet, or */
    PyObject *codes;        /* (C,K,3) numbers of entries of */
    PyObject *table;        /* (T,6) int8, six times smaller; both NULL otherwise */
    PyObject *path;         /* of the file that they are from, or None */
    PyObject *handle;       /* of the mapped pack that holds them, or NULL */
    tg_stamp stamp;         /* of the .npz that holds them */
    int in_npz, unchecked;  /* there is one; the array was not compared with `values` yet */
} tg_py_digits;

int tg_add_digits_type(PyObject *module);

/* Whether an object is digits of this or another import of the core. */
int tg_is_digits(PyObject *object);

/* New digits that hold an array (C,K,D) int8, which is taken over. NULL with an exception. */
tg_py_digits *tg_new_digits(tg_state *state, PyArrayObject *array, const tg_digit_values *values);

/* New references, or NULL with an exception. All digits as an array (C,K,D), read once and kept; and as a
   ModelGraph takes them, an array or a pair (codes, table). */
PyObject *tg_digits_all(tg_py_digits *self);
PyObject *tg_digits_stored(tg_py_digits *self);

/* Bytes that they take, in memory or in the file. */
int64_t tg_digits_bytes(const tg_py_digits *self);

/* Equal configs: rows (U,) of the first of each, and every config's number among them, as a tuple. */
PyObject *tg_digits_distinct(tg_py_digits *self);

/* The same with the digits (U,K,18) in front, out of an .npz, without all of them in memory; NULL without an
   exception if they are not in one, or were read already. */
PyObject *tg_digits_read_distinct(tg_py_digits *self);

#endif
