#include "search/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int32_t factorial(int32_t k) {
    int32_t n = 1;
    for (int32_t i = 2; i <= k; i++) n *= i;
    return n;
}

uint64_t tg_order_of(int32_t code, int32_t k) {
    uint64_t left = 0xba9876543210, order = 0; /* elements that are left, smallest first */
    for (int32_t i = 0, f = k > 0 ? factorial(k - 1) : 1; i < k; i++) {
        const int at = code / f;
        order |= (left >> (4 * at) & 15) << (4 * i);
        left = (left & ((UINT64_C(1) << (4 * at)) - 1)) | (left >> (4 * at + 4) << (4 * at));
        code %= f;
        if (k - 1 - i > 0) f /= k - 1 - i;
    }
    return order;
}

int32_t tg_code_of_order(uint64_t order, int32_t k) {
    int32_t code = 0;
    for (int32_t i = 0; i < k; i++) {
        int smaller = 0;
        for (int32_t j = i + 1; j < k; j++) smaller += (order >> (4 * j) & 15) < (order >> (4 * i) & 15);
        code = code * (k - i) + smaller;
    }
    return code;
}

tg_value tg_axis_value(const tg_axis *param, int32_t code) {
    if (param->kind == TG_AXIS_LIST) return param->values[code];
    if (param->kind == TG_AXIS_RANGE)
        return (tg_value){TG_VALUE_WHOLE, 0, {.whole = param->low + param->step * code}};
    return (tg_value){TG_VALUE_ORDER, param->elements, {.order = tg_order_of(code, param->elements)}};
}

/* ---- points ---- */

int tg_cspace_point_open(tg_cspace_point *point, const tg_cspace *space) {
    point->code = calloc((size_t)space->P + 1, sizeof *point->code);
    point->value = calloc((size_t)space->P + 1, sizeof *point->value);
    return point->code != NULL && point->value != NULL;
}

void tg_cspace_point_free(tg_cspace_point *point) {
    free(point->code);
    free(point->value);
}

int tg_cspace_holds(const tg_cspace *space, const tg_cspace_test *test, const tg_cspace_point *point,
                    tg_error *err) {
    tg_value result;
    tg_error why;
    if (test->called) {
        const int holds = space->call(space->context, test->of, point->code);
        if (holds < 0) tg_fail(err, TG_E_CANCELLED, "a constraint raised");
        return holds;
    }
    const tg_expr_end end = tg_expr_run(&test->expr, point->value, &result, &why);
    if (end == TG_EXPR_DONE) return tg_value_true(&result);
    if (end == TG_EXPR_UNDEFINED) return 0;
    tg_fail(err, TG_E_CONFIG, "constraint '%.300s': %s", space->given[test->of].name, why.message);
    if (err != NULL) tg_error_printable(err);
    return -1;
}

tg_status tg_cspace_feasible(const tg_cspace *space, const int32_t *codes, int64_t n, uint8_t *feasible,
                             tg_cancel *cancel, tg_error *err) {
    tg_cspace_point point;
    tg_status status = TG_OK;
    if (!tg_cspace_point_open(&point, space)) status = tg_fail(err, TG_E_MEMORY, "no memory for a config");
    for (int64_t i = 0; status == TG_OK && i < n; i++) {
        const int32_t *row = codes + i * space->P;
        int holds = 1;
        for (int32_t p = 0; holds && p < space->P; p++) {
            holds = row[p] >= 0 && row[p] < space->params[p].n;
            if (holds) tg_cspace_set(space, &point, p, row[p]);
        }
        if (holds && space->rows != NULL) holds = tg_rowset_find(&space->set, row) >= 0;
        for (int32_t t = 0; holds == 1 && t < space->n_tests; t++)
            holds = tg_cspace_holds(space, &space->tests[t], &point, err);
        if (holds < 0) status = err != NULL ? err->code : TG_E_CONFIG;
        feasible[i] = holds == 1;
        if ((i & 255) == 255 && tg_cancelled(cancel)) status = tg_fail(err, TG_E_CANCELLED, "stopped");
    }
    tg_cspace_point_free(&point);
    return status;
}

tg_status tg_cspace_require(const tg_cspace *space, const int32_t *code, tg_error *err) {
    tg_cspace_point point;
    tg_status status = TG_OK;
    if (space->rows != NULL)
        return tg_rowset_find(&space->set, code) >= 0 ? TG_OK
                                                      : tg_fail(err, TG_E_CONFIG, "a row of the table");
    if (!tg_cspace_point_open(&point, space)) status = tg_fail(err, TG_E_MEMORY, "no memory for a config");
    for (int32_t p = 0; status == TG_OK && p < space->P; p++) tg_cspace_set(space, &point, p, code[p]);
    for (int32_t t = 0; status == TG_OK && t < space->n_tests; t++) {
        const int holds = tg_cspace_holds(space, &space->tests[t], &point, err);
        if (holds < 0) status = err->code;
        if (holds == 0)
            status = tg_fail(err, TG_E_CONFIG, "'%.300s' to hold", space->given[space->tests[t].of].name);
    }
    tg_cspace_point_free(&point);
    return status;
}

/* ---- making ---- */

/* Codes of an ordered list by value: qsort would need the values in a global. */
static void merge(const tg_value *values, const int32_t *from, int32_t *to, int32_t low, int32_t middle,
                  int32_t high) {
    for (int32_t i = low, j = middle, k = low; k < high; k++)
        to[k] = j >= high || (i < middle && tg_value_order(&values[from[i]], &values[from[j]]) <= 0)
                    ? from[i++]
                    : from[j++];
}

