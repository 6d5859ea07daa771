/* Optimizers: one update of a flat vector of parameters, its gradient clipped by the global norm.
   A rule is one function, one row of TG_OPTIMIZER_LIST and one float64 reference. */
#ifndef TG_OPTIM_H
#define TG_OPTIM_H

#include <stdint.h>

#include "base/attr.h"
#include "base/status.h"

/* Constant, name, and the vectors (P) of state that it keeps. */
#define TG_OPTIMIZER_LIST(RULE) RULE(TG_ADAMW, adamw, 2) RULE(TG_ADAM, adam, 2) RULE(TG_SGD, sgd, 1)
enum { TG_MAX_MOMENTS = 2 };

#define TG_KIND(kind, name, moments) kind,
typedef enum { TG_OPTIMIZER_LIST(TG_KIND) TG_OPTIMIZERS } tg_optimizer_kind;
#undef TG_KIND

/* Parameters [begin, end) with their own learning rate, lr_scale times the optimizer's. */
typedef struct tg_group {
    int64_t begin, end;
    double lr_scale, weight_decay;
} tg_group;

typedef struct tg_optimizer {
    tg_optimizer_kind kind;
    double lr, beta1, beta2, eps, momentum; /* a rule reads those it has */
    double clip;                            /* global norm of the gradient, 0: none */
    int64_t step;                           /* counts from 1 */
    int n_groups;
    tg_group *groups; /* from 0 to P without a gap */
} tg_optimizer;

/* A rule updates one stretch of parameters; `scale` multiplies the gradient. */
typedef struct tg_stretch {
    int64_t n;
    float *w, *moment[TG_MAX_MOMENTS];
    const float *g;
    double lr, weight_decay, scale;
} tg_stretch;

void tg_adamw_rule(const tg_optimizer *o, const tg_stretch *at);
void tg_adam_rule(const tg_optimizer *o, const tg_stretch *at);
void tg_sgd_rule(const tg_optimizer *o, const tg_stretch *at);

/* Name of a rule, and the vectors (P) of state it keeps. */
const char *tg_optimizer_name(tg_optimizer_kind kind);
int tg_optimizer_moments(tg_optimizer_kind kind);

/* The numbers of an optimizer, as tg_optimizer_read reads them; a recipe's fields are made of these rows. */
const tg_attr *tg_optimizer_attrs(int *n);

/* An optimizer of P parameters out of {"kind": "adamw", "lr": 1e-3, "step": 1, ...}. TG_E_CONFIG if a number makes no
   sense or the groups do not cover the parameters. Free it also then. */
tg_status tg_optimizer_read(tg_optimizer *o, int64_t P, const tg_json_value *given, tg_error *err);
void tg_optimizer_free(tg_optimizer *o);

/* Update w (P) and the rule's moments (P) by the gradient g (P). `norm` (may be NULL): of g, before clipping.
   A gradient that is not finite is TG_E_NOT_FINITE and changes nothing. */
tg_status tg_optimizer_update(const tg_optimizer *o, int64_t P, float *w, const float *g,
                              float *const *moments, double *norm, tg_error *err);

double tg_global_norm(int64_t n, const float *g);

/* Move an average (n) of weights by a share of its way to w (n). */
void tg_average(int64_t n, double share, const float *w, double *mean);

#endif
