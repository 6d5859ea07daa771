/* Nonnegative least squares of a few terms. */
#ifndef TG_NONNEGATIVE_H
#define TG_NONNEGATIVE_H

enum { TG_MOST_TERMS = 64 };

/* Minimise c' P c - 2 m' c over c >= 0, for P (T, T) and m (T), by coordinate descent from 0 in at most as many sweeps.
   A term whose P[i, i] is not above 0 stays 0. The numbers may be those of any file: c may have infinities. */
void tg_nonnegative(int T, const double *P, const double *m, int sweeps, double *c);

#endif
