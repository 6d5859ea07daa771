#define TG_IMPORT_ARRAY
#include "py/pycore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "features/colnames.h"
#include "features/opcodes.h"
#include "features/schema.h"
#include "kernels/kernels.h"
#include "py/py_graph.h"
#include "py/py_json.h"
#include "py/py_model.h"
#include "py/py_optim.h"
#include "py/py_prepare.h"
#include "py/py_search.h"
#include "py/py_space.h"
#include "py/py_trees.h"

static PyObject *set_num_threads(PyObject *self, PyObject *arg) {
    (void)self;
    int beyond;
    const long threads = PyLong_AsLongAndOverflow(arg, &beyond);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    if (beyond || threads < 1 || threads > 4096) {
        PyErr_Format(PyExc_ValueError, "set_num_threads: expected 1..4096, got %R", arg);
        return NULL;
    }
    tg_set_threads((int)threads);
    Py_RETURN_NONE;
}

static PyObject *limit_threads(PyObject *self, PyObject *arg) {
    (void)self;
    long threads = PyLong_AsLong(arg);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    if (threads < 0 || threads > 4096) {
        PyErr_Format(PyExc_ValueError, "limit_threads: expected 0..4096, got %ld", threads);
        return NULL;
    }
    tg_limit_threads((int)threads);
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(tg_max_threads());
}

PyMethodDef tg_base_methods[] = {
    {"set_num_threads", set_num_threads, METH_O, PyDoc_STR("Set the number of threads of all kernels.")},
    {"limit_threads", limit_threads, METH_O,
     PyDoc_STR("Limit the threads of kernels called from this thread; 0: no limit.")},
    {"get_num_threads", get_num_threads, METH_NOARGS, PyDoc_STR("Number of threads that kernels use.")},
    {NULL, NULL, 0, NULL},
};

/* The numbers of features/schema.h, and the names of columns and opcodes, for Python. */
static int add_schema(PyObject *module) {
    PyObject *schema = Py_BuildValue(
        "{si si si si si si si si si si si si}", "node_features", TG_NODE_FEATURES, "scaled_features",
        TG_SCALED_FEATURES, "tile_features", TG_TILE_FEATURES, "digits", TG_DIGITS, "layout_digits",
        TG_LAYOUT_DIGITS, "digit_min", TG_DIGIT_MIN, "digit_max", TG_DIGIT_MAX, "digit_states",
        TG_DIGIT_STATES, "opcodes", TG_OPCODES, "layout_codes", TG_LAYOUT_CODES, "most_digits",
        TG_MOST_DIGITS, "most_digit_values", TG_MOST_DIGIT_VALUES);
    const int failed = schema == NULL || PyModule_AddObjectRef(module, "SCHEMA", schema) < 0 ||
                       PyModule_AddStringConstant(module, "OPCODES", tg_opcode_names) < 0 ||
                       PyModule_AddStringConstant(module, "NODE_NAMES", tg_node_names) < 0 ||
                       PyModule_AddStringConstant(module, "DIGIT_NAMES", tg_digit_names) < 0 ||
                       PyModule_AddStringConstant(module, "TILE_NAMES", tg_tile_names) < 0;
    Py_XDECREF(schema);
    return failed ? -1 : 0;
}

/* The table of NumPy's functions is one per process, and once it is there nobody asks NumPy again: so that an interpreter
   that NumPy refuses is refused here too, NumPy is imported by name. */
static int import_numpy(void) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    Py_XDECREF(numpy);
    return numpy == NULL ? -1 : PyArray_ImportNumPyAPI();
}

/* A name that TPUGRAPHS_ISA has by mistake must not choose other bits than were asked for. */
static int choose_isa(void) {
    if (tg_isa_from_environment()) return 0;
    char known[128] = "";
    const char *const *names = tg_isa_levels();
    for (int i = 0; names[i] != NULL; i++) {
        const size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    tg_error err;
    tg_fail(&err, TG_E_CONFIG,
            "TPUGRAPHS_ISA: expected one of %s on this machine, found '%.40s'; correct or unset it", known,
            getenv("TPUGRAPHS_ISA"));
    tg_raise(&err, NULL);
    return -1;
}

static int module_exec(PyObject *module) {
    if (import_numpy() < 0 || choose_isa() < 0) return -1;
    tg_parallel_init();
    PyMethodDef *rooms[] = {tg_base_methods,    tg_npz_methods,     tg_array_methods,   tg_config_methods,
                            tg_feature_methods, tg_prune_methods,   tg_rank_methods,    tg_optim_methods,
                            tg_model_methods,   tg_product_methods, tg_file_methods,    tg_pack_methods,
                            tg_check_methods,   tg_hlo_methods,     tg_prepare_methods, tg_tree_methods,
                            tg_store_methods,   tg_json_methods,    tg_tuner_methods,   tg_search_methods,
                            tg_choice_methods,  tg_plan_methods,    tg_column_methods};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (PyModule_AddFunctions(module, rooms[i]) < 0) return -1;
    if (add_schema(module) < 0 || tg_add_model_types(module) < 0 || tg_add_trainer_type(module) < 0 ||
        tg_add_forest_type(module) < 0 || tg_add_digits_type(module) < 0 || tg_add_graph_type(module) < 0 ||
        tg_add_space_type(module) < 0 || tg_add_search_type(module) < 0 || tg_add_tree_sum_type(module) < 0)
        return -1;
    return tg_add_prepare_type(module);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    tg_state *state = PyModule_GetState(module);
    Py_VISIT(state->digits);
    Py_VISIT(state->graph);
    Py_VISIT(state->model_graph);
    Py_VISIT(state->prepared);
    Py_VISIT(state->model);
    Py_VISIT(state->workspace);
    return 0;
}

static int clear(PyObject *module) {
    tg_state *state = PyModule_GetState(module);
    Py_CLEAR(state->digits);
    Py_CLEAR(state->graph);
    Py_CLEAR(state->model_graph);
    Py_CLEAR(state->prepared);
    Py_CLEAR(state->model);
    Py_CLEAR(state->workspace);
    return 0;
}

static void release(void *module) { clear(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        .m_name = "tpugraphs._core",
                                        .m_doc = "The C core of tpugraphs.",
                                        .m_size = sizeof(tg_state),
                                        .m_slots = slots,
                                        .m_traverse = traverse,
                                        .m_clear = clear,
                                        .m_free = release};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
