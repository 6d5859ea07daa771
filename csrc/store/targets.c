#include <math.h>
#include <stdlib.h>

#include "rank/sort.h"
#include "store/measured.h"

const char *const tg_target_names[TG_TARGETS] = {"runtime",    "seconds",      "log-runtime",
                                                 "percentile", "normal-score", "min-max"};

/* A polynomial, the highest coefficient first. */
static double polynomial(const double *c, int n, double x) {
    double sum = c[0];
    for (int i = 1; i < n; i++) sum = sum * x + c[i];
    return sum;
}

/* Quantile of the standard normal distribution at 0 < p < 1: Wichura's PPND16 (algorithm AS 241, 1988). */
static double normal_quantile(double p) {
    static const double a[] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                               45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                               133.14166789178437745, 3.387132872796366608};
    static const double b[] = {
        5226.495278852854561,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
    static const double c[] = {7.7454501427834140764e-4, .0227238449892691845833, .24178072517745061177,
                               1.27045825245236838258,   3.64784832476320460504,  5.7694972214606914055,
                               4.6303378461565452959,    1.42343711074968357734};
    static const double d[] = {
        1.05075007164441684324e-9, 5.475938084995344946e-4, .0151986665636164571966, .14810397642748007459,
        .68976733498510000455,     1.6763848301838038494,   2.05319162663775882187,  1.0};
    static const double e[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, .0012426609473880784386,
                               .026532189526576123093,    .29656057182850489123,     1.7848265399172913358,
                               5.4637849111641143699,     6.6579046435011037772};
    static const double f[] = {2.04426310338993978564e-15, 1.4215117583164458887e-7,
                               1.8463183175100546818e-5,   7.868691311456132591e-4,
                               .0148753612908506148525,    .13692988092273580531,
                               .59983220655588793769,      1.0};
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return polynomial(a, 8, r) * q / polynomial(b, 8, r);
    }
    const double r = sqrt(-log(q <= 0 ? p : 1.0 - p));
    const double x = r <= 5 ? polynomial(c, 8, r - 1.6) / polynomial(d, 8, r - 1.6)
                            : polynomial(e, 8, r - 5.0) / polynomial(f, 8, r - 5.0);
    return q < 0 ? -x : x;
}

/* Places (n,) of times from 0 on; equal ones share the mean of theirs. NaN is left out, and the number of the others
   returned; -1 without memory. */
static int64_t mean_places(const double *times, int64_t n, double *places) {
    uint64_t *keys = calloc((size_t)(3 * n + 1), sizeof *keys);
    int64_t ran = 0;
    if (keys == NULL) return -1;
    for (int64_t i = 0; i < n; i++) {
        keys[i] = isnan(times[i]) ? UINT64_MAX : tg_key_f64(times[i]);
        ran += !isnan(times[i]);
    }
    const tg_order order = tg_sort_order(keys, n, keys + n); /* NaN comes last */
    for (int64_t begin = 0, end; begin < ran; begin = end) {
        for (end = begin + 1; end < ran && tg_order_tied(&order, begin, end); end++);
        for (int64_t p = begin; p < end; p++) places[tg_order_at(&order, p)] = (double)(begin + end - 1) / 2;
    }
    free(keys);
    return ran;
}

static tg_status by_place(tg_target target, const double *times, int64_t n, double *values, tg_error *err) {
    const int64_t ran = mean_places(times, n, values);
    if (ran < 0) return tg_fail(err, TG_E_MEMORY, "no memory for %lld runtimes", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (isnan(times[i])) values[i] = NAN;
        else if (target == TG_TARGET_PERCENTILE) values[i] /= (double)(ran > 1 ? ran - 1 : 1);
        else values[i] = normal_quantile((values[i] + 0.5) / (double)ran);
    return TG_OK;
}

static void min_max(const double *times, int64_t n, double *values) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        low = fmin(low, times[i]); /* which leaves NaN out */
        high = fmax(high, times[i]);
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = isnan(times[i]) ? NAN : high > low ? (times[i] - low) / (high - low) : 0.0;
}

tg_status tg_target_values(tg_target target, const double *times, int64_t n, double *values, tg_error *err) {
    switch (target) {
    case TG_TARGET_SECONDS:
        for (int64_t i = 0; i < n; i++) values[i] = times[i] * 1e-9;
        return TG_OK;
    case TG_TARGET_LOG_RUNTIME:
        for (int64_t i = 0; i < n; i++) values[i] = log(times[i]);
        return TG_OK;
    case TG_TARGET_MIN_MAX: min_max(times, n, values); return TG_OK;
    case TG_TARGET_PERCENTILE:
    case TG_TARGET_NORMAL_SCORE: return by_place(target, times, n, values, err);
    default:
        for (int64_t i = 0; i < n; i++) values[i] = times[i];
        return TG_OK;
    }
}
