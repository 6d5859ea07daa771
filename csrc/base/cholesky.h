/* Lower triangular factors of symmetric definite matrices, row by row in double precision, for up to some thousand rows. */
#ifndef TG_CHOLESKY_H
#define TG_CHOLESKY_H

#include <stdint.h>

/* a(n, n), of which the lower half counts, becomes its factor L there: a = L L'. 0 where a squared diagonal entry of L would
   not be above `least`. */
int tg_cholesky(double *a, int64_t n, double least);

/* y(n) becomes L^-1 y, or (L L')^-1 y. */
void tg_cholesky_forward(const double *L, int64_t n, double *y);
void tg_cholesky_solve(const double *L, int64_t n, double *y);

#endif
