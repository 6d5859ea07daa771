#include "configs/base7.h"

#include "base/parallel.h"
#include "features/schema.h"
#include "kernels/kernels.h"

static const char digit_range[] = "an integer in -1..5";

static inline int is_digit(int8_t d) { return d >= TG_DIGIT_MIN && d <= TG_DIGIT_MAX; }

/* Codes per block that one thread does. */
enum { BASE7_BLOCK = 1 << 13 };
static int64_t block_at(int64_t n, int64_t t) { return n - t < BASE7_BLOCK ? n - t : BASE7_BLOCK; }

tg_status tg_base7_encode(int32_t *codes, const int8_t *digits, int64_t C, int64_t K, tg_error *err) {
    const int64_t n = C * K * TG_TENSORS;
    const tg_kernels *k = tg_kernel_table();
    int fine = 1;
#pragma omp parallel for schedule(static) reduction(& : fine) num_threads(tg_threads((double)n))
    for (int64_t t = 0; t < n; t += BASE7_BLOCK)
        fine &= k->base7_encode(block_at(n, t), digits + t * TG_LAYOUT_DIGITS, codes + t);
    if (fine) return TG_OK;
    for (int64_t t = 0; t < n; t++) {
        const int8_t *d = digits + t * TG_LAYOUT_DIGITS;
        int32_t code = 0;
        for (int i = TG_LAYOUT_DIGITS; i-- > 0;) {
            if (!is_digit(d[i]))
                return tg_fail_field(err, "digits", digit_range, "%d (row %lld, node %lld, column %lld)",
                                     d[i], (long long)(t / TG_TENSORS / K), (long long)(t / TG_TENSORS % K),
                                     (long long)(t % TG_TENSORS * TG_LAYOUT_DIGITS + i));
            code = code * TG_DIGIT_VALUES + d[i] + 1;
        }
        codes[t] = code;
    }
    return TG_OK;
}

tg_status tg_base7_decode(int8_t *digits, const int32_t *codes, int64_t C, int64_t K, tg_error *err) {
    const int64_t n = C * K * TG_TENSORS;
    const tg_kernels *k = tg_kernel_table();
    int fine = 1;
#pragma omp parallel for schedule(static) reduction(& : fine) num_threads(tg_threads((double)n))
    for (int64_t t = 0; t < n; t += BASE7_BLOCK)
        fine &= k->base7_decode(block_at(n, t), codes + t, digits + t * TG_LAYOUT_DIGITS);
    for (int64_t t = 0; !fine && t < n; t++)
        if ((uint32_t)codes[t] >= TG_LAYOUT_CODES)
            return tg_fail_field(err, "codes", "a code in 0..117648",
                                 "%ld (row %lld, node %lld, column %lld)", (long)codes[t],
                                 (long long)(t / TG_TENSORS / K), (long long)(t / TG_TENSORS % K),
                                 (long long)(t % TG_TENSORS));
    return TG_OK;
}
