/* Specs: from Python to the core as JSON, and what the core declares as Python values. */
#ifndef TG_PY_JSON_H
#define TG_PY_JSON_H

#include "py/pycore.h"

#include "base/attr.h"

/* The tree of a text in JSON, or of a value of dicts, lists, tuples, numbers (NumPy's too) and text, which must stay
   while the tree is read. 0, or -1 with an error of `code` about `field`. Free it also then. */
int tg_py_json(PyObject *value, const char *field, tg_status code, tg_json_tree *tree);

/* Declared attributes: a list of dicts "name", "kind", "doc", "required", "default", and where they have them "low",
   "high", "choices", "needs" ({choice: parameter}). */
PyObject *tg_py_attrs(const tg_attr *attrs, int most);

/* Attributes that Python declares. */
extern PyMethodDef tg_json_methods[];

/* A new tuple of the words in "a|b". */
PyObject *tg_py_words(const char *choices);

#endif
