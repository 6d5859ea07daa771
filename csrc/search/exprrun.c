#include <math.h>
#include <string.h>

#include "search/expr.h"

static int is_number(const tg_value *v) { return v->kind <= TG_VALUE_REAL; }

static int is_whole(const tg_value *v) { return v->kind <= TG_VALUE_WHOLE; }

static tg_value flag(int yes) { return (tg_value){TG_VALUE_FLAG, 0, {.whole = yes != 0}}; }

static tg_value whole(int64_t number) { return (tg_value){TG_VALUE_WHOLE, 0, {.whole = number}}; }

static tg_value real(double number) { return (tg_value){TG_VALUE_REAL, 0, {.real = number}}; }

double tg_value_real(const tg_value *v) {
    return v->kind == TG_VALUE_REAL ? v->real : is_whole(v) ? (double)v->whole : 0;
}

int tg_value_true(const tg_value *v) {
    switch (v->kind) {
    case TG_VALUE_REAL: return v->real != 0;
    case TG_VALUE_TEXT:
    case TG_VALUE_ORDER: return v->size > 0;
    default: return v->whole != 0;
    }
}

/* The order of a whole number and a double, without rounding. */
static int order_mixed(int64_t a, double b) {
    if (isnan(b)) return 2;
    if (b >= 0x1p63) return -1;
    if (b < -0x1p63) return 1;
    const double floor_b = floor(b);
    const int64_t below = (int64_t)floor_b;
    if (a != below) return a < below ? -1 : 1;
    return b > floor_b ? -1 : 0;
}

int tg_value_order(const tg_value *a, const tg_value *b) {
    if (a->kind == TG_VALUE_TEXT && b->kind == TG_VALUE_TEXT) {
        const int32_t least = a->size < b->size ? a->size : b->size;
        const int order = memcmp(a->text, b->text, (size_t)least);
        return order != 0 ? (order < 0 ? -1 : 1) : a->size < b->size ? -1 : a->size > b->size;
    }
    if (a->kind == TG_VALUE_ORDER && b->kind == TG_VALUE_ORDER)
        return a->size == b->size && a->order == b->order ? 0 : 2;
    if (!is_number(a) || !is_number(b)) return 2;
    if (is_whole(a) && is_whole(b)) return a->whole < b->whole ? -1 : a->whole > b->whole;
    if (is_whole(a)) return order_mixed(a->whole, b->real);
    if (is_whole(b)) {
        const int order = order_mixed(b->whole, a->real);
        return order == 2 ? 2 : -order;
    }
    return a->real < b->real ? -1 : a->real > b->real ? 1 : a->real == b->real ? 0 : 2;
}

/* ---- kinds that do not go together ---- */

static const char *kind_of(const tg_value *v) {
    static const char *const names[] = {"a flag", "a whole number", "a number", "a text", "a permutation"};
    return names[v->kind];
}

static const char *sign_of(int op) {
    static const char *const signs[] = {"",   "",   "-", "+",  "~", "not", "abs", "+",      "-",   "*",
                                        "/",  "//", "%", "**", "&", "|",   "^",   "<<",     ">>",  "[]",
                                        "==", "!=", "<", "<=", ">", ">=",  "in",  "not in", "min", "max"};
    return signs[op];
}

static tg_expr_end misfit(int op, const char *expected, const tg_value *a, const tg_value *b, tg_error *err) {
    if (b == NULL)
        tg_fail(err, TG_E_CONFIG, "'%s': expected %s, found %s", sign_of(op), expected, kind_of(a));
    else
        tg_fail(err, TG_E_CONFIG, "'%s': expected %s, found %s and %s", sign_of(op), expected, kind_of(a),
                kind_of(b));
    return TG_EXPR_KINDS;
}

/* ---- arithmetic, as Python has it ---- */

static tg_expr_end power_whole(int64_t base, int64_t exponent, tg_value *to) {
    int64_t result = 1, square = base;
    if (exponent < 0) {
        if (base == 0) return TG_EXPR_UNDEFINED;
        *to = real(pow((double)base, (double)exponent));
        return TG_EXPR_DONE;
    }
    for (int64_t left = exponent; left > 0; left >>= 1) {
        if ((left & 1) != 0 && __builtin_mul_overflow(result, square, &result)) break;
        if (left == 1) {
            *to = whole(result);
            return TG_EXPR_DONE;
        }
        if (__builtin_mul_overflow(square, square, &square)) break;
    }
    *to = exponent == 0 ? whole(1) : real(pow((double)base, (double)exponent));
    return TG_EXPR_DONE;
}

static tg_expr_end power(const tg_value *a, const tg_value *b, tg_value *to) {
    if (is_whole(a) && is_whole(b)) return power_whole(a->whole, b->whole, to);
    const double x = tg_value_real(a), y = tg_value_real(b);
    if ((x == 0 && y < 0) || (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))) return TG_EXPR_UNDEFINED;
    *to = real(pow(x, y));
    return isinf(to->real) && isfinite(x) && isfinite(y) ? TG_EXPR_UNDEFINED : TG_EXPR_DONE;
}

