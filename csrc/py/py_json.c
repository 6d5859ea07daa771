/* Specs cross the border as JSON, as text or as a tree of the same values; what the core declares goes back as dicts. */
#include "py/py_json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tree being made of Python values. Nothing here runs Python code, so that nothing changes meanwhile. */
typedef struct maker {
    const char *field;
    tg_status code;
    tg_json_value *next; /* NULL while values are counted */
    int64_t count;
} maker;

static int refuse(const maker *m, const char *expected, const char *found) {
    tg_error err;
    if (PyErr_Occurred()) return -1;
    tg_refuse(&err, m->code, m->field, expected, "%s", found);
    tg_raise(&err, NULL);
    return -1;
}

static int refuse_type(const maker *m, PyObject *value) {
    PyObject *name = PyType_GetName(Py_TYPE(value));
    const char *text = name == NULL ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
    const int status = refuse(m, "names, numbers, and lists and objects of them", text == NULL ? "?" : text);
    Py_XDECREF(name);
    return status;
}

/* The number of a NumPy scalar; 0 if it has none. */
static int scalar_number(PyObject *value, double *number) {
    PyArray_Descr *wanted = PyArray_DescrFromType(NPY_DOUBLE);
    const int fine = PyArray_IsScalar(value, Number) && !PyArray_IsScalar(value, ComplexFloating) &&
                     PyArray_CastScalarToCtype(value, number, wanted) == 0;
    Py_XDECREF((PyObject *)wanted);
    return fine;
}

/* Literals, numbers and text into `to`: 1, 0 for another value, -1 with an exception. */
static int take_plain(const maker *m, PyObject *value, tg_json_value *to) {
    if (value == Py_None || PyBool_Check(value) || PyArray_IsScalar(value, Bool)) {
        to->kind = TG_JSON_LITERAL;
        to->text = value == Py_None ? "null" : PyObject_IsTrue(value) ? "true" : "false";
        to->size = strlen(to->text);
        return 1;
    }
    if (PyUnicode_Check(value)) {
        Py_ssize_t size;
        to->kind = TG_JSON_STRING;
        if ((to->text = PyUnicode_AsUTF8AndSize(value, &size)) == NULL) {
            PyErr_Clear();
            return refuse(m, "text that UTF-8 can hold", "a lone surrogate");
        }
        to->size = (size_t)size;
        return 1;
    }
    to->kind = TG_JSON_NUMBER;
    if (!tg_plain_number(value, &to->number) && !scalar_number(value, &to->number)) return 0;
    to->is_whole = to->number == floor(to->number) && fabs(to->number) < 0x1p63 && !PyFloat_Check(value);
    if (to->is_whole) to->whole = (int64_t)to->number;
    return 1;
}

static int make(maker *m, PyObject *value, const char *key, size_t key_size, int depth, tg_json_value **made);

/* The entry of a list or dict. */
static int add_entry(maker *m, PyObject *value, const char *key, size_t key_size, int depth,
                     tg_json_value *inside, tg_json_value **last) {
    tg_json_value *entry;
    if (make(m, value, key, key_size, depth + 1, &entry) < 0) return -1;
    if (m->next == NULL) return 0;
    if (*last == NULL) inside->first = entry;
    else (*last)->next = entry;
    inside->count++;
    *last = entry;
    return 0;
}

static int add_dict(maker *m, PyObject *dict, int depth, tg_json_value *inside) {
    PyObject *key, *value;
    tg_json_value *last = NULL;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        Py_ssize_t size;
        const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &size) : NULL;
        if (text == NULL) {
            PyErr_Clear();
            return refuse(m, "text as the keys of objects",
                          PyUnicode_Check(key) ? "a lone surrogate" : "another key");
        }
        if (add_entry(m, value, text, (size_t)size, depth, inside, &last) < 0) return -1;
    }
    return 0;
}

static int add_items(maker *m, PyObject *list, int depth, tg_json_value *inside) {
    const int tuple = PyTuple_Check(list);
    const Py_ssize_t n = tuple ? PyTuple_Size(list) : PyList_Size(list);
    tg_json_value *last = NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (add_entry(m, tuple ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i), NULL, 0, depth, inside,
                      &last) < 0)
            return -1;
    return 0;
}

