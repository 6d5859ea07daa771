/* A model: a program of steps over slots, and one flat vector of weights. Both are constant while passes run, so that
   any number of threads may run passes at once, each in its own workspace (run.h).
   Life: tg_model_new and tg_model_read, or in its place tg_model_add_input and tg_model_add_step as often as wanted,
   tg_model_add_output, tg_model_finish; then its parameters are known, and tg_model_draw gives them memory. */
#ifndef TG_MODEL_H
#define TG_MODEL_H

#include "base/status.h"
#include "ops/op.h"

enum { TG_MAX_STEPS = 256, TG_MAX_INPUTS = 16, TG_MAX_SLOTS = TG_MAX_STEPS + TG_MAX_INPUTS };
enum { TG_MAX_MODEL_PARAMS = 8 * TG_MAX_STEPS, TG_MAX_INPUT_COLUMNS = 1 << 16 };

/* The first slots are inputs, without a producer: those of the graph, then those fed per call. An input
   without columns cannot be read. */
enum { TG_SLOT_NODE_FEAT, TG_SLOT_CONFIG_FEAT, TG_SLOT_GRAPH_FEAT, TG_GRAPH_SLOTS };

typedef struct tg_slot {
    char name[TG_MAX_NAME];
    tg_shape shape;
    int producer;    /* step, or -1 */
    int has_stats;   /* norm statistics are kept with it */
    int joins_nodes; /* its rows depend on all nodes of the graph */
    int used, output;
} tg_slot;

typedef struct tg_step {
    const tg_op *op;
    char name[TG_MAX_NAME];
    _Alignas(16) char attrs[TG_ATTR_BYTES];
    int n_in, in[TG_MAX_IN], out;
    int param[TG_MAX_PARAMS]; /* of the model, or -1 */
    tg_op_plan info;
} tg_step;

typedef struct tg_param {
    char name[2 * TG_MAX_NAME];
    int rows, cols; /* cols 0: one-dimensional */
    int64_t offset;
    tg_init init;
    float value;
} tg_param;

typedef struct tg_model {
    uint64_t number; /* no other model of this process has it */
    int n_slots, n_inputs, n_steps, n_params;
    int digit_cols, digit_rows; /* of the graphs; 0: no digits needed */
    tg_slot slots[TG_MAX_SLOTS];
    tg_step steps[TG_MAX_STEPS];
    tg_param params[TG_MAX_MODEL_PARAMS];
    unsigned flags; /* of all steps: what the model needs of a graph */
    int unlike;     /* cells of nodes that are alike may differ */
    int per_config; /* has slots per node and config, configurable node and config ... */
    int per_graph;  /* rows of nodes depend on all nodes, so they differ for a segment of a graph */
    int scores;     /* slot of one column per config, or -1 */
    int lean;       /* training never keeps what it can recompute */
    int64_t P;
    float *weights; /* (P), from tg_model_draw on */
} tg_model;

/* A step as the caller describes it. */
typedef struct tg_share_spec {
    char param[TG_MAX_NAME], from[2 * TG_MAX_NAME]; /* parameter of the step, parameter of the model */
} tg_share_spec;
typedef struct tg_step_spec {
    char op[TG_MAX_NAME], name[TG_MAX_NAME], out[TG_MAX_NAME], in[TG_MAX_IN][TG_MAX_NAME];
    int n_in, n_shared;
    const tg_json_value *attrs; /* {name: value}, NULL: none */
    tg_share_spec shared[TG_MAX_PARAMS];
} tg_step_spec;

/* Numbers of columns of the graphs' arrays; 0: none. */
typedef struct tg_model_sizes {
    int node_features, config_features, graph_features;
    int digit_cols, digit_rows;
} tg_model_sizes;

tg_model *tg_model_new(const tg_model_sizes *sizes); /* NULL without memory */
/* Add an input that is fed per call. */
tg_status tg_model_add_input(tg_model *model, const char *name, tg_shape shape, tg_error *err);
tg_status tg_model_add_step(tg_model *model, const tg_step_spec *spec, tg_error *err);
/* [{"op", "name", "in": [slots], "out", "attrs": {...}, "share": {...}}, ...], the last two may be left out. */
tg_status tg_model_add_steps(tg_model *model, const tg_json_value *list, tg_error *err);
/* Mark a slot that no step has to read; all other slots must be read. */
tg_status tg_model_add_output(tg_model *model, const char *name, tg_error *err);
/* Check that nothing but the weights is missing. */
tg_status tg_model_finish(const tg_model *model, tg_error *err);
/* All of these out of inputs {name: [rows, columns]} (NULL: none), steps, and outputs [names] (NULL: "scores"). */
tg_status tg_model_read(tg_model *model, const tg_json_value *inputs, const tg_json_value *steps,
                        const tg_json_value *outputs, tg_error *err);
/* Allocate the weights and draw them from `seed`. */
tg_status tg_model_draw(tg_model *model, uint64_t seed, tg_error *err);
void tg_model_free(tg_model *model);

int tg_model_find_slot(const tg_model *model, const char *name); /* -1: none */

/* Allocate a block of `vectors` zeroed vectors of P floats, each starting `*stride` floats after the previous
   one: on a cache line, but not a multiple of a page apart, because an optimizer traverses all of them at
   once, and a load whose low address bits equal those of an earlier store waits. NULL without memory; free
   with tg_aligned_free. */
float *tg_model_vectors(const tg_model *model, int vectors, int64_t *stride);

#endif
