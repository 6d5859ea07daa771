/* A program: the steps that a ranker's graphs go through, in order, with their fitted state. Made once; constant
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
/* Append a step with its attributes (columns are taken over, also on failure), checked when the program is closed. */
tg_status tg_program_add(tg_program *program, const tg_prepare_step *step, const double *attr,
                         tg_columns *columns, tg_error *err);
/* No more steps come: check their order and what they need, and make room for the state. */
tg_status tg_program_close(tg_program *program, tg_error *err);
void tg_program_free(tg_program *program);
void tg_columns_free(tg_columns *columns);

/* Add one graph to the fit; the first after tg_program_finish, or after the state came from a file, begins a new one.
   `kept` is empty and gets what pruning kept. Until tg_program_finish the program is not fitted. An error of any of
   these three forgets what was learnt. */
tg_status tg_program_fit(tg_program *program, const tg_stored *stored, tg_kept *kept, tg_error *err);
tg_status tg_program_finish(tg_program *program, tg_error *err);
/* The state was filled from a file. */
tg_status tg_program_restored(tg_program *program, tg_error *err);
void tg_program_forget(tg_program *program);

/* A slate graph, without layout configs, from a stored graph. All its arrays are its own. `kept` may be NULL, empty
   (and is then filled) or what an earlier call made of this graph. Without `configs`, features of configs are left
   out. */
tg_status tg_program_apply(tg_program *program, const tg_stored *stored, int configs, tg_kept *kept,
                           tg_graph *graph, tg_error *err);

/* Features of configs as the model takes them: *rows (C, *cols), freed by the caller. */
tg_status tg_program_configs(tg_program *program, const float *config_feat, int64_t C, int64_t T,
                             float **rows, int *cols, tg_error *err);

/* Nodes of a segment of what tg_program_apply gives, at most; 0: graphs are not cut. */
int64_t tg_program_segment(const tg_program *program);

void tg_kept_free(tg_kept *kept);

#endif
