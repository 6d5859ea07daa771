/* Merging of equal configs, which distinct.h finds. */
#ifndef TG_MERGE_H
#define TG_MERGE_H

#include <stdint.h>

#include "base/status.h"

/* Which copy of a config stays: the first, the one with the least runtime (relative to its normalizer, if
   there are any), or the first with the mean of the runtimes (and of the normalizers). */
typedef enum tg_keep { TG_KEEP_FIRST, TG_KEEP_MIN, TG_KEEP_MEAN } tg_keep;

/* rows (U,) that stay, with runtimes (U,) and normalizers (U,) (NULL if norm is), from first (U,), inverse
   (C,), runtime (C,) and norm (C,), >= 1 for the least. Means are exact, rounded half to even. */
tg_status tg_rows_merge(int64_t *rows, int64_t *runtimes, int64_t *normalizers, tg_keep keep,
                        const int64_t *first, int64_t U, const int64_t *inverse, int64_t C,
                        const int64_t *runtime, const int64_t *norm, tg_error *err);

/* The same for runtimes that are not whole, of graphs without normalizers; copies that failed, where ran (C,) is 0
   (NULL: none did), count only if all of them did. A mean of none is NaN. */
tg_status tg_rows_merge_real(int64_t *rows, double *runtimes, tg_keep keep, const int64_t *first, int64_t U,
                             const int64_t *inverse, int64_t C, const double *runtime, const uint8_t *ran,
                             tg_error *err);

#endif
