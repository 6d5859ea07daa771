/* Layout configs in three small numbers per configurable node instead of 18 digits: each stands for six digits (one
   tensor's layout) in a table of the graph. A graph has a few dozen different layouts, so a number is nearly always one
   byte, and all rows have one size, so the place of a row is computed. */
#ifndef TG_CODES_H
#define TG_CODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "features/schema.h"

typedef struct tg_codes {
    const void *data; /* (C,K,3) of `size` bytes each, in the machine's byte order */
    int size;         /* 1, 2 or 4 */
    int64_t C, K;
    int64_t entries;
    const int8_t *table; /* (entries,8): six digits and two bytes of any value */
} tg_codes;

/* wide (entries,8) from table (entries,6), whose digits are checked. */
tg_status tg_codes_widen(int8_t *wide, const int8_t *table, int64_t entries, tg_error *err);

/* digits (K,18) of config `row` in 0..C-1; a TG_E_DATA for a number without an entry. */
tg_status tg_codes_row(const tg_codes *codes, int64_t row, int8_t *digits, tg_error *err);

/* The same of the nodes `some` (n) alone: digits (n,18). */
tg_status tg_codes_some(const tg_codes *codes, int64_t row, const int32_t *some, int32_t n, int8_t *digits,
                        tg_error *err);

/* Check all rows from `begin` to before `end`. */
tg_status tg_codes_check(const tg_codes *codes, int64_t begin, int64_t end, tg_error *err);

typedef struct tg_encoder tg_encoder; /* half a megabyte */

/* An encoder to numbers of `size` bytes, or NULL when there is no memory. */
tg_encoder *tg_encoder_new(int size);
void tg_encoder_free(tg_encoder *e);

/* Most digits that one call of tg_encoder_put takes. */
#define TG_ENCODE_MOST (16 << 10)

/* Bytes that TG_ENCODE_MOST digits become, at most. */
#define TG_ENCODE_ROOM (((TG_ENCODE_MOST) / TG_LAYOUT_DIGITS + 1) * 4)

/* Append the next digits (n), all in -1..5, to those of the calls before: whole codes go to `to`, *bytes of them, a
   rest waits for the next call. 0 when there are more different codes than numbers. */
int tg_encoder_put(tg_encoder *e, const int8_t *digits, int64_t n, void *to, size_t *bytes);

/* The table (entries,6) so far, in the order in which the codes came up. */
const int8_t *tg_encoder_table(const tg_encoder *e, int64_t *entries);

#endif
