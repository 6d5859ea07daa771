/* The activation of an op: one of TG_ACT_LIST, chosen by its attribute `act`. PReLU (He et al. 2015) has a parameter,
   its slopes below 0: one for all columns, or one for each. An op that has an activation
   - has the fields `act` and `per_column` in its attributes, and TG_ACT_ATTRS among their specs;
   - names a parameter TG_ACT_PARAM, and plans it with tg_act_slope; a step has it with prelu only;
   - holds a tg_act in its room, and calls what is below from the functions of the same names. */
#ifndef TG_ACT_H
#define TG_ACT_H

#include "ops/op.h"

#define TG_ACT_PARAM "slope"
#define TG_ACT_ATTRS(type, fallback, doc)                                                                    \
    TG_CHOICE_WITH(type, act, fallback, TG_ACT_NAMES, doc, "prelu", TG_ACT_PARAM),                           \
        TG_FLAG(type, per_column, "prelu: a slope for every column, not one for all")

typedef struct tg_act {
    int kind, cols, param;
    float *slope;      /* PReLU: (cols), the same number again and again if there is one for all */
    float *sum, *part; /* gradient of slope (cols), of the call and of a chunk; NULL: not wanted */
} tg_act;

/* The parameter of an activation of `cols` columns. It starts as PyTorch's. */
tg_param_spec tg_act_slope(int cols, int per_column);

/* `act`: of TG_ACT_LIST; param: number of the parameter */
void tg_act_carve(const tg_exec *e, int back, tg_carver *c, int act, int param, int cols, tg_act *a);
/* Fills in the slopes: from `begin` of both directions. */
void tg_act_begin(const tg_exec *e, const tg_act *a);
/* y(rows,cols) = act(x); y may be x */
void tg_act_forward(const tg_exec *e, const tg_act *a, int rows, const float *x, float *y);
/* Where the tile adds its gradient of slope, once per tile as tg_share; NULL: nobody wants it, or there is none */
float *tg_act_share(const tg_exec *e, const tg_tile *t, const tg_act *a);
/* d(rows,cols) = dy act'(x), NULL: not wanted; share += that of slope. d may be dy. */
void tg_act_backward(const tg_exec *e, const tg_act *a, int rows, const float *dy, const float *x, float *d,
                     float *share);
/* Adds up the shares: from `end` of backward. */
void tg_act_end(const tg_exec *e, const tg_act *a);

#endif
