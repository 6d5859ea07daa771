#include "features/layout.h"

#include "features/schema.h"

tg_status tg_layout_digits(int8_t *digits, const float *node_feat, int64_t ld, int64_t N, int padding,
                           int least, tg_error *err) {
    for (int64_t n = 0; n < N; n++) {
        const float *row = node_feat + n * ld;
        int rank = 0;
        for (int i = 0; i < TG_LAYOUT_DIGITS; i++) rank += row[TG_SHAPE_COLUMN + i] != 0.0f;
        for (int i = 0; i < TG_LAYOUT_DIGITS; i++) {
            float x = row[TG_SCALED_FEATURES + i];
            if (!(x >= TG_DIGIT_MIN && x <= TG_DIGIT_MAX) || (float)(int)x != x) /* also for NaN */
                return tg_fail_field(err, "node_feat", "a layout digit, an integer in -1..5",
                                     "%g (node %lld, column %d)", (double)x, (long long)n,
                                     TG_SCALED_FEATURES + i);
            digits[n * TG_LAYOUT_DIGITS + i] =
                (i < rank || padding == 0) && x >= (float)least ? (int8_t)x : -1;
        }
    }
    return TG_OK;
}
