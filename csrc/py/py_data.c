#include "py/pycore.h"

PyMethodDef tg_data_methods[] = {
    {NULL, NULL, 0, NULL},
};
