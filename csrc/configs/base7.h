/* The base-7 codec of layout configs, (C,K,18) digits. Errors name row, node and column. */
#ifndef TG_BASE7_H
#define TG_BASE7_H

#include <stdint.h>

#include "base/status.h"

/* codes (C,K,3) from digits (C,K,18): code = sum of (d_i + 1) 7^i over the six digits of a tensor. */
tg_status tg_base7_encode(int32_t *codes, const int8_t *digits, int64_t C, int64_t K, tg_error *err);

/* digits (C,K,18) from codes (C,K,3), each in 0..7^6-1. */
tg_status tg_base7_decode(int8_t *digits, const int32_t *codes, int64_t C, int64_t K, tg_error *err);

#endif
