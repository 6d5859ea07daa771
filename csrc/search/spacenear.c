#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/space.h"

/* ---- neighbours ---- */

typedef struct finder {
    const tg_cspace *space;
    const int32_t *from;
    int32_t other; /* a further parameter that has another value, or -1 */
    tg_cspace_point point;
    int32_t *rows;
    int64_t count, room;
    tg_cancel *cancel;
    tg_error *err;
} finder;

static tg_status add_row(finder *f, const int32_t *row) {
    const size_t bytes = (size_t)f->space->P * sizeof *row;
    if (f->count == f->room) {
        f->room = 2 * f->room + 16;
        int32_t *rows = realloc(f->rows, (size_t)f->room * bytes + 1);
        if (rows == NULL) return tg_fail(f->err, TG_E_MEMORY, "no memory for neighbours");
        f->rows = rows;
    }
    memcpy(f->rows + f->count++ * f->space->P, row, bytes);
    return TG_OK;
}

/* The config with another value of one parameter, if it is feasible. */
static tg_status try_value(finder *f, int32_t p, int32_t code) {
    int holds = 1;
    tg_cspace_set(f->space, &f->point, p, code);
    for (int32_t t = 0; holds == 1 && t < f->space->n_tests; t++) {
        const tg_cspace_test *test = &f->space->tests[t];
        for (int32_t i = 0; i < test->n_reads; i++) { /* others are as before */
            if (test->reads[i] != p && test->reads[i] != f->other) continue;
            holds = tg_cspace_holds(f->space, test, &f->point, f->err);
            break;
        }
    }
    if (holds < 0) return f->err->code;
    if (tg_cancelled(f->cancel)) return tg_fail(f->err, TG_E_CANCELLED, "stopped");
    return holds ? add_row(f, f->point.code) : TG_OK;
}

/* The code that is so far away in the order of values, or -1. */
static int32_t code_at(const tg_axis *param, int32_t code, int64_t away) {
    const int64_t at = (param->place != NULL ? param->place[code] : code) + away;
    if (at < 0 || at >= param->n) return -1;
    return param->by_value != NULL ? param->by_value[at] : (int32_t)at;
}

static tg_status swap_elements(finder *f, int32_t p) {
    const tg_axis *param = &f->space->params[p];
    const uint64_t order = tg_order_of(f->from[p], param->elements);
    tg_status status = TG_OK;
    for (int32_t i = 0; i < param->elements; i++)
        for (int32_t j = i + 1; status == TG_OK && j < param->elements; j++) {
            const uint64_t differ = (order >> (4 * i) ^ order >> (4 * j)) & 15;
            const uint64_t swapped = order ^ (differ << (4 * i)) ^ (differ << (4 * j));
            status = try_value(f, p, tg_code_of_order(swapped, param->elements));
        }
    return status;
}

/* Other values of one parameter. */
static tg_status vary(finder *f, int32_t p, int adjacent) {
    const tg_axis *param = &f->space->params[p];
    const int32_t code = f->from[p];
    tg_status status = TG_OK;
    if (param->kind == TG_AXIS_ORDER) return swap_elements(f, p);
    adjacent = adjacent && param->ordered;
    if (param->n <= TG_CSPACE_NEAR && !adjacent) {
        for (int32_t other = 0; status == TG_OK && other < param->n; other++)
            if (other != code) status = try_value(f, p, other);
        return status;
    }
    for (int64_t away = 1; status == TG_OK && away < param->n; away = adjacent ? param->n : 2 * away)
        for (int side = -1; status == TG_OK && side <= 1; side += 2) {
            const int32_t other = code_at(param, code, side * away);
            if (other >= 0) status = try_value(f, p, other);
        }
    return status;
}

