/* A program: the preprocessing steps of a ranker, in order, with their learnt state. Made once; constant
   while it is applied, so that any number of threads may apply it. */
#ifndef TG_PROGRAM_H
#define TG_PROGRAM_H

#include "model/graph.h"
#include "prepare/step.h"

enum { TG_PROGRAM_STEPS = 32 };

typedef struct tg_program {
    int node_features; /* columns that every stored graph has; 0: not known */
    int n;
    tg_use use[TG_PROGRAM_STEPS];
    tg_outline after;           /* the last step */
    int whole_configs, further; /* a step has the flag TG_STEP_CONFIGS, TG_STEP_FURTHER */
    int fitted;
    int64_t fits, applies, pruned, checked; /* graphs so far, for tests; applied in several threads at once */
} tg_program;

/* Fill an empty program with [{"step": name, attribute: value, ...}, ...] and close it. */
tg_status tg_program_read(tg_program *program, const tg_json_value *list, tg_error *err);
/* Append a step with its attributes, which are checked when the program is closed. Takes ownership of
   `columns`, also on failure. */
tg_status tg_program_add(tg_program *program, const tg_prepare_step *step, const double *attr,
                         tg_columns *columns, tg_error *err);
/* End the list of steps: check their order and needs, and allocate the state. */
tg_status tg_program_close(tg_program *program, tg_error *err);
void tg_program_free(tg_program *program);
/* The columns of a schema under `field`: [{"name": ..., "kind": ..., "values": [...]}, ...]. Free also after an error. */
tg_status tg_columns_read(tg_columns *columns, const char *field, const tg_json_value *list, tg_error *err);
void tg_columns_free(tg_columns *columns);

/* Add one graph to the fit; the first call after tg_program_finish, or after restoring the state, begins a
   new fit. `kept` is empty and receives the result of pruning. The program is not fitted until
   tg_program_finish. An error of any of these three functions forgets the learnt state. */
tg_status tg_program_fit(tg_program *program, const tg_stored *stored, tg_kept *kept, tg_error *err);
tg_status tg_program_finish(tg_program *program, tg_error *err);
/* The state was filled from a file. */
tg_status tg_program_restored(tg_program *program, tg_error *err);
void tg_program_forget(tg_program *program);

/* Make a slate graph, without layout configs, from a stored graph. It owns all its arrays. `kept` may be
   NULL, empty (and is then filled) or filled by an earlier call for this graph. Without `configs`, features
   of configs are left out. */
tg_status tg_program_apply(tg_program *program, const tg_stored *stored, int configs, tg_kept *kept,
                           tg_graph *graph, tg_error *err);

/* Features of configs as the model takes them: *rows (C, *cols), freed by the caller. */
tg_status tg_program_configs(tg_program *program, const float *config_feat, int64_t C, int64_t T,
                             float **rows, int *cols, tg_error *err);

/* Most nodes in a segment of a graph from tg_program_apply; 0: graphs are not cut. */
int64_t tg_program_segment(const tg_program *program);

void tg_kept_free(tg_kept *kept);

#endif
