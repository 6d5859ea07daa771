/* A model: steps over slots, one flat parameter vector, and the static plan made of them once.
   Life: tg_model_new, tg_model_add_step for every step, tg_model_finish; then tg_model_run as often as
   wanted. */
#ifndef TG_MODEL_H
#define TG_MODEL_H

#include "base/arena.h"
#include "base/cancel.h"
#include "base/status.h"
#include "model/graph.h"
#include "model/plan.h"
#include "ops/op.h"
#include "optim/optim.h"
#include "rank/loss.h"

enum { TG_MAX_STEPS = 128, TG_MAX_NAME = 64 };

/* Step 0's inputs: slots without a producer. Features of configs have no columns in a model without. */
enum { TG_SLOT_NODE_FEAT, TG_SLOT_CONFIG_FEAT, TG_EXTERNAL_SLOTS };

typedef struct tg_slot {
    char name[TG_MAX_NAME];
    tg_shape shape;
    int producer;  /* step, or -1 */
    int has_stats; /* norm statistics are kept beside it */
    int used;
} tg_slot;

typedef struct tg_step {
    const tg_op *op;
    char name[TG_MAX_NAME];
    double attr[TG_MAX_ATTRS];
    int n_in, in[TG_MAX_IN], out;
    int n_params, param[TG_MAX_PARAMS];
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
    int n_slots, n_steps, n_params;
    tg_slot slots[TG_MAX_STEPS + TG_EXTERNAL_SLOTS];
    tg_step steps[TG_MAX_STEPS];
    tg_param params[TG_MAX_STEPS * TG_MAX_PARAMS];
    int scores; /* slot */
    int64_t P;
    float *weights, *grads, *moment1, *moment2; /* (P) each */
    tg_plan plans[TG_PLANS];
    int lean; /* never TG_PLAN_KEEPING */
    tg_arena arena;
    const tg_plan *last;           /* of the last complete pass, NULL before */
    double seconds[TG_MAX_EVENTS]; /* that each of its events took */
} tg_model;

/* A step as the caller describes it. An attribute is a number, or a word out of the op's choices. */
typedef struct tg_attr_value {
    char key[TG_MAX_NAME], word[TG_MAX_NAME];
    double number;
    int is_word;
} tg_attr_value;
typedef struct tg_step_spec {
    char op[TG_MAX_NAME], name[TG_MAX_NAME], out[TG_MAX_NAME], in[TG_MAX_IN][TG_MAX_NAME];
    char table[2 * TG_MAX_NAME]; /* name of a shared parameter, or "" */
    int n_in, n_attrs;
    tg_attr_value attrs[TG_MAX_ATTRS];
} tg_step_spec;

tg_model *tg_model_new(int node_features, int config_features); /* NULL without memory */
tg_status tg_model_add_step(tg_model *model, const tg_step_spec *spec, tg_error *err);
tg_status tg_model_finish(tg_model *model, uint64_t seed, tg_error *err);
void tg_model_free(tg_model *model);

/* Resolve attributes by name against the op's table; words become positions, missing ones their fallback. */
tg_status tg_resolve_attrs(const tg_op *op, int n, const tg_attr_value *values, double *attr, tg_error *err);

/* One pass over a batch. Scores of all entries one after the other. With `loss` also gradients (into
   model->grads); with `optimizer` also an update. A cancelled or failed run leaves weights and moments as
   they were.
   A batch too large for one pass is run in `parts` passes of equally many entries, part 0 to parts - 1: the
   gradients, each 1/parts of the whole, add up in model->grads, and the last pass has the optimizer. */
typedef struct tg_pass {
    int n_entries;
    const tg_entry *entries;
    float *scores;                 /* (sum of C) out */
    const tg_loss_spec *loss;      /* NULL: scores only */
    const int64_t *runtimes;       /* (sum of C) */
    double loss_value;             /* out */
    const tg_optimizer *optimizer; /* NULL: no update */
    int part, parts;               /* used with loss; parts >= 1 there */
    uint64_t key;                  /* dropout, from seed and step; used with loss */
    tg_precision precision;        /* of matrix products; TG_INT8 for scores only */
    tg_cancel *cancel;
} tg_pass;
tg_status tg_model_run(tg_model *model, tg_pass *pass, tg_error *err);

/* Bytes of arena a pass over these entries needs. */
int64_t tg_model_bytes(const tg_model *model, int n_entries, const tg_entry *entries, int training,
                       tg_error *err); /* -1 with err when it cannot be */

#endif