static tg_status sort_values(tg_axis *param, tg_error *err) {
    const int32_t n = param->n;
    int32_t *codes = malloc(((size_t)n + 1) * sizeof *codes),
            *other = malloc(((size_t)n + 1) * sizeof *other);
    for (int32_t i = 0; codes != NULL && i < n; i++) codes[i] = i;
    for (int32_t run = 1; codes != NULL && other != NULL && run<n; run = run> n / 2 ? n : 2 * run) {
        for (int32_t low = 0; low < n; low = n - low > 2 * (int64_t)run ? low + 2 * run : n) {
            const int32_t middle = n - low > run ? low + run : n, high = n - middle > run ? middle + run : n;
            merge(param->values, codes, other, low, middle, high);
        }
        int32_t *swap = codes;
        codes = other, other = swap;
    }
    param->by_value = codes, param->place = other;
    if (codes == NULL || other == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %d values", n);
    for (int32_t i = 0; i < n; i++) other[codes[i]] = i;
    return TG_OK;
}

/* A further test, or NULL. */
static tg_cspace_test *add_test(tg_cspace *space, int32_t *room, tg_cspace_test test, tg_error *err) {
    if (space->n_tests == *room) {
        tg_cspace_test *more = realloc(space->tests, (size_t)(*room = 2 * *room + 8) * sizeof *more);
        if (more == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for constraints"), NULL;
        space->tests = more;
    }
    space->tests[space->n_tests] = test;
    return &space->tests[space->n_tests++];
}

/* Make the tests of a text that was read: its parts that must all hold. */
static tg_status add_text(tg_cspace *space, int32_t c, const char *const *names, int32_t *room,
                          tg_error *err) {
    const tg_constraint *given = &space->given[c];
    const char *at = given->text, *end = at + given->size;
    tg_error why;
    tg_expr whole;
    tg_status status = tg_expr_read(&whole, at, given->size, names, space->P, &why);
    tg_expr_free(&whole);
    while (status == TG_OK && at < end) {
        const size_t part = tg_expr_part(at, (size_t)(end - at));
        tg_cspace_test *test = add_test(space, room, (tg_cspace_test){.of = c}, err);
        if (test == NULL) return TG_E_MEMORY;
        status = tg_expr_read(&test->expr, at, part, names, space->P, &why);
        test->reads = test->expr.reads, test->n_reads = test->expr.n_reads;
        at += part + (at + part < end ? 3 : 0);
    }
    if (status == TG_OK) return TG_OK;
    tg_fail(err, status, "constraint '%.200s': %s", given->name, why.message);
    if (err != NULL) tg_error_printable(err);
    return status;
}

static tg_status make_tests(tg_cspace *space, tg_error *err) {
    const char **names = malloc(((size_t)space->P + 1) * sizeof *names);
    int32_t room = space->n_given;
    space->tests = calloc((size_t)room + 1, sizeof *space->tests);
    tg_status status = names != NULL && space->tests != NULL
                           ? TG_OK
                           : tg_fail(err, TG_E_MEMORY, "no memory for constraints");
    for (int32_t p = 0; status == TG_OK && p < space->P; p++) names[p] = space->params[p].name;
    for (int32_t c = 0; status == TG_OK && c < space->n_given; c++) {
        const tg_constraint *given = &space->given[c];
        if (given->text != NULL) status = add_text(space, c, names, &room, err);
        else if (add_test(
                     space, &room,
                     (tg_cspace_test){.of = c, .called = 1, .reads = given->reads, .n_reads = given->n_reads},
                     err) == NULL)
            status = TG_E_MEMORY;
    }
    free(names);
    return status;
}

/* The product of the groups' counts, or -1. */
static int64_t total_of(const tg_cspace *space) {
    int64_t total = 1;
    for (int32_t g = 0; g < space->n_groups; g++)
        if (!space->groups[g].whole || __builtin_mul_overflow(total, space->groups[g].count, &total) ||
            total > INT64_MAX / 2)
            return -1;
    return total;
}

tg_status tg_cspace_open(tg_cspace *space, int64_t budget, tg_cancel *cancel, tg_error *err) {
    tg_status status = TG_OK;
    for (int32_t p = 0; status == TG_OK && p < space->P; p++)
        if (space->params[p].ordered && space->params[p].kind == TG_AXIS_LIST)
            status = sort_values(&space->params[p], err);
    if (status != TG_OK || space->rows != NULL) {
        if (status == TG_OK && !tg_rowset_open(&space->set, space->rows, space->P, space->n_rows))
            status = tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)space->n_rows);
        for (int64_t i = 0; status == TG_OK && i < space->n_rows; i++) tg_rowset_add(&space->set, i);
        space->total = space->n_rows;
        return status;
    }
    status = make_tests(space, err);
    if (status == TG_OK) status = tg_cspace_plant(space, budget, cancel, err);
    if (status == TG_OK) space->total = total_of(space);
    return status;
}

void tg_cspace_free(tg_cspace *space) {
    for (int32_t p = 0; p < space->P && space->params != NULL; p++) {
        free(space->params[p].by_value);
        free(space->params[p].place);
        space->params[p].by_value = space->params[p].place = NULL;
    }
    for (int32_t t = 0; t < space->n_tests; t++) tg_expr_free(&space->tests[t].expr);
    free(space->tests);
    for (int32_t g = 0; g < space->n_groups; g++) {
        for (int32_t l = 0; l < space->groups[g].m; l++) {
            free(space->groups[g].levels[l].tests);
            free(space->groups[g].levels[l].code);
            free(space->groups[g].levels[l].parent);
        }
        free(space->groups[g].levels);
    }
    free(space->groups);
    tg_rowset_free(&space->set);
    space->tests = NULL, space->groups = NULL, space->n_tests = space->n_groups = 0;
}
