/* Specs cross the border as JSON text; what the core declares goes back as dicts. */
#include "py/py_json.h"

#include <string.h>

/* For json.dumps: the plain value of a NumPy number. */
static PyObject *plain(PyObject *self, PyObject *object) {
    (void)self;
    if (PyArray_CheckScalar(object)) return PyObject_CallMethod(object, "item", NULL);
    PyObject *name = PyType_GetName(Py_TYPE(object));
    if (name != NULL) PyErr_SetObject(PyExc_TypeError, name);
    Py_XDECREF(name);
    return NULL;
}

static PyObject *dumps(PyObject *value) {
    static PyMethodDef method = {"plain", plain, METH_O, NULL};
    PyObject *json = PyImport_ImportModule("json"), *text = NULL;
    PyObject *function = json == NULL ? NULL : PyObject_GetAttrString(json, "dumps");
    PyObject *hook = function == NULL ? NULL : PyCFunction_New(&method, NULL);
    PyObject *args = hook == NULL ? NULL : Py_BuildValue("(O)", value);
    PyObject *options = args == NULL ? NULL
                                     : Py_BuildValue("{s:O,s:O,s:O}", "default", hook, "allow_nan", Py_False,
                                                     "ensure_ascii", Py_False);
    if (options != NULL) text = PyObject_Call(function, args, options);
    Py_XDECREF(options);
    Py_XDECREF(args);
    Py_XDECREF(hook);
    Py_XDECREF(function);
    Py_XDECREF(json);
    return text;
}

/* The exception that is set, as an error of `code` about the field. */
static int not_json(const char *field, tg_status code) {
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_RecursionError))
        return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value == NULL ? NULL : PyObject_Str(value);
    PyObject *bytes = text == NULL ? NULL : PyUnicode_AsEncodedString(text, "utf-8", "replace");
    tg_error err;
    PyErr_Clear();
    tg_refuse(&err, code, field, "names, finite numbers and lists of them", "%.150s",
              bytes == NULL ? "?" : PyBytes_AsString(bytes));
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    tg_raise(&err, NULL);
    return -1;
}

int tg_py_json(PyObject *value, const char *field, tg_status code, tg_json_tree *tree) {
    *tree = (tg_json_tree){NULL, NULL};
    PyObject *text = PyUnicode_Check(value) ? Py_NewRef(value) : dumps(value);
    if (text == NULL) return not_json(field, code);
    PyObject *bytes = PyUnicode_AsUTF8String(text);
    Py_DECREF(text);
    if (bytes == NULL) return not_json(field, code);
    tg_error err;
    const tg_status status =
        tg_json_read(tree, field, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes), &err);
    Py_DECREF(bytes);
    if (status == TG_OK) return 0;
    if (err.code == TG_E_DATA) err.code = code;
    tg_json_free(tree);
    tg_raise(&err, NULL);
    return -1;
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
    static const char *const kinds[TG_ATTR_KINDS] = {
#define KIND(id, name) name,
        TG_ATTR_LIST(KIND)
#undef KIND
    };
    const int list = attr->kind == TG_ATTR_COLUMNS || attr->kind == TG_ATTR_NUMBERS;
    const int ranged =
        attr->kind == TG_ATTR_REAL || attr->kind == TG_ATTR_INT || attr->kind == TG_ATTR_NUMBERS;
    PyObject *dict = Py_BuildValue("{s:s,s:s,s:s,s:O}", "name", attr->name, "kind", kinds[attr->kind], "doc",
                                   attr->doc, "required", attr->required ? Py_True : Py_False);
    if (dict == NULL) return NULL;
    int status =
        set(dict, "default", attr->required || list ? Py_NewRef(Py_None) : number_of(attr, attr->fallback));
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