/* Two parameters of one group at a time, where none can change alone. Lists of values may not be too long. */
static tg_status vary_two(finder *f) {
    tg_status status = TG_OK;
    for (int32_t g = 0; g < f->space->n_groups; g++) {
        const tg_cspace_group *group = &f->space->groups[g];
        for (int32_t i = 0; i < group->m; i++)
            for (int32_t j = i + 1; j < group->m; j++) {
                const int32_t p = group->levels[i].param, q = group->levels[j].param;
                const int32_t n = f->space->params[p].n, from = f->from[p];
                for (int32_t code = 0; status == TG_OK && n <= TG_CSPACE_NEAR && code < n; code++) {
                    if (code == from) continue;
                    tg_cspace_set(f->space, &f->point, p, code);
                    f->other = p;
                    status = vary(f, q, 0);
                    tg_cspace_set(f->space, &f->point, q, f->from[q]);
                }
                tg_cspace_set(f->space, &f->point, p, from);
                if (status != TG_OK) return status;
            }
    }
    return TG_OK;
}

/* Rows of a table that differ in as few parameters as possible. */
static tg_status nearest_rows(finder *f) {
    const tg_cspace *space = f->space;
    int32_t least = space->P + 1;
    tg_status status = TG_OK;
    for (int64_t r = 0; status == TG_OK && r < space->n_rows; r++) {
        const int32_t *row = space->rows + r * space->P;
        int32_t differ = 0;
        for (int32_t p = 0; p < space->P && differ <= least; p++) differ += row[p] != f->from[p];
        if (differ == 0 || differ > least) continue;
        if (differ < least) least = differ, f->count = 0;
        status = add_row(f, row);
        if ((r & 4095) == 0 && tg_cancelled(f->cancel)) status = tg_fail(f->err, TG_E_CANCELLED, "stopped");
    }
    return status;
}

tg_status tg_cspace_neighbours(const tg_cspace *space, const int32_t *code, int adjacent, int32_t **rows,
                               int64_t *m, tg_cancel *cancel, tg_error *err) {
    finder f = {.space = space, .from = code, .other = -1, .cancel = cancel, .err = err};
    tg_status status = TG_OK;
    if (!tg_cspace_point_open(&f.point, space)) status = tg_fail(err, TG_E_MEMORY, "no memory for a config");
    else if (space->rows != NULL) status = nearest_rows(&f);
    else {
        for (int32_t p = 0; p < space->P; p++) tg_cspace_set(space, &f.point, p, code[p]);
        for (int32_t p = 0; status == TG_OK && p < space->P; p++) {
            status = vary(&f, p, adjacent);
            tg_cspace_set(space, &f.point, p, code[p]);
        }
        if (status == TG_OK && f.count == 0) status = vary_two(&f);
    }
    tg_cspace_point_free(&f.point);
    *rows = f.rows;
    *m = f.count;
    return status;
}

/* ---- columns ---- */

enum { ONE_EACH = 16 }; /* categories of at most so many values get a column each */

int32_t tg_axis_columns(const tg_axis *param) {
    if (param->kind == TG_AXIS_ORDER) return param->elements;
    return param->ordered || param->n > ONE_EACH || param->n < 2 ? 1 : param->n;
}

static void put_columns(const tg_axis *param, int32_t code, double *to) {
    const tg_value value = tg_axis_value(param, code);
    if (param->kind == TG_AXIS_ORDER) {
        for (int32_t i = 0; i < param->elements; i++) to[value.order >> (4 * i) & 15] = i;
        return;
    }
    if (param->ordered) {
        const double number = tg_value_real(&value);
        *to = param->log ? log2(number) : number;
        return;
    }
    const int32_t n = tg_axis_columns(param);
    if (n == 1) *to = code;
    else
        for (int32_t i = 0; i < n; i++) to[i] = i == code;
}

void tg_cspace_columns(const tg_cspace *space, const int32_t *codes, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        for (int32_t p = 0; p < space->P; p++) {
            put_columns(&space->params[p], codes[i * space->P + p], to);
            to += tg_axis_columns(&space->params[p]);
        }
}
