#include "py/pycore.h"

PyMethodDef tg_rank_methods[] = {
    {NULL, NULL, 0, NULL},
};
