#include "optim/nonnegative.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* a . b in the order of NumPy's sums, which fitted models of layers have been made with. */
static double dot(int n, const double *a, const double *b) {
    double sum = 0;
    int i = 0;
    if (n >= 8) {
        double part[8];
        for (int k = 0; k < 8; k++) part[k] = a[k] * b[k];
        for (i = 8; i + 8 <= n; i += 8)
            for (int k = 0; k < 8; k++) {
                const double product = a[i + k] * b[i + k];
                part[k] += product;
            }
        sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Whether no coefficient has changed by more than 1e-7 of the largest; not where one is NaN. */
static int settled(int T, const double *before, const double *c) {
    double change = 0, most = 0;
    for (int i = 0; i < T; i++) {
        const double by = fabs(c[i] - before[i]);
        if (isnan(by)) return 0;
        change = fmax(change, by), most = fmax(most, fabs(c[i]));
    }
    return change <= 1e-7 * most;
}

void tg_nonnegative(int T, const double *P, const double *m, int sweeps, double *c) {
    double before[TG_MOST_TERMS];
    assert(T >= 0 && T <= TG_MOST_TERMS);
    memset(c, 0, (size_t)T * sizeof *c);
    for (int sweep = 0; sweep < sweeps; sweep++) {
        memcpy(before, c, (size_t)T * sizeof *c);
        for (int i = 0; i < T; i++) {
            const double *row = P + (size_t)i * (size_t)T;
            if (!(row[i] > 0)) continue;
            const double wanted = c[i] + (m[i] - dot(T, row, c)) / row[i];
            c[i] = wanted > 0 ? wanted : 0;
        }
        if (settled(T, before, c)) break;
    }
}
