/* Losses of each entry by itself: the score predicts its value. Sums in double; O(L). */
#include <float.h>
#include <math.h>

#include "rank/pairs.h"

typedef struct cost {
    double value, slope;
} cost;
typedef cost cost_fn(double score, double value, double attr);

static inline __attribute__((always_inline)) double run_with(const tg_list *list, cost_fn *cost_of) {
    const double scale = tg_reduce_entries(list);
    double sum = 0;
    for (int64_t i = 0; i < list->length; i++) {
        const cost c = cost_of((double)list->scores[i], list->value[i], list->attr[0]);
        const double w = tg_weight(list, i);
        sum += w * c.value;
        list->gradient[i] = (float)(w * c.slope * scale * list->share);
    }
    return sum * scale;
}

static cost squared(double score, double value, double attr) {
    (void)attr;
    return (cost){(score - value) * (score - value), 2 * (score - value)};
}

static cost log_squared(double score, double value, double offset) {
    return squared(score, log(value + offset), 0);
}

/* Below 0 the score stands for its own logarithm, as the tangent at 0: finite, and with a slope that leads back up. */
static cost log_relative(double score, double value, double attr) {
    const double error = (score > 0 ? log1p(score) : score) - log1p(value);
    (void)attr;
    return (cost){error * error, 2 * error / (score > 0 ? 1 + score : 1)};
}

static cost relative(double score, double value, double epsilon) {
    const double size = fabs(value) > epsilon ? fabs(value) : epsilon, error = score - value;
    return (cost){fabs(error) / size, (double)((error > 0) - (error < 0)) / size};
}

static cost pinball(double score, double value, double level) {
    const double above = value - score, slope = above > 0 ? -level : 1 - level;
    return (cost){-slope * above, above != 0 ? slope : 0.5 - level}; /* equal: the mean of both slopes */
}

/* -t ln(q) - (1 - t) ln(1 - q) with q = 1 / (1 + exp(-score)), of exponentials of at most 1. */
static cost bernoulli(double score, double t, double attr) {
    const double z = exp(-fabs(score)), q = (score > 0 ? 1 : z) / (1 + z);
    (void)attr;
    return (cost){(score > 0 ? score * (1 - t) : -score * t) + log1p(z), q - t};
}

static double run_mse(const tg_list *list) { return run_with(list, squared); }
static double run_log_mse(const tg_list *list) { return run_with(list, log_squared); }
static double run_msle(const tg_list *list) { return run_with(list, log_relative); }
static double run_quantile(const tg_list *list) { return run_with(list, pinball); }
static double run_mape(const tg_list *list) { return run_with(list, relative); }
static double run_cross_entropy(const tg_list *list) { return run_with(list, bernoulli); }

static double carve(tg_scratch *c, int64_t length) {
    (void)c;
    return 4 * (double)length;
}

static tg_reads any_value(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = TG_NEED_VALUE, .above = -INFINITY};
}

static tg_reads with_logarithm(const double *attr) {
    return (tg_reads){.targets = TG_NEED_VALUE, .above = 0 - attr[0]};
}

static tg_reads above_minus_one(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = TG_NEED_VALUE, .above = -1};
}

static tg_reads shares(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = TG_NEED_VALUE, .above = -INFINITY, .shares = 1};
}

#define POINTWISE                                                                                            \
    .least = 1, .reductions = 1u << TG_REDUCE_MEAN | 1u << TG_REDUCE_SUM, .reduction = TG_REDUCE_MEAN,       \
    .carve = carve

const tg_loss tg_loss_mse = {
    POINTWISE,
    .name = "mse",
    .doc = "mean of (score - value)^2: the score predicts the value itself",
    .reads = any_value,
    .run = run_mse,
};

const tg_loss tg_loss_log_mse = {
    POINTWISE,
    .name = "log_mse",
    .doc = "mean of (score - ln(offset + value))^2: values are times, the score predicts a logarithm",
    .reads = with_logarithm,
    .run = run_log_mse,
    .attrs =
        TG_ATTRS({.name = "offset",
                  .low = 0,
                  .high = FLT_MAX,
                  .doc = "added to a value before the logarithm: 1 for ln(1 + time), 0 needs values > 0"}),
};

const tg_loss tg_loss_msle = {
    POINTWISE,
    .name = "msle",
    .doc = "mean of (ln(1 + score) - ln(1 + value))^2: the score predicts the value itself, such as a time; "
           "below 0 it stands in place of its logarithm",
    .reads = above_minus_one,
    .run = run_msle,
};

const tg_loss tg_loss_mape = {
    POINTWISE,
    .name = "mape",
    .doc = "mean of |score - value| / max(|value|, epsilon): the score predicts the value itself",
    .reads = any_value,
    .run = run_mape,
    .attrs = TG_ATTRS({.name = "epsilon",
                       .fallback = 1e-8,
                       .low = 1e-30,
                       .high = FLT_MAX,
                       .doc = "least size of a value that an error is divided by"}),
};

const tg_loss tg_loss_quantile = {
    POINTWISE,
    .name = "quantile",
    .doc =
        "mean of max(level (value - score), (level - 1) (value - score)): the score predicts the quantile of "
        "that level (pinball loss); level 0.5 is half the absolute error",
    .reads = any_value,
    .run = run_quantile,
    .attrs = TG_ATTRS(
        {.name = "level", .fallback = 0.5, .low = 0.001, .high = 0.999, .doc = "share of values below"}),
};

const tg_loss tg_loss_cross_entropy = {
    POINTWISE,
    .name = "cross_entropy",
    .doc = "mean of -t ln(q) - (1 - t) ln(1 - q), q = 1/(1 + exp(-score)): a value t is a share from 0 to 1, "
           "as those of the targets min-max and percentile are",
    .reads = shares,
    .run = run_cross_entropy,
};
