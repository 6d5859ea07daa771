/* Pruning over NumPy arrays. */
#include "py/pycore.h"

#include <string.h>

#include "graph/prune.h"

static PyObject *copied(int ndim, const npy_intp *dims, const int64_t *data, npy_intp items) {
    PyArrayObject *array = tg_new_array(NPY_INT64, ndim, dims);
    if (array != NULL && items > 0) memcpy(PyArray_DATA(array), data, (size_t)items * sizeof *data);
    return (PyObject *)array;
}

/* prune(edge_index, num_nodes, config_nodes, method, hops, dummies) -> nodes, edge_index, config_nodes */
static PyObject *prune(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *edges, *configs;
    long long N, hops;
    const char *method;
    int dummies;
    if (!PyArg_ParseTuple(args, "OLOO&Lp:prune", &edges, &N, &configs, tg_take_text, &method, &hops,
                          &dummies))
        return NULL;
    npy_intp e[2] = {-1, 2}, k[1] = {-1};
    PyArrayObject *edge_index = tg_array(edges, "edge_index", NPY_INT64, 2, e, "(E, 2)");
    if (edge_index == NULL) return NULL;
    PyArrayObject *config_nodes = tg_array(configs, "config_nodes", NPY_INT64, 1, k, "(K,)");
    if (config_nodes == NULL) return NULL;
    config_nodes = tg_private_copy(config_nodes);
    if (config_nodes == NULL) return NULL;
    tg_prune_input in = {N, e[0], k[0], TG_I64(edge_index), TG_I64(config_nodes), hops, dummies};
    tg_pruned out;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_prune(&out, method, &in, &err);
    Py_END_ALLOW_THREADS;
    Py_DECREF(config_nodes);
    if (status != TG_OK) return tg_raise(&err, NULL);
    npy_intp n[1] = {(npy_intp)out.N};
    e[0] = (npy_intp)out.E;
    PyObject *nodes = copied(1, n, out.nodes, n[0]);
    PyObject *kept_edges = copied(2, e, out.edge_index, 2 * e[0]);
    PyObject *kept_configs = copied(1, k, out.config_nodes, k[0]);
    tg_pruned_free(&out);
    PyObject *result = NULL;
    if (nodes != NULL && kept_edges != NULL && kept_configs != NULL)
        result = PyTuple_Pack(3, nodes, kept_edges, kept_configs);
    Py_XDECREF((PyObject *)nodes);
    Py_XDECREF(kept_edges);
    Py_XDECREF(kept_configs);
    return result;
}

PyMethodDef tg_prune_methods[] = {
    {"prune", prune, METH_VARARGS,
     PyDoc_STR("prune(edge_index, num_nodes, config_nodes, method, hops, dummies)")},
    {NULL, NULL, 0, NULL},
};