/* Count a value and those in it, or, in the second round, write them. */
static int make(maker *m, PyObject *value, const char *key, size_t key_size, int depth,
                tg_json_value **made) {
    tg_json_value counted = {.key = key, .key_size = key_size}, *to = m->next == NULL ? &counted : m->next++;
    *to = counted;
    *made = to;
    if (++m->count > TG_JSON_VALUES) return refuse(m, "at most 2^20 values", "more");
    if (depth > TG_JSON_DEPTH) return refuse(m, "lists and objects at most 64 deep", "deeper ones");
    const int dict = PyDict_Check(value);
    if (dict || PyList_Check(value) || PyTuple_Check(value)) {
        to->kind = dict ? TG_JSON_OBJECT : TG_JSON_ARRAY;
        return dict ? add_dict(m, value, depth, to) : add_items(m, value, depth, to);
    }
    const int plain = take_plain(m, value, to);
    return plain == 0 ? refuse_type(m, value) : plain < 0 ? -1 : 0;
}

static int read_text(PyObject *text, const char *field, tg_status code, tg_json_tree *tree) {
    Py_ssize_t size;
    tg_error err;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (utf8 == NULL) return -1;
    if (tg_json_read(tree, field, utf8, (size_t)size, &err) == TG_OK) return 0;
    if (err.code == TG_E_DATA) err.code = code;
    tg_json_free(tree);
    tg_raise(&err, NULL);
    return -1;
}

