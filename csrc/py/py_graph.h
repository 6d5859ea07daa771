/* The Python type _core.Graph: what a measured graph has, checked once. The graphs of tpugraphs.data are views of
   it, with documentation. */
#ifndef TG_PY_GRAPH_H
#define TG_PY_GRAPH_H

#include "py/py_digits.h"

/* Its fields. Arrays first: read-only, None where a graph has none. */
typedef enum {
    TG_G_NODE_FEAT,   /* (N,F) float32 */
    TG_G_OPCODE,      /* (N,) uint8 */
    TG_G_EDGES,       /* (E,2) int64 */
    TG_G_SPLITS,      /* (1,S) int64, of published graphs */
    TG_G_CONFIG_IDS,  /* (K,) int64 */
    TG_G_GRAPH_FEAT,  /* (G,) float32 */
    TG_G_CONFIG_FEAT, /* (C,T) float32 */
    TG_G_RUNTIME,     /* (C,) int64 or float64 */
    TG_G_NORMALIZERS, /* (C,) int64, of tile graphs */
    TG_G_VALID,       /* (C,) bool */
    TG_G_REPEATS,     /* (C,R) float64 */
    TG_G_ARRAYS,
    TG_G_DIGITS = TG_G_ARRAYS, /* _core.Digits */
    TG_G_CHECKED, /* bytes, one tg_column_kind for every column of node, graph and config features: their values
                     were checked as those of such columns; or None */
    TG_G_SCHEMA,
    TG_G_ABOUT,
    TG_G_NAME,
    TG_G_COLLECTION,
    TG_G_PATH,
    TG_G_PACK, /* what reads the arrays when they are first asked for, or None */
    TG_G_FIELDS
} tg_graph_field;

extern const struct tg_graph_field_spec {
    const char *name;
    int type, ndim; /* of arrays */
} tg_graph_fields[TG_G_FIELDS];

typedef struct tg_py_graph {
    PyObject_HEAD PyObject *field[TG_G_FIELDS]; /* NULL: not set yet, or still in the pack */
    PyObject *weak;                             /* references to the graph */
} tg_py_graph;

int tg_add_graph_type(PyObject *module);

/* A field, borrowed; an array of a pack is read first. NULL with an exception. */
PyObject *tg_graph_get(tg_py_graph *self, tg_graph_field field);

/* Check the arrays `given` (a dict of arrays of numbers, and Digits) and hold them. `columns`: names of columns by
   field, or NULL; `schema`: one that the arrays must fit, or NULL. 0, or -1 with an exception. */
int tg_graph_take(tg_py_graph *self, tg_state *state, PyObject *given, PyObject *columns, PyObject *schema);

#endif
