#include "py/pycore.h"

PyMethodDef tg_model_methods[] = {
    {NULL, NULL, 0, NULL},
};

int tg_add_model_types(PyObject *module) {
    (void)module;
    return 0;
}
