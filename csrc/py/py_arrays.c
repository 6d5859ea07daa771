#include "py/py_arrays.h"

#include <stdio.h>
#include <string.h>

#include "configs/digits.h"

const char tg_check_writer[] = "check the program that wrote it";
enum { BLOCK = 1 << 20 }; /* bytes of a strided array that are copied at a time */

int tg_number_of(PyArrayObject *array, tg_number *number) {
    static const struct {
        int type;
        char kind, itemsize;
    } known[] = {{NPY_BOOL, 'b', 1},
                 {NPY_BYTE, 'i', 1},
                 {NPY_UBYTE, 'u', 1},
                 {NPY_SHORT, 'i', 2},
                 {NPY_USHORT, 'u', 2},
                 {NPY_INT, 'i', 4},
                 {NPY_UINT, 'u', 4},
                 {NPY_LONG, 'i', sizeof(long)},
                 {NPY_ULONG, 'u', sizeof(long)},
                 {NPY_LONGLONG, 'i', 8},
                 {NPY_ULONGLONG, 'u', 8},
                 {NPY_HALF, 'f', 2},
                 {NPY_FLOAT, 'f', 4},
                 {NPY_DOUBLE, 'f', 8}};
    *number = (tg_number){0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (PyArray_TYPE(array) == known[i].type)
            number->kind = known[i].kind, number->itemsize = known[i].itemsize;
    return number->kind != 0;
}

PyObject *tg_numbers(const char *field, PyObject *object) {
    tg_number type;
    if (PyArray_CheckExact(object) && tg_number_of((PyArrayObject *)object, &type)) return Py_NewRef(object);
    PyObject *module = PyImport_ImportModule("tpugraphs.data.arrays");
    PyObject *array = module == NULL ? NULL : PyObject_CallMethod(module, "numbers", "sO", field, object);
    Py_XDECREF(module);
    return array;
}

/* ---- refusals ---- */

static const char *utf8_of(PyObject *text) {
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
    PyErr_Clear();
    return utf8 == NULL ? "?" : utf8;
}

static void *refuse(const tg_door *door, const char *expected, const char *todo, const char *found) {
    tg_error err;
    tg_bad_field(&err, door->field, expected, todo, "%s", found);
    return tg_raise_about(&err, door->file == NULL ? Py_None : door->file);
}

/* "(N, 140)": letters stand for lengths that are free; NULL: none are. */
static void shape_text(char *text, size_t size, int ndim, const npy_intp *dims, const char *letters) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < ndim && used < size; i++) {
        const char *comma = i > 0 ? ", " : "";
        const int free = letters != NULL && dims[i] < 0;
        used += (size_t)(free ? snprintf(text + used, size - used, "%s%c", comma, letters[i])
                              : snprintf(text + used, size - used, "%s%lld", comma, (long long)dims[i]));
    }
    if (used < size) snprintf(text + used, size - used, ndim == 1 ? ",)" : ")");
}

int tg_door_shape(tg_door *door) {
    const int ndim = (int)strlen(door->letters);
    tg_number type;
    if (!PyArray_Check(door->given) || !tg_number_of((PyArrayObject *)door->given, &type)) {
        PyErr_Format(PyExc_TypeError, "%s: expected an array of numbers, got %R", door->field,
                     Py_TYPE(door->given));
        return -1;
    }
    PyArrayObject *given = (PyArrayObject *)door->given;
    const npy_intp *have = PyArray_DIMS(given);
    int fits = PyArray_NDIM(given) == ndim;
    for (int i = 0; fits && i < ndim; i++) fits = door->dims[i] < 0 || door->dims[i] == have[i];
    if (!fits) {
        char want[96], expected[112], text[112], found[128];
        shape_text(want, sizeof want, ndim, door->dims, door->letters);
        snprintf(expected, sizeof expected, "shape %s", want);
        shape_text(text, sizeof text, PyArray_NDIM(given), have, NULL);
        snprintf(found, sizeof found, "shape %s", text);
        const int turned = ndim == 2 && PyArray_NDIM(given) == 2 && door->dims[1] == have[0];
        refuse(door, expected, turned ? "transpose it" : tg_check_writer, found);
        return -1;
    }
    for (int i = 0; i < ndim; i++) door->dims[i] = have[i];
    return 0;
}

