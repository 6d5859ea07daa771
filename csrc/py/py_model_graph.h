/* The Python type _core.ModelGraph, shared by the model and the single-op entries. */
#ifndef TG_PY_MODEL_GRAPH_H
#define TG_PY_MODEL_GRAPH_H

#include "py/pycore.h"

#include "model/graph.h"

enum { TG_GRAPH_ARGS = 8, TG_GRAPH_KEPT = 6 };
typedef struct tg_py_model_graph {
    PyObject_HEAD tg_graph graph;
    PyObject
        *keep[TG_GRAPH_KEPT]; /* node_feat, node_opcode, layout_digits, digits, config_feat, graph_feat */
    PyObject *base;           /* the Graph that owns all but the configs, or NULL */
    int cut;                  /* a segment of base, of which only the arrays are */
} tg_py_model_graph;

int tg_add_model_graph_type(PyObject *module);

/* A new, empty Graph of this type, to be filled by C. Its digits look up `digit_rows` rows; 0: the published digits.
   NULL with an exception. */
tg_py_model_graph *tg_py_model_graph_new(PyTypeObject *type, int digit_rows);
/* The configs of a graph that has none, either of which may be None; 0, or -1 with an exception. */
int tg_py_model_graph_configs(tg_py_model_graph *self, PyObject *digits, PyObject *config_feat);

#endif
