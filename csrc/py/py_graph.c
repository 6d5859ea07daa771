#include "py/pycore.h"

PyMethodDef tg_graph_methods[] = {
    {NULL, NULL, 0, NULL},
};
