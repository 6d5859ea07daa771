/* Passes of a model over a batch: what a pass reads and writes, and the workspace it runs in. */
#ifndef TG_RUN_H
#define TG_RUN_H

#include "base/arena.h"
#include "base/cancel.h"
#include "base/pace.h"
#include "model/graph.h"
#include "model/plan.h"
#include "rank/loss.h"

/* Everything that passes change but do not return: memory, plans, the time of each event. It is not tied to a
   model, and serves one pass at a time. */
enum { TG_KEPT_PLANS = 6 };
typedef struct tg_workspace {
    tg_arena arena, configs;
    struct {
        uint64_t model, used; /* 0: free */
        tg_plan *plan;
    } kept[TG_KEPT_PLANS];
    uint64_t passes;
    const tg_plan *last; /* of the last complete pass, NULL before */
    uint64_t last_model;
    double seconds[TG_MAX_EVENTS]; /* time of each of its events */
    tg_pace paces[2][TG_PACES];    /* of scoring, of training */
} tg_workspace;
void tg_workspace_free(tg_workspace *workspace); /* frees its contents; all zero is a valid one */
size_t tg_workspace_bytes(const tg_workspace *workspace);

/* Rows of a slot, or their gradients, per entry of the batch (n_entries pointers). */
typedef struct tg_slot_rows {
    int slot;
    float *const *rows;
} tg_slot_rows;

/* One pass over a batch: scores and other slots; with `losses` or `dscores` also gradients. A cancelled or
   failed pass changes only the workspace and the arrays it was to fill. A batch too large for one pass runs
   in `parts` passes of equally many entries, part 0 to parts - 1: the gradients of the weights, each 1/parts
   of the whole, add up. */
typedef struct tg_pass {
    int n_entries;
    const tg_entry *entries;
    int n_fed, n_fetched;
    const tg_slot_rows *fed;     /* input slots that are fed per call */
    const tg_slot_rows *fetched; /* slots to copy out */
    float *scores;               /* (L,), L the sum of C; NULL: not wanted */
    /* NULL, or called before anything runs: unique cells, and so the rows of `fetched`, are then known */
    tg_status (*bound)(void *context, const tg_slate *slates, tg_error *err);
    void *bound_context;
    /* Training */
    const tg_losses *losses; /* NULL: none */
    tg_targets targets;      /* (L,) */
    const tg_lists *lists;   /* NULL: every slate is one */
    double loss_value;       /* out */
    const float *dscores;    /* (L,) instead of losses: start of the backward pass of unchanged scores,
                                without dropout */
    float *grads;            /* (P) out; NULL: not wanted */
    int n_input_grads;
    const tg_slot_rows *input_grads; /* gradients of input slots */
    float *const *ddigits;           /* per entry (C,K,D,rows) out; NULL: not wanted */
    int part, parts;                 /* parts >= 1 */
    uint64_t key;                    /* of random numbers in training, from seed and step */
    tg_precision precision;          /* of matrix products; TG_INT8 for scores only */
    tg_cancel *cancel;
} tg_pass;
/* What a graph lacks for the model, or NULL. Passes are only for graphs that lack nothing. */
const char *tg_model_lacks(const tg_model *model, const tg_graph *graph);
tg_status tg_model_run(const tg_model *model, tg_workspace *workspace, tg_pass *pass, tg_error *err);

/* Bytes of workspace that a pass over these entries needs; -1 with err if such a pass is impossible. */
int64_t tg_model_bytes(const tg_model *model, int n_entries, const tg_entry *entries, int training,
                       tg_error *err);

#endif
