/* A Gaussian process over the columns of configs: a tuner's surrogate of what was measured. Covariance: Matern 5/2
   with a length per column (ARD), a variance and a noise, found by maximum posterior (Rasmussen and Williams 2006, chapter 5). */
#ifndef TG_SURROGATE_H
#define TG_SURROGATE_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

enum { TG_SURROGATE_ROWS = 300, TG_SURROGATE_COLUMNS = 4096 };

typedef struct tg_surrogate {
    int64_t n, F;
    double *logs;   /* (F + 2): of 1 / length of each column, the variance, the noise */
    double *x;      /* (n, F), in lengths */
    double *y;      /* (n) */
    double *factor; /* (n, n): lower Cholesky factor of the covariance and noise */
    double *weight; /* (n): covariance^-1 y */
    double *block;
} tg_surrogate;

/* logs(F + 2) of x(n, F) and y(n), from where they stand in logs. */
tg_status tg_surrogate_tune(const double *x, const double *y, int64_t n, int64_t F, double *logs,
                            tg_cancel *cancel, tg_error *err);

/* What tg_surrogate_tune makes small, minus the logarithm of the posterior of logs(F + 2), and its gradient(F + 2); the value is
   infinite, and the gradient not written, where the covariance is not definite. */
tg_status tg_surrogate_posterior(const double *x, const double *y, int64_t n, int64_t F, const double *logs,
                                 double *value, double *gradient, tg_error *err);

/* A process of x(n, F), y(n) with these logs(F + 2). Free also after an error. */
tg_status tg_surrogate_fit(tg_surrogate *s, const double *x, const double *y, int64_t n, int64_t F,
                           const double *logs, tg_error *err);
void tg_surrogate_free(tg_surrogate *s);

/* mean(n) of each row by all others (leave one out). */
tg_status tg_surrogate_left_out(const tg_surrogate *s, double *mean, tg_error *err);

/* mean(m), and a bound of the variance (m), of pool(m, F): what the likest row alone leaves of it. */
tg_status tg_surrogate_mean(const tg_surrogate *s, const double *pool, int64_t m, double *mean,
                            double *variance, tg_error *err);

/* How little a candidate is wanted, by what it is predicted to be and its chance of failing. While gains come, minus the
   expected improvement on `best`, which asks for the likely best; else the lower confidence bound, which looks elsewhere. */
double tg_wanted(double mean, double deviation, double failing, double best, int gaining);

/* Chooses `count` of pool(m, F) one after the other, each best by tg_wanted, where deviations count those chosen before as
   measured (GP-BUCB, Desautels, Krause, Burdick 2014). mean(m) is that of tg_surrogate_mean, failing(m) the chance of failing. */
tg_status tg_surrogate_choose(const tg_surrogate *s, const double *pool, int64_t m, const double *mean,
                              const double *failing, int gaining, int64_t count, int64_t *chosen,
                              tg_error *err);

#endif