/* The number at a place, as Python writes it: a new reference, or NULL with an exception. */
static PyObject *number_text(PyArrayObject *array, const npy_intp *at) {
    PyObject *number = PyArray_GETITEM(array, PyArray_GetPtr(array, (npy_intp *)at));
    PyObject *text = number == NULL ? NULL : PyObject_Repr(number);
    Py_XDECREF(number);
    return text;
}

void *tg_door_refuse(const tg_door *door, int64_t index, const char *expected, const char *todo) {
    PyArrayObject *given = (PyArrayObject *)door->given;
    const int ndim = PyArray_NDIM(given);
    npy_intp at[3] = {0};
    for (int i = ndim; i-- > 0; index /= PyArray_DIM(given, i))
        at[i] = (npy_intp)(index % PyArray_DIM(given, i));
    PyObject *number = number_text(given, at), *column = NULL;
    if (number == NULL) return NULL;
    if (ndim > 0 && door->columns != NULL && at[ndim - 1] < PySequence_Size(door->columns)) {
        PyObject *name = PySequence_GetItem(door->columns, at[ndim - 1]);
        column = name == NULL ? NULL : PyObject_Repr(name);
        Py_XDECREF(name);
    }
    PyErr_Clear();
    char place[96], found[192];
    if (ndim == 1) snprintf(place, sizeof place, "%lld", (long long)at[0]);
    else shape_text(place, sizeof place, ndim, at, NULL);
    snprintf(found, sizeof found, "%.60s%s%s%s%.60s", utf8_of(number), ndim > 0 ? " at " : "",
             ndim > 0 ? place : "", column == NULL ? "" : ", column ", column == NULL ? "" : utf8_of(column));
    Py_DECREF(number);
    Py_XDECREF(column);
    return refuse(door, expected, todo, found);
}

/* ---- conversions ---- */

PyArrayObject *tg_frozen(PyArrayObject *array, PyObject *given) {
    if (array == NULL) return NULL;
    if (PyArray_ISWRITEABLE(array) && ((PyObject *)array == given || PyArray_BASE(array) != NULL)) {
        PyArrayObject *copy = tg_private_copy(array);
        Py_DECREF((PyObject *)array);
        if ((array = copy) == NULL) return NULL;
    }
    PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
    PyArrayObject *view = (PyArrayObject *)PyArray_View(array, NULL, NULL);
    Py_DECREF((PyObject *)array);
    return view;
}

/* The same numbers in one piece and this machine's byte order: a new reference. */
static PyArrayObject *native(PyArrayObject *array) {
    PyArray_Descr *type = PyArray_DescrNewByteorder(PyArray_DESCR(array), NPY_NATIVE);
    return type == NULL ? NULL : (PyArrayObject *)PyArray_FromArray(array, type, NPY_ARRAY_CARRAY_RO);
}

typedef int64_t (*convert)(tg_number type, const void *from, int64_t n, void *to);
static int64_t to_floats(tg_number type, const void *from, int64_t n, void *to) {
    return tg_floats_from(type, from, n, to);
}
static int64_t to_whole(tg_number type, const void *from, int64_t n, void *to) {
    return tg_whole_from(type, from, n, to);
}
static int64_t to_doubles(tg_number type, const void *from, int64_t n, void *to) {
    tg_doubles_from(type, from, n, to);
    return -1;
}

/* The given array as one of `typenum`: itself if it is that already, or a new one. *bad: the first entry that it
   cannot hold, or -1. */
