#include "base/cholesky.h"

#include <math.h>

int tg_cholesky(double *a, int64_t n, double least) {
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * n;
        for (int64_t j = 0; j <= i; j++) {
            const double *other = a + j * n;
            double sum = row[j];
            for (int64_t k = 0; k < j; k++) sum -= row[k] * other[k];
            if (i > j) row[j] = sum / other[j];
            else if (sum > least) row[i] = sqrt(sum);
            else return 0;
        }
    }
    return 1;
}

void tg_cholesky_forward(const double *L, int64_t n, double *y) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++) y[i] -= L[i * n + k] * y[k];
        y[i] /= L[i * n + i];
    }
}

void tg_cholesky_solve(const double *L, int64_t n, double *y) {
    tg_cholesky_forward(L, n, y);
    for (int64_t i = n - 1; i >= 0; i--) {
        y[i] /= L[i * n + i];
        for (int64_t k = 0; k < i; k++) y[k] -= L[i * n + k] * y[i];
    }
}