int tg_py_json(PyObject *value, const char *field, tg_status code, tg_json_tree *tree) {
    maker m = {.field = field, .code = code};
    tg_json_value *root;
    *tree = (tg_json_tree){NULL, NULL};
    if (PyUnicode_Check(value)) return read_text(value, field, code, tree);
    if (make(&m, value, NULL, 0, 0, &root) < 0) return -1;
    if ((m.next = tree->block = malloc((size_t)m.count * sizeof *m.next)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    m.count = 0;
    tree->root = m.next;
    return make(&m, value, NULL, 0, 0, &root);
}

/* ---- what is declared ---- */

PyObject *tg_py_words(const char *choices) {
    char word[64];
    int n = 0;
    while (tg_attr_word(choices, n, word, sizeof word)) n++;
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple != NULL && i < n; i++) {
        tg_attr_word(choices, i, word, sizeof word);
        PyObject *text = PyUnicode_FromString(word);
        if (text == NULL) Py_CLEAR(tuple);
        else PyTuple_SetItem(tuple, i, text);
    }
    return tuple;
}

/* A number as Python has those of the attribute's kind. */
static PyObject *number_of(const tg_attr *attr, double number) {
    char word[64] = "";
    if (attr->kind == TG_ATTR_CHOICE && tg_attr_word(attr->choices, (int)number, word, sizeof word))
        return PyUnicode_FromString(word);
    if (attr->kind == TG_ATTR_FLAG) return PyBool_FromLong(number != 0);
    return attr->kind == TG_ATTR_REAL ? PyFloat_FromDouble(number) : PyLong_FromDouble(number);
}

static int set(PyObject *dict, const char *key, PyObject *value) {
    const int status = value == NULL ? -1 : PyDict_SetItemString(dict, key, value);
    Py_XDECREF(value);
    return status;
}

static PyObject *describe(const tg_attr *attr) {
    const int list = attr->kind == TG_ATTR_ITEMS || attr->kind == TG_ATTR_NUMBERS;
    const int ranged =
        attr->kind == TG_ATTR_REAL || attr->kind == TG_ATTR_INT || attr->kind == TG_ATTR_NUMBERS;
    PyObject *dict =
        Py_BuildValue("{s:s,s:s,s:s,s:O}", "name", attr->name, "kind", tg_attr_kind_name(attr->kind), "doc",
                      attr->doc, "required", attr->required ? Py_True : Py_False);
    if (dict == NULL) return NULL;
    const int none = attr->required || list || isnan(attr->fallback);
    int status = set(dict, "default", none ? Py_NewRef(Py_None) : number_of(attr, attr->fallback));
    if (status == 0 && ranged) status = set(dict, "low", number_of(attr, attr->low));
    if (status == 0 && ranged) status = set(dict, "high", number_of(attr, attr->high));
    if (status == 0 && attr->kind == TG_ATTR_CHOICE)
        status = set(dict, "choices", tg_py_words(attr->choices));
    if (status == 0 && attr->param != NULL)
        status = set(dict, "needs", Py_BuildValue("{s:s}", attr->choice, attr->param));
    if (status < 0) Py_CLEAR(dict);
    return dict;
}

PyObject *tg_py_attrs(const tg_attr *attrs, int most) {
    PyObject *list = PyList_New(0);
    for (int a = 0; list != NULL && a < tg_attrs_count(attrs, most); a++)
        tg_append(&list, describe(&attrs[a]));
    return list;
}

/* ---- attributes that Python declares: dicts of the same form ---- */

static int take_bound(PyObject *dict, const char *key, double *bound) {
    PyObject *value = PyDict_GetItemString(dict, key);
    if (value == NULL || value == Py_None || tg_plain_number(value, bound) || scalar_number(value, bound))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: expected a number, got %R", key, value);
    return -1;
}

/* A row of "kind" and, where it has them, "low", "high" and "choices"; `words` is the text of these, for the caller to
   free, also after an error. 0, or -1 with an exception. */
static int take_row(PyObject *dict, tg_attr *attr, PyObject **words) {
    PyObject *name = PyDict_Check(dict) ? PyDict_GetItemString(dict, "kind") : NULL;
    PyObject *choices = name == NULL ? NULL : PyDict_GetItemString(dict, "choices");
    const char *kind = name == NULL || !PyUnicode_Check(name) ? "" : tg_utf8(name, NULL);
    const int found = kind == NULL ? -1 : tg_attr_kind_of(kind);
    *attr = (tg_attr){.name = "", .kind = (tg_attr_kind)found, .low = -DBL_MAX, .high = DBL_MAX};
    *words = NULL;
    if (found < 0 || (attr->kind == TG_ATTR_CHOICE && choices == NULL)) {
        if (kind != NULL) PyErr_SetString(PyExc_TypeError, "attribute: expected a dict as those of ops()");
        return -1;
    }
    if (attr->kind == TG_ATTR_CHOICE) {
        PyObject *bar = PyUnicode_FromString("|");
        *words = bar == NULL ? NULL : PyUnicode_Join(bar, choices);
        Py_XDECREF(bar);
        return *words == NULL || (attr->choices = tg_utf8(*words, NULL)) == NULL ? -1 : 0;
    }
    return take_bound(dict, "low", &attr->low) < 0 || take_bound(dict, "high", &attr->high) < 0 ? -1 : 0;
}

/* Whether the attribute takes the one entry of a tuple. Flags must be True or False, not 1 or 0. */
static int takes(const tg_attr *attr, PyObject *entry) {
    tg_json_tree tree;
    tg_attr_value taken;
    int fine = 0;
    if (tg_py_json(entry, "value", TG_E_CONFIG, &tree) < 0)
        PyErr_Clear(); /* nothing that a text could hold */
    else if (attr->kind != TG_ATTR_FLAG || tree.root->first->kind == TG_JSON_LITERAL)
        fine = tg_attr_read(attr, tree.root->first, "", TG_E_CONFIG, &taken, NULL) == TG_OK;
    tg_json_free(&tree);
    return fine;
}

static PyObject *attr_takes(PyObject *self, PyObject *args) {
    PyObject *dict, *value, *words, *result = NULL;
    tg_attr attr;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &dict, &value)) return NULL;
    PyObject *entry = PyTuple_Pack(1, value); /* bare text would be read as JSON */
    if (entry == NULL) return NULL;
    if (take_row(dict, &attr, &words) == 0) result = PyBool_FromLong(takes(&attr, entry));
    Py_XDECREF(words);
    Py_DECREF(entry);
    return result;
}

static PyObject *attr_expects(PyObject *self, PyObject *dict) {
    char text[1024];
    PyObject *words;
    tg_attr attr;
    (void)self;
    const int status = take_row(dict, &attr, &words);
    if (status == 0) tg_attr_expect(&attr, text, sizeof text);
    Py_XDECREF(words);
    return status < 0                  ? NULL
           : attr.kind == TG_ATTR_FLAG ? PyUnicode_FromString("True or False")
                                       : PyUnicode_FromString(text);
}

PyMethodDef tg_json_methods[] = {
    {"attr_takes", attr_takes, METH_VARARGS,
     PyDoc_STR(
         "attr_takes(attr, value) -> whether an attribute takes a value; it is a dict as those of ops().")},
    {"attr_expects", attr_expects, METH_O,
     PyDoc_STR("attr_expects(attr) -> what an attribute takes, in words.")},
    {NULL, NULL, 0, NULL},
};
