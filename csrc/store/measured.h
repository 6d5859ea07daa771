/* The measurements of a graph's configs, in the forms that losses and metrics compare. */
#ifndef TG_MEASURED_H
#define TG_MEASURED_H

#include <stdint.h>

#include "base/status.h"

/* Borrowed arrays (n,). Runtimes are either `whole` or `real`, never both. */
typedef struct tg_measured {
    int64_t n;
    const int64_t *whole;       /* nanoseconds, or placeholders <= 0 */
    const double *real;         /* in the unit of a schema; NaN where a config failed */
    const int64_t *normalizers; /* of tile graphs, or NULL */
    const uint8_t *ran;         /* 0 where a config failed, or NULL: all ran */
} tg_measured;

/* Whether to divide runtimes by normalizers: these exist, and a runtime is above 0. */
int tg_measured_divided(const tg_measured *m);

/* Whole numbers (n,) that a loss within one graph compares: nanoseconds, or the ranks (from 1) of runtimes
   that are divided or not whole. */
tg_status tg_measured_order(const tg_measured *m, int64_t *order, tg_error *err);

/* Whole numbers (n,) that a loss over several graphs compares: nanoseconds. For tile graphs: normalised
   runtimes times the mean normalizer, in milliseconds, rounded to float32 as in the fifth place. Runtimes
   that are not whole are replaced by whole numbers in the same order. */
void tg_measured_across(const tg_measured *m, int64_t *order);

/* Times (n,) that metrics compare: runtimes, divided if tg_measured_divided; NaN where a config failed. */
void tg_measured_times(const tg_measured *m, double *times);

/* Row numbers (n,) sorted by `order` (n,); equal ones keep their order. */
tg_status tg_measured_fastest(const int64_t *order, int64_t n, int64_t *rows, tg_error *err);

/* Targets: the numbers that pointwise losses fit scores to. */
typedef enum tg_target {
    TG_TARGET_RUNTIME,     /* the runtime (normalised for tile graphs) */
    TG_TARGET_SECONDS,     /* nanoseconds as seconds */
    TG_TARGET_LOG_RUNTIME, /* the natural logarithm */
    TG_TARGET_PERCENTILE,  /* the share of the graph's other configs that are faster; equal ones count half */
    TG_TARGET_NORMAL_SCORE, /* the normal quantile of the rank among the graph's configs (van der Waerden) */
    TG_TARGET_MIN_MAX,      /* 0 for the graph's fastest config, 1 for its slowest */
    TG_TARGETS
} tg_target;
extern const char *const tg_target_names[TG_TARGETS];

/* values (n,) from times (n,); NaN stays NaN and does not count for the others. */
tg_status tg_target_values(tg_target target, const double *times, int64_t n, double *values, tg_error *err);

#endif