/* Quotient rounded down, and what it leaves, with the sign of the divisor. */
static void divide_real(double x, double y, double *quotient, double *rest) {
    double left = fmod(x, y), q = (x - left) / y;
    if (left != 0) {
        if ((y < 0) != (left < 0)) left += y, q -= 1;
    } else left = copysign(0, y);
    if (q != 0) {
        const double down = floor(q);
        q = q - down > 0.5 ? down + 1 : down;
    } else q = copysign(0, x / y);
    *quotient = q, *rest = left;
}

static tg_expr_end divide(int op, const tg_value *a, const tg_value *b, tg_value *to) {
    const int ints = is_whole(a) && is_whole(b);
    if (tg_value_real(b) == 0) return TG_EXPR_UNDEFINED;
    if (op != TG_STEP_DIV && ints && b->whole != -1) {
        const int64_t rest = a->whole % b->whole, turn = rest != 0 && (rest < 0) != (b->whole < 0);
        *to = whole(op == TG_STEP_MOD ? rest + turn * b->whole : a->whole / b->whole - turn);
        return TG_EXPR_DONE;
    }
    if (op != TG_STEP_DIV && ints) { /* by -1, which the smallest number does not survive */
        *to = op == TG_STEP_MOD ? whole(0) : a->whole == INT64_MIN ? real(0x1p63) : whole(-a->whole);
        return TG_EXPR_DONE;
    }
    const double x = tg_value_real(a), y = tg_value_real(b);
    double quotient, rest;
    if (op == TG_STEP_DIV) {
        *to = real(x / y);
        return TG_EXPR_DONE;
    }
    divide_real(x, y, &quotient, &rest);
    *to = real(op == TG_STEP_MOD ? rest : quotient);
    return TG_EXPR_DONE;
}

static tg_expr_end shift(int op, const tg_value *a, const tg_value *b, tg_value *to) {
    const int64_t x = a->whole, by = b->whole;
    if (by < 0) return TG_EXPR_UNDEFINED;
    if (op == TG_STEP_RIGHT) *to = whole(x >> (by > 63 ? 63 : by));
    else if (x == 0 || (by < 63 && (x >> (63 - by) == 0 || x >> (63 - by) == -1)))
        *to = whole(x == 0 ? 0 : (int64_t)((uint64_t)x << by));
    else {
        *to = real(ldexp((double)x, by > 5000 ? 5000 : (int)by));
        if (isinf(to->real)) return TG_EXPR_UNDEFINED;
    }
    return TG_EXPR_DONE;
}

static tg_expr_end bits(int op, const tg_value *a, const tg_value *b, tg_value *to, tg_error *err) {
    if (!is_whole(a) || !is_whole(b)) return misfit(op, "whole numbers", a, b, err);
    if (op == TG_STEP_LEFT || op == TG_STEP_RIGHT) return shift(op, a, b, to);
    const int64_t x = a->whole, y = b->whole;
    *to = whole(op == TG_STEP_AND ? x & y : op == TG_STEP_OR ? x | y : x ^ y);
    if (a->kind == TG_VALUE_FLAG && b->kind == TG_VALUE_FLAG) to->kind = TG_VALUE_FLAG;
    return TG_EXPR_DONE;
}

static tg_expr_end element(const tg_value *a, const tg_value *b, tg_value *to, tg_error *err) {
    if (a->kind != TG_VALUE_ORDER || !is_whole(b))
        return misfit(TG_STEP_INDEX, "a permutation and a whole number", a, b, err);
    const int64_t at = b->whole + (b->whole < 0 ? a->size : 0);
    if (at < 0 || at >= a->size) return TG_EXPR_UNDEFINED;
    *to = whole((int64_t)(a->order >> (4 * at) & 15));
    return TG_EXPR_DONE;
}

static tg_expr_end two(int op, const tg_value *a, const tg_value *b, tg_value *to, tg_error *err) {
    int64_t result;
    if (op == TG_STEP_INDEX) return element(a, b, to, err);
    if (op >= TG_STEP_AND && op <= TG_STEP_RIGHT) return bits(op, a, b, to, err);
    if (!is_number(a) || !is_number(b)) return misfit(op, "two numbers", a, b, err);
    if (op == TG_STEP_POW) return power(a, b, to);
    if (op >= TG_STEP_DIV) return divide(op, a, b, to);
    if (is_whole(a) && is_whole(b) &&
        !(op == TG_STEP_ADD   ? __builtin_add_overflow(a->whole, b->whole, &result)
          : op == TG_STEP_SUB ? __builtin_sub_overflow(a->whole, b->whole, &result)
                              : __builtin_mul_overflow(a->whole, b->whole, &result))) {
        *to = whole(result);
        return TG_EXPR_DONE;
    }
    const double x = tg_value_real(a), y = tg_value_real(b);
    *to = real(op == TG_STEP_ADD ? x + y : op == TG_STEP_SUB ? x - y : x * y);
    return TG_EXPR_DONE;
}

