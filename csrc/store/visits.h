/* Which graph and which of its configs every visit of a fit takes. All of it follows from a seed and the number of the
   visit (base/rng.h), so a fit resumes from that number. */
#ifndef TG_VISITS_H
#define TG_VISITS_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

/* Graphs come equally often in every epoch; in proportion to the root of their numbers of configs, as in the fifth
   place; or in proportion to the whole slates in them. */
typedef enum { TG_GRAPHS_EVEN, TG_GRAPHS_SQRT, TG_GRAPHS_SLATES } tg_graph_sampling;
#define TG_GRAPH_SAMPLING "even|sqrt-configs|slates"

/* Configs of a graph come equally often; each for itself, so that a slate may have one twice, as in the second place; or
   fast ones more often, as in the official baseline. */
typedef enum { TG_CONFIGS_EVEN, TG_CONFIGS_REPLACED, TG_CONFIGS_GUMBEL } tg_config_sampling;
#define TG_CONFIG_SAMPLING "even|replacement|gumbel"

typedef struct tg_visiting {
    tg_graph_sampling graphs;
    tg_config_sampling sampling;
    int64_t configs, each;     /* of a slate, at most; slates of a step */
    double close, temperature; /* chance of a slate of close runtimes; of TG_CONFIGS_GUMBEL */
    uint64_t seed;
} tg_visiting;

typedef struct tg_visits {
    tg_visiting how;
    int64_t n;               /* graphs */
    int64_t epoch, period;   /* visits of an epoch, and until even the rarest graph has come about once */
    int64_t *draws, *slates; /* TG_GRAPHS_SQRT (n): in an epoch; slates of the graph and of all before it */
    double *ends;        /* TG_GRAPHS_SLATES (n + 1): where graphs begin and end in an epoch of n visits */
    int64_t now, turned; /* epochs that `before` leaves out, and that `order` and `times` are of */
    int64_t *before, *order, *times,
        *spare; /* (n): visits so far; graphs of the epoch, their visits so far */
} tg_visits;

/* For graphs of `counts` (n) >= 0 configs. If all are 0, graphs come equally often. Free it also after an error. */
tg_status tg_visits_make(tg_visits *v, const tg_visiting *how, const int64_t *counts, int64_t n,
                         tg_error *err);
void tg_visits_free(tg_visits *v);

/* The graph of a visit >= 0, and how often it was visited before. Not for two threads at a time. */
tg_status tg_visits_at(tg_visits *v, int64_t visit, int64_t *graph, int64_t *before, tg_cancel *cancel,
                       tg_error *err);

/* How many configs a visit takes of a graph that has `count` >= 1 of them, which may be fewer than were counted because
   equal ones were merged; and whether it reads their order. */
int64_t tg_visits_size(const tg_visits *v, int64_t visit, int64_t count, int *ordered);

/* rows (k = tg_visits_size): the configs of a visit to `graph`, which was visited `before` times. fastest (count): configs
   by runtime, NULL if their order is not read. */
tg_status tg_visits_rows(const tg_visits *v, int64_t visit, int64_t graph, int64_t before, int64_t count,
                         const int64_t *fastest, int64_t k, int64_t *rows, tg_cancel *cancel, tg_error *err);

#endif