static PyArrayObject *converted(tg_door *door, int typenum, convert to, int64_t *bad) {
    if (tg_door_shape(door) < 0) return NULL;
    PyArrayObject *from = native((PyArrayObject *)door->given), *made = from;
    tg_number type;
    if (from == NULL || !tg_number_of(from, &type)) return NULL;
    if (!PyArray_EquivTypenums(PyArray_TYPE(from), typenum))
        made = tg_new_array(typenum, PyArray_NDIM(from), PyArray_DIMS(from));
    if (made != NULL) {
        const int64_t n = PyArray_SIZE(from);
        const void *data = PyArray_DATA(from);
        void *result = PyArray_DATA(made);
        Py_BEGIN_ALLOW_THREADS;
        *bad = to(type, data, n, result);
        Py_END_ALLOW_THREADS;
    }
    if (made != from) Py_DECREF((PyObject *)from);
    return made;
}

PyArrayObject *tg_door_floats(tg_door *door) {
    int64_t bad;
    PyArrayObject *array = converted(door, NPY_FLOAT32, to_floats, &bad);
    if (array == NULL || bad < 0) return tg_frozen(array, door->given);
    Py_DECREF((PyObject *)array);
    return tg_door_refuse(door, bad, "finite numbers", "drop or repair what it belongs to");
}

PyArrayObject *tg_door_doubles(tg_door *door) {
    int64_t bad;
    return tg_frozen(converted(door, NPY_FLOAT64, to_doubles, &bad), door->given);
}

PyArrayObject *tg_door_whole(tg_door *door, int64_t low, int64_t high, const char *what) {
    int64_t bad;
    PyArrayObject *array = converted(door, NPY_INT64, to_whole, &bad);
    if (array == NULL) return NULL;
    tg_number type = {0};
    tg_number_of((PyArrayObject *)door->given, &type);
    const char *expected = type.kind == 'u' ? "numbers below 2^63" : "whole numbers";
    char range[96];
    if (bad < 0) {
        const int64_t *x = TG_I64(array), n = PyArray_SIZE(array);
        int inside = 1;
        for (int64_t i = 0; i < n; i++) inside &= (x[i] >= low) & (x[i] <= high);
        for (int64_t i = 0; !inside && bad < 0; i++)
            if (x[i] < low || x[i] > high) bad = i;
        snprintf(range, sizeof range, "%s in %lld..%lld", what == NULL ? "numbers" : what, (long long)low,
                 (long long)high);
        expected = range;
    }
    if (bad < 0) return tg_frozen(array, door->given);
    Py_DECREF((PyObject *)array);
    return tg_door_refuse(door, bad, expected, tg_check_writer);
}

/* ---- digits ---- */

/* Raise for a digit outside of what a schema allows. */
static void refuse_digit(const char *field, PyArrayObject *digits, const npy_intp *at, int64_t row,
                         int values, PyObject *file) {
    PyObject *number = number_text(digits, at);
    tg_error err;
    char expected[48];
    snprintf(expected, sizeof expected, "whole numbers in -1..%d", values - 1);
    if (number == NULL) return;
    tg_bad_field(&err, field, expected, tg_check_writer, "%.60s at config %lld, node %lld, column %lld",
                 utf8_of(number), (long long)row, (long long)at[1], (long long)at[2]);
    Py_DECREF(number);
    tg_raise_about(&err, file);
}

int tg_digits_intact(PyArrayObject *digits, const int64_t *rows, const int32_t *values, PyObject *file) {
    const npy_intp *dims = PyArray_DIMS(digits);
    const int64_t n = PyArray_SIZE(digits), D = dims[2];
    const int8_t *x = TG_I8(digits);
    int64_t bad = -1;
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t i = 0; i < n && bad < 0; i += D)
        for (int64_t d = 0; d < D; d++)
            if (x[i + d] < TG_DIGIT_MIN || x[i + d] >= values[d]) bad = bad < 0 ? i + d : bad;
    Py_END_ALLOW_THREADS;
    if (bad < 0) return 0;
    const npy_intp at[3] = {(npy_intp)(bad / D / dims[1]), (npy_intp)(bad / D % dims[1]),
                            (npy_intp)(bad % D)};
    refuse_digit("node_config_feat", digits, at, rows == NULL ? at[0] : rows[at[0]], values[at[2]], file);
    return -1;
}

