/* Arrays from outside, checked once, at the door: conversions keep every value or raise a DataError that names
   field, value and place. */
#ifndef TG_PY_ARRAYS_H
#define TG_PY_ARRAYS_H

#include "base/numbers.h"
#include "features/schema.h"
#include "py/pycore.h"

/* An array of numbers as it was given, and what it must be. */
typedef struct tg_door {
    PyObject *given;     /* an array of numbers of at most eight bytes */
    const char *field;   /* its name */
    const char *letters; /* one per dimension: how the documentation calls a length */
    npy_intp dims[3];    /* lengths; -1 takes any and is filled in */
    PyObject *columns;   /* names of the columns for errors, a sequence; or NULL */
    PyObject *file;      /* name of the file for errors, or NULL */
} tg_door;

extern const char tg_check_writer[]; /* what to do about an array that a program wrote wrongly */

/* An array of numbers from any object: itself, or what NumPy makes of it. A new reference, or NULL with an
   exception: it is no array of numbers, or has a mask. */
PyObject *tg_numbers(const char *field, PyObject *object);

/* How the numbers of an array are stored; 0 when its dtype is not one of the allowed. */
int tg_number_of(PyArrayObject *array, tg_number *number);

/* 0, or -1 with an exception unless the array has that shape. */
int tg_door_shape(tg_door *door);

/* Raise for the entry `index` of the given array. Returns NULL. */
void *tg_door_refuse(const tg_door *door, int64_t index, const char *expected, const char *todo);

/* New read-only arrays: finite float32; int64 within low..high ("`what` in low..high"); float64. NULL with an
   exception. */
PyArrayObject *tg_door_floats(tg_door *door);
PyArrayObject *tg_door_whole(tg_door *door, int64_t low, int64_t high, const char *what);
PyArrayObject *tg_door_doubles(tg_door *door);

/* How many values each digit of a configurable node has; n < 0: the digits are those of layouts. */
typedef struct tg_digit_values {
    Py_ssize_t n;
    int32_t of[TG_MOST_DIGITS];
} tg_digit_values;

/* For PyArg_ParseTuple: those of a tuple, or None (tg_digit_values). */
int tg_take_values(PyObject *given, void *values);

/* Digits (C,K,D) as int8: whole numbers in -1..values[d]-1, or those of layouts if there are no `values`. A
   new array. */
PyArrayObject *tg_door_digits(tg_door *door, const int32_t *values);

/* Raise, about a file (or None), unless digits (n,K,D) of the configs rows (n,) (NULL: all) are in
   -1..values[d]-1. 0 or -1. */
int tg_digits_intact(PyArrayObject *digits, const int64_t *rows, const int32_t *values, PyObject *file);

/* Make an array read-only: a view, so that nobody turns it back. One that others can write to, as it is the
   `given` one or a part of another, is copied. Takes over `array`; NULL with an exception. */
PyArrayObject *tg_frozen(PyArrayObject *array, PyObject *given);

/* Row numbers (n,) int64 in 0..count-1 from a slice, a mask or whole numbers, as NumPy's indexing takes them. */
PyArrayObject *tg_row_numbers(PyObject *rows, int64_t count);

#endif
