/* Layout configs, (C,K,18) digits: their base-7 codec, what stays of equal ones, and the layout digits of the
   node features. Errors name row, node and column. (digits.c makes digits from numbers, distinct.c finds equal ones.) */
#ifndef TG_CONFIGS_H
#define TG_CONFIGS_H

#include <stdint.h>

#include "base/status.h"
#include "features/schema.h"

/* codes (C,K,3) from digits (C,K,18): code = sum of (d_i + 1) 7^i over the six digits of a tensor. */
tg_status tg_base7_encode(int32_t *codes, const int8_t *digits, int64_t C, int64_t K, tg_error *err);

/* digits (C,K,18) from codes (C,K,3), each in 0..7^6-1. */
tg_status tg_base7_decode(int8_t *digits, const int32_t *codes, int64_t C, int64_t K, tg_error *err);

/* digits (N,6) from columns 134-139 of node_feat (N,140). With padding -1, positions at or past the rank (number of
   non-zero shape dimensions, columns 21-26) become -1; with padding 0 every column stays as it is. */
tg_status tg_layout_digits(int8_t *digits, const float *node_feat, int64_t N, int padding, tg_error *err);

/* Which copy of a config stays: the first, the one with the least runtime (relative to its normalizer, if
   there are any), or the first with the mean of the runtimes (and of the normalizers). */
typedef enum tg_keep { TG_KEEP_FIRST, TG_KEEP_MIN, TG_KEEP_MEAN } tg_keep;

/* rows (U,) that stay, with runtimes (U,) and normalizers (U,) (NULL if norm is), from first (U,), inverse
   (C,), runtime (C,) and norm (C,), >= 1 for the least. Means are exact, rounded half to even. */
tg_status tg_rows_merge(int64_t *rows, int64_t *runtimes, int64_t *normalizers, tg_keep keep,
                        const int64_t *first, int64_t U, const int64_t *inverse, int64_t C,
                        const int64_t *runtime, const int64_t *norm, tg_error *err);

#endif