/* Convert some configs, from number `begin` on, to `to`. 0, or -1 with an exception. */
static int some_digits(const tg_door *door, PyArrayObject *some, int64_t begin, const int32_t *values,
                       int8_t *to) {
    tg_number type;
    tg_number_of(some, &type);
    const int64_t n = PyArray_SIZE(some), K = PyArray_DIM(some, 1), D = PyArray_DIM(some, 2);
    const uint8_t *from = TG_U8(some);
    int64_t bad;
    double value = 0;
    Py_BEGIN_ALLOW_THREADS;
    bad = values == NULL ? tg_digits_from(type, from, n, to, &value)
                         : tg_digits_within(type, from, n, (int)D, values, to);
    Py_END_ALLOW_THREADS;
    if (bad < 0) return 0;
    PyObject *file = door->file == NULL ? Py_None : door->file;
    if (values == NULL) {
        tg_error err;
        tg_bad_digit(&err, door->field, begin * K * D + bad, K, value);
        tg_raise_about(&err, file);
        return -1;
    }
    const npy_intp at[3] = {(npy_intp)(bad / D / K), (npy_intp)(bad / D % K), (npy_intp)(bad % D)};
    refuse_digit(door->field, some, at, begin + at[0], values[at[2]], file);
    return -1;
}

PyArrayObject *tg_door_digits(tg_door *door, const int32_t *values) {
    if (tg_door_shape(door) < 0) return NULL;
    PyArrayObject *given = (PyArrayObject *)door->given;
    const npy_intp *dims = door->dims, C = dims[0], width = dims[1] * dims[2];
    PyArrayObject *made = tg_new_array(NPY_INT8, 3, dims);
    const int whole = PyArray_ISCARRAY_RO(given);
    const npy_intp row = width * PyArray_ITEMSIZE(given), step = whole || row == 0 ? C : 1 + BLOCK / row;
    for (npy_intp begin = 0; made != NULL && begin < C && width > 0; begin += step) {
        PyObject *part = PySequence_GetSlice(door->given, begin, begin + step < C ? begin + step : C);
        PyArrayObject *some = part == NULL ? NULL : native((PyArrayObject *)part);
        Py_XDECREF(part);
        if (some == NULL || some_digits(door, some, begin, values, TG_I8(made) + begin * width) < 0)
            Py_CLEAR(made);
        Py_XDECREF((PyObject *)some);
    }
    return made;
}

/* ---- rows ---- */

static PyArrayObject *rows_of_slice(PyObject *slice, int64_t count) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return NULL;
    const npy_intp n = PySlice_AdjustIndices((Py_ssize_t)count, &start, &stop, step);
    PyArrayObject *rows = tg_new_array(NPY_INT64, 1, &n);
    for (npy_intp i = 0; rows != NULL && i < n; i++) TG_I64(rows)[i] = (int64_t)(start + i * step);
    return rows;
}

static PyArrayObject *rows_of_mask(PyArrayObject *mask, int64_t count) {
    if (PyArray_DIM(mask, 0) != count) {
        PyErr_Format(PyExc_IndexError, "a mask of %zd entries for %lld configs", PyArray_DIM(mask, 0),
                     (long long)count);
        return NULL;
    }
    const npy_bool *chosen = PyArray_DATA(mask);
    npy_intp n = 0;
    for (int64_t i = 0; i < count; i++) n += chosen[i] != 0;
    PyArrayObject *rows = tg_new_array(NPY_INT64, 1, &n);
    for (int64_t i = 0, k = 0; rows != NULL && i < count; i++)
        if (chosen[i]) TG_I64(rows)[k++] = i;
    return rows;
}

/* *bad: the first number that is no row, or -1. */
static PyArrayObject *rows_of_numbers(PyArrayObject *from, int64_t count, int64_t *bad) {
    PyArrayObject *rows = tg_new_array(NPY_INT64, 1, PyArray_DIMS(from));
    tg_number type;
    tg_number_of(from, &type);
    if (rows == NULL) return NULL;
    const npy_intp n = PyArray_SIZE(from);
    int64_t *row = TG_I64(rows);
    *bad = tg_whole_from(type, PyArray_DATA(from), n, row);
    for (npy_intp i = 0; i < n && *bad < 0; i++) {
        if (row[i] < -count || row[i] >= count) *bad = i;
        else if (row[i] < 0) row[i] += count;
    }
    return rows;
}

