/* A plan bound to a batch: the places of everything. Offsets and sizes are in floats. */
#ifndef TG_BIND_H
#define TG_BIND_H

#include "model/run.h"

typedef struct tg_binding {
    const tg_model *model;
    const tg_plan *plan;
    const tg_pass *pass;
    int training;
    tg_slate *slates;          /* (B) */
    const float **config_feat; /* (B): gathered */
    int64_t *offsets;          /* (n_buffers + n_events) */
    int64_t *sizes;
    float *base;         /* arena; NULL while sizes are measured */
    tg_exec *execs;      /* (n_events) */
    int64_t *starts;     /* (n_buffers, B): where each slate's part of a buffer begins */
    const tg_kernels *k; /* one kernel table and one number of threads for the whole pass */
    int threads;
    double work; /* operations, about */
    void *block; /* the one allocation behind the arrays above */
} tg_binding;

/* Choose a plan, gather the configs and place everything in the workspace. tg_unbind frees the binding in any
   case; checked builds check the redzones in the configs of a complete binding. */
tg_status tg_bind(tg_binding *bind, const tg_model *model, tg_workspace *workspace, const tg_pass *pass,
                  tg_error *err);
void tg_unbind(tg_binding *bind, const tg_workspace *workspace);

/* The part of a buffer that belongs to slate b; NULL for none. */
float *tg_bound_part(const tg_binding *bind, int buffer, int b);
/* Floats of that part. */
int64_t tg_bound_floats(const tg_binding *bind, int buffer, int b);
/* The call behind an event for slate b, and those within it. */
tg_exec *tg_bound_call(const tg_binding *bind, int event, int b);

#endif
