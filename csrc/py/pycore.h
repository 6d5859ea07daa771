/* What every file in py/ shares: Python and NumPy headers, array checks, exceptions, cancellation.
   Rules: no silent cast or copy of an argument; exceptions are raised here and nowhere else; the GIL is
   released around every call into the core that takes longer than microseconds. */
#ifndef TG_PYCORE_H
#define TG_PYCORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL tpugraphs_array_api
#ifndef TG_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "base/cancel.h"
#include "base/status.h"
#include "kernels/kernels.h"

/* What one import of the core owns: the state of its module. */
typedef struct tg_state {
    PyTypeObject *digits, *graph, *model_graph, *prepared, *model, *workspace;
} tg_state;

/* The state of the module that the type of `object`, one of the core's own, belongs to. */
tg_state *tg_state_of(PyObject *object);

/* Raise the tpugraphs exception for `err`; `file` (may be NULL) names the file it is about. Returns NULL.
   For TG_E_CANCELLED the pending Python exception (KeyboardInterrupt) is kept. */
PyObject *tg_raise(const tg_error *err, const char *file);
/* The same about a file or a graph of that name, text of Python or None. */
PyObject *tg_raise_about(const tg_error *err, PyObject *name);

/* `object` as a C-contiguous, aligned array of `typenum` with `ndim` dimensions. dims[i] >= 0 is demanded,
   -1 takes any length (filled in). `shape` is the shape as the docs write it, e.g. "(N, 140)".
   Returns a borrowed reference or NULL with ShapeError set:
   "x: expected float32 array of shape (N, 140), got float64 (812, 139)". */
PyArrayObject *tg_array(PyObject *object, const char *name, int typenum, int ndim, npy_intp *dims,
                        const char *shape);

/* Whether tg_array takes it. */
int tg_fits(PyObject *object, int typenum, int ndim, const npy_intp *dims);

/* A copy nobody else can write to (a new reference). For arrays of indices, which are checked once and used
   later without the GIL. */
PyArrayObject *tg_private_copy(PyArrayObject *array);

/* A new C-contiguous array, uninitialised. */
PyArrayObject *tg_new_array(int typenum, int ndim, const npy_intp *dims);

/* Where a result of shape `dims` goes: a new array if `out` is NULL or None, else `out` itself, which must be a
   writable array as tg_array demands it and share no memory with the `n` arrays `read` (NULL among them counts
   for nothing) that are still read while it is written. At most 4 dimensions. A new reference, or NULL with an exception set. */
PyArrayObject *tg_out_array(PyObject *out, const char *name, int typenum, int ndim, const npy_intp *dims,
                            int n, PyArrayObject *const *read);

/* Whether two C-contiguous arrays share memory. */
int tg_overlap(PyArrayObject *a, PyArrayObject *b);

/* A new array over memory owned by `owner` (a new reference is taken); writable if asked. */
PyArrayObject *tg_view(int typenum, int ndim, const npy_intp *dims, void *data, PyObject *owner,
                       int writable);

/* Append an item, which is taken over, to a new list. Without an item or memory the list becomes NULL. */
void tg_append(PyObject **list, PyObject *item);

/* Whether `object` is a plain number: nothing that runs Python code. One beyond double becomes infinite. */
int tg_plain_number(PyObject *object, double *number);

/* Add a type to the module; *type (may be NULL), a member of its state, keeps it. 0, or -1 with an exception. */
int tg_add_type(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **type);

/* Text of Python as UTF-8, and its length; NULL with an exception, also for halves of surrogate pairs. */
const char *tg_utf8(PyObject *text, Py_ssize_t *length);

/* For PyArg_ParseTuple: that text (const char *). */
int tg_take_text(PyObject *text, void *utf8);

/* For PyArg_ParseTuple: the kernels (const tg_kernels *) of the precision called so. */
int tg_take_kernels(PyObject *precision, void *kernels);

/* A cancel record whose poll runs pending Python signal handlers (takes the GIL). */
tg_cancel tg_python_cancel(void);

/* Each room's table of functions and its types; module.c adds them all. */
extern PyMethodDef tg_base_methods[], tg_npz_methods[], tg_array_methods[], tg_config_methods[],
    tg_feature_methods[], tg_prune_methods[], tg_rank_methods[], tg_optim_methods[], tg_model_methods[],
    tg_plan_methods[], tg_product_methods[], tg_file_methods[], tg_pack_methods[], tg_check_methods[],
    tg_hlo_methods[], tg_store_methods[], tg_choice_methods[], tg_column_methods[];
int tg_add_model_types(PyObject *module);

#define TG_F32(a) ((float *)PyArray_DATA(a))
#define TG_F64(a) ((double *)PyArray_DATA(a))
#define TG_I64(a) ((int64_t *)PyArray_DATA(a))
#define TG_I32(a) ((int32_t *)PyArray_DATA(a))
#define TG_I8(a)  ((int8_t *)PyArray_DATA(a))
#define TG_U8(a)  ((uint8_t *)PyArray_DATA(a))

#endif