PyArrayObject *tg_row_numbers(PyObject *rows, int64_t count) {
    if (PySlice_Check(rows)) return rows_of_slice(rows, count);
    PyArrayObject *given = (PyArrayObject *)PyArray_FromAny(rows, NULL, 1, 1, 0, NULL);
    PyArrayObject *from = given == NULL ? NULL : native(given), *result = NULL;
    tg_number type;
    int64_t bad = -1;
    if (from != NULL && tg_number_of(from, &type) && (type.kind != 'f' || PyArray_SIZE(from) == 0))
        result = type.kind == 'b' ? rows_of_mask(from, count) : rows_of_numbers(from, count, &bad);
    else if (from != NULL)
        PyErr_SetString(PyExc_IndexError, "arrays used as indices must be of integer (or boolean) type");
    if (result != NULL && bad >= 0) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for %lld configs",
                     (long long)TG_I64(result)[bad], (long long)count);
        Py_CLEAR(result);
    }
    Py_XDECREF((PyObject *)given);
    Py_XDECREF((PyObject *)from);
    return result;
}

/* ---- for Python ---- */

/* What is given as an array; for as many dimensions as letters, at most three. */
static int open_door(tg_door *door, PyObject *given) {
    if (strlen(door->letters) > 3) {
        PyErr_SetString(PyExc_ValueError, "letters: expected at most three");
        return -1;
    }
    for (int i = 0; i < 3; i++) door->dims[i] = -1;
    door->given = tg_numbers(door->field, given);
    return door->given == NULL ? -1 : 0;
}

/* as_floats(field, value, letters, sizes) */
static PyObject *as_floats(PyObject *self, PyObject *args) {
    (void)self;
    tg_door door = {0};
    PyObject *given, *sizes;
    if (!PyArg_ParseTuple(args, "O&OO&O!:as_floats", tg_take_text, &door.field, &given, tg_take_text,
                          &door.letters, &PyTuple_Type, &sizes) ||
        open_door(&door, given) < 0)
        return NULL;
    const Py_ssize_t n = PyTuple_Size(sizes), most = (Py_ssize_t)strlen(door.letters);
    for (Py_ssize_t i = 0; i < n && i < most; i++) door.dims[i] = PyLong_AsSsize_t(PyTuple_GetItem(sizes, i));
    PyObject *array = PyErr_Occurred() ? NULL : (PyObject *)tg_door_floats(&door);
    Py_DECREF(door.given);
    return array;
}

/* as_whole(field, value, letters) */
static PyObject *as_whole(PyObject *self, PyObject *args) {
    (void)self;
    tg_door door = {0};
    PyObject *given;
    if (!PyArg_ParseTuple(args, "O&OO&:as_whole", tg_take_text, &door.field, &given, tg_take_text,
                          &door.letters) ||
        open_door(&door, given) < 0)
        return NULL;
    PyObject *array = (PyObject *)tg_door_whole(&door, INT64_MIN, INT64_MAX, NULL);
    Py_DECREF(door.given);
    return array;
}

int tg_take_values(PyObject *given, void *to) {
    tg_digit_values *v = to;
    *v = (tg_digit_values){.n = -1};
    if (given == Py_None) return 1;
    v->n = PyTuple_Check(given) ? PyTuple_Size(given) : TG_MOST_DIGITS + 1;
    if (v->n > TG_MOST_DIGITS)
        PyErr_SetString(PyExc_ValueError, "values: expected a tuple of at most 64 numbers");
    for (Py_ssize_t i = 0; i < v->n && !PyErr_Occurred(); i++) {
        const long value = PyLong_AsLong(PyTuple_GetItem(given, i));
        if (!PyErr_Occurred() && (value < 0 || value > TG_MOST_DIGIT_VALUES))
            PyErr_Format(PyExc_ValueError, "values: expected 0..%d, got %ld", TG_MOST_DIGIT_VALUES, value);
        else v->of[i] = (int32_t)value;
    }
    return PyErr_Occurred() == NULL;
}