static tg_expr_end one(int op, tg_value *v, tg_error *err) {
    if (op == TG_STEP_NOT) {
        *v = flag(!tg_value_true(v));
        return TG_EXPR_DONE;
    }
    if (!is_number(v) || (op == TG_STEP_INVERT && !is_whole(v)))
        return misfit(op, op == TG_STEP_INVERT ? "a whole number" : "a number", v, NULL, err);
    if (v->kind == TG_VALUE_REAL) {
        if (op == TG_STEP_NEGATE) v->real = -v->real;
        else if (op == TG_STEP_ABS) v->real = fabs(v->real);
        return TG_EXPR_DONE;
    }
    v->kind = TG_VALUE_WHOLE;
    if (op == TG_STEP_INVERT) v->whole = ~v->whole;
    else if (op == TG_STEP_NEGATE || (op == TG_STEP_ABS && v->whole < 0))
        *v = v->whole == INT64_MIN ? real(0x1p63) : whole(-v->whole);
    return TG_EXPR_DONE;
}

/* ---- comparisons ---- */

static tg_expr_end compare(int op, const tg_value *a, const tg_value *b, tg_value *to, tg_error *err) {
    const int order = tg_value_order(a, b);
    if (op == TG_STEP_EQ || op == TG_STEP_NE) {
        *to = flag((order == 0) == (op == TG_STEP_EQ));
        return TG_EXPR_DONE;
    }
    const int texts = a->kind == TG_VALUE_TEXT && b->kind == TG_VALUE_TEXT;
    if (!texts && (!is_number(a) || !is_number(b))) return misfit(op, "two numbers or two texts", a, b, err);
    *to = flag(order != 2 && (op == TG_STEP_LT   ? order < 0
                              : op == TG_STEP_LE ? order <= 0
                              : op == TG_STEP_GT ? order > 0
                                                 : order >= 0));
    return TG_EXPR_DONE;
}

/* Of n values, to the first. */
static tg_expr_end extreme(int op, tg_value *v, int32_t n, tg_error *err) {
    for (int32_t i = 1; i < n; i++) {
        tg_value better;
        const tg_expr_end end =
            compare(op == TG_STEP_MIN ? TG_STEP_LT : TG_STEP_GT, &v[i], &v[0], &better, err);
        if (end != TG_EXPR_DONE) return misfit(op, "numbers or texts", &v[i], &v[0], err);
        if (better.whole) v[0] = v[i];
    }
    if (v[0].kind == TG_VALUE_ORDER) return misfit(op, "numbers or texts", &v[0], NULL, err);
    return TG_EXPR_DONE;
}

/* Whether v[0] is one of the n values behind it. */
static tg_value among(int op, const tg_value *v, int32_t n) {
    int found = 0;
    for (int32_t i = 1; i <= n && !found; i++) found = tg_value_order(&v[0], &v[i]) == 0;
    return flag(found == (op == TG_STEP_IN));
}

/* Run a step that computes; the values end at *top. */
static tg_expr_end compute(tg_expr_step step, tg_value **top, tg_error *err) {
    tg_value *last = *top - 1, made;
    if (step.op < TG_STEP_ADD) return one(step.op, last, err);
    if (step.op >= TG_STEP_MIN) {
        *top -= step.arg - 1;
        return extreme(step.op, *top - 1, step.arg, err);
    }
    if (step.op >= TG_STEP_IN) {
        *top -= step.arg;
        (*top)[-1] = among(step.op, *top - 1, step.arg);
        return TG_EXPR_DONE;
    }
    tg_expr_end end;
    if (step.op >= TG_STEP_EQ) {
        end = compare(step.op, last - 1, last, &made, err);
        if (step.arg) {
            last[-1] = *last;
            *last = made;
            return end;
        }
    } else end = two(step.op, last - 1, last, &made, err);
    last[-1] = made;
    *top = last;
    return end;
}

tg_expr_end tg_expr_run(const tg_expr *expr, const tg_value *values, tg_value *result, tg_error *err) {
    tg_value stack[TG_EXPR_STACK], *top = stack;
    const tg_expr_step *step = expr->steps, *end = step + expr->count;
    for (; step < end; step++) {
        switch (step->op) {
        case TG_STEP_CONSTANT: *top++ = expr->constants[step->arg]; break;
        case TG_STEP_NAME: *top++ = values[step->arg]; break;
        case TG_STEP_JUMP: step += step->arg; break;
        case TG_STEP_FALSE_STAYS:
        case TG_STEP_TRUE_STAYS:
            if (tg_value_true(&top[-1]) == (step->op == TG_STEP_TRUE_STAYS)) step += step->arg;
            else top--;
            break;
        case TG_STEP_FALSE_LEAVES:
            if (!tg_value_true(--top)) step += step->arg;
            break;
        case TG_STEP_NIP:
            top[-2] = top[-1];
            top--;
            break;
        default: {
            const tg_expr_end ended = compute(*step, &top, err);
            if (ended != TG_EXPR_DONE) return ended;
        }
        }
    }
    *result = stack[0];
    return TG_EXPR_DONE;
}
