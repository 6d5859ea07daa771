/* libFuzzer target of constraints: any bytes as an expression over parameters of all kinds. One that is accepted gives a
   value, the same twice, or says what is wrong; so do its parts, which all hold where it does. */
#include <stdlib.h>
#include <string.h>

#include "search/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAMES = 6 };

static const char *const names[NAMES] = {"a", "b", "c", "x", "s", "p"};

/* 1, 0, or -1 without a value. */
static int holds(const tg_expr *expr, const tg_value *values) {
    tg_value result, again;
    tg_error err = {0};
    const tg_expr_end end = tg_expr_run(expr, values, &result, &err);
    if (end != tg_expr_run(expr, values, &again, &err)) abort();
    if (end == TG_EXPR_KINDS && err.message[0] == 0) abort();
    if (end != TG_EXPR_DONE) return -1;
    if (tg_value_true(&result) != tg_value_true(&again)) abort();
    return tg_value_true(&result);
}

static void look(const tg_expr *whole, const char *text, size_t size) {
    static const int64_t numbers[] = {0, 1, -1, 7, INT64_MAX, INT64_MIN, 64};
    static const double reals[] = {0.5, -0.0, 1e308, -3, 1e-300, 2, 9007199254740993.0};
    for (int i = 0; i < 7; i++) {
        const tg_value values[NAMES] = {{TG_VALUE_WHOLE, 0, {.whole = numbers[i]}},
                                        {TG_VALUE_WHOLE, 0, {.whole = numbers[(3 * i + 1) % 7]}},
                                        {TG_VALUE_FLAG, 0, {.whole = i & 1}},
                                        {TG_VALUE_REAL, 0, {.real = reals[i]}},
                                        {TG_VALUE_TEXT, i % 4, {.text = "xyz"}},
                                        {TG_VALUE_ORDER, 3, {.order = 0x102}}};
        const int all = holds(whole, values);
        int each = 1;
        for (const char *at = text, *end = text + size; at < end;) {
            const size_t part = tg_expr_part(at, (size_t)(end - at));
            tg_expr one;
            tg_error err;
            if (tg_expr_read(&one, at, part, names, NAMES, &err) != TG_OK) abort();
            each = each && holds(&one, values) == 1;
            tg_expr_free(&one);
            at += part + (at + part < end ? 3 : 0);
        }
        if (each != (all == 1)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err = {0};
    tg_expr expr;
    if (tg_expr_read(&expr, (const char *)data, size, names, NAMES, &err) == TG_OK)
        look(&expr, (const char *)data, size);
    else if (err.message[0] == 0 || err.code == TG_OK) abort();
    tg_expr_free(&expr);
    return 0;
}