/* as_digits(field, value (C, K, D), values (D,) or None) */
static PyObject *as_digits(PyObject *self, PyObject *args) {
    (void)self;
    tg_door door = {.letters = "CKD"};
    tg_digit_values values;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "O&OO&:as_digits", tg_take_text, &door.field, &given, tg_take_values,
                          &values) ||
        open_door(&door, given) < 0)
        return NULL;
    door.dims[2] = values.n < 0 ? TG_DIGITS : (npy_intp)values.n;
    PyObject *array = (PyObject *)tg_door_digits(&door, values.n < 0 ? NULL : values.of);
    Py_DECREF(door.given);
    return array;
}

/* Rows of an argument that is an array, with errors that name it and `whose` rows they are. */
static PyArrayObject *checked_rows(const tg_door *door, PyArrayObject *from, int64_t count,
                                   const char *whose) {
    tg_number type = {0};
    const npy_intp *dims = PyArray_DIMS(from);
    const int ndim = PyArray_NDIM(from), known = tg_number_of(from, &type);
    char expected[64], found[128], shape[96];
    shape_text(shape, sizeof shape, ndim, dims, NULL);
    if (ndim != 1 || !known || (type.kind == 'f' && dims[0] > 0)) { /* an empty list is one of floats */
        PyObject *dtype = PyObject_Str((PyObject *)PyArray_DESCR(from));
        snprintf(found, sizeof found, "%.20s %s", utf8_of(dtype), shape);
        Py_XDECREF(dtype);
        return refuse(door, "a slice, a mask (C,) or a list of row numbers", whose, found);
    }
    if (type.kind == 'b' && dims[0] != count) {
        snprintf(expected, sizeof expected, "a mask of shape (%lld,)", (long long)count);
        snprintf(found, sizeof found, "shape %s", shape);
        return refuse(door, expected, whose, found);
    }
    if (type.kind == 'b') return rows_of_mask(from, count);
    int64_t bad = -1;
    PyArrayObject *rows = rows_of_numbers(from, count, &bad);
    if (rows == NULL || bad < 0) return rows;
    Py_DECREF((PyObject *)rows);
    snprintf(expected, sizeof expected, "numbers in %lld..%lld", -(long long)count, (long long)count - 1);
    return tg_door_refuse(door, bad, expected, whose);
}

/* row_numbers(name, rows, count, whose) */
static PyObject *row_numbers(PyObject *self, PyObject *args) {
    (void)self;
    tg_door door = {.letters = "n"};
    const char *whose;
    PyObject *given;
    long long count;
    if (!PyArg_ParseTuple(args, "O&OLO&:row_numbers", tg_take_text, &door.field, &given, &count, tg_take_text,
                          &whose))
        return NULL;
    if (PySlice_Check(given)) return (PyObject *)rows_of_slice(given, count);
    if (open_door(&door, given) < 0) return NULL;
    PyArrayObject *from = native((PyArrayObject *)door.given);
    PyArrayObject *rows = from == NULL ? NULL : checked_rows(&door, from, count, whose);
    Py_XDECREF((PyObject *)from);
    Py_DECREF(door.given);
    return (PyObject *)rows;
}

PyMethodDef tg_array_methods[] = {
    {"as_floats", as_floats, METH_VARARGS,
     PyDoc_STR("as_floats(field, value, letters, sizes): finite float32, read-only, of as many dimensions as "
               "letters; the first ones have these sizes, -1: any.")},
    {"as_whole", as_whole, METH_VARARGS, PyDoc_STR("as_whole(field, value, letters): int64, read-only.")},
    {"as_digits", as_digits, METH_VARARGS,
     PyDoc_STR("as_digits(field, value (C, K, D), values): int8 in -1..values[d]-1; None: of layouts.")},
    {"row_numbers", row_numbers, METH_VARARGS,
     PyDoc_STR(
         "row_numbers(name, rows, count, whose): int64 in 0..count-1 of a slice, a mask or whole numbers; "
         "errors name the argument and whose rows these are.")},
    {NULL, NULL, 0, NULL},
};
