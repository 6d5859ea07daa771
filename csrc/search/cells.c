#include "search/cells.h"

#include <stdlib.h>
#include <string.h>

#include "base/extent.h"
#include "configs/distinct.h"

tg_status tg_cell_values(int32_t *numbers, const uint8_t *cells, int64_t C, int64_t M, int64_t W,
                         tg_error *err) {
    const int64_t shape[2] = {C, W > 16 ? W : 16}, bytes = tg_extent(shape, 2, 2);
    uint8_t *column = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
    int64_t *first = malloc((size_t)C * sizeof *first + 1),
            *inverse = malloc((size_t)C * sizeof *inverse + 1), U;
    tg_status status = TG_OK;
    if (column == NULL || first == NULL || inverse == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for a column of %lld configs", (long long)C);
    for (int64_t m = 0; status == TG_OK && m < M; m++) {
        int64_t runs = 0, run = -1; /* equal cells one after the other are looked up once */
        for (int64_t i = 0; i < C; i++) {
            const uint8_t *cell = cells + (i * M + m) * W;
            if (i == 0 || memcmp(cell, cell - M * W, (size_t)W) != 0)
                memcpy(column + runs++ * W, cell, (size_t)W);
        }
        status = tg_rows_dedup(first, inverse, &U, column, runs, W, err);
        for (int64_t i = 0; status == TG_OK && i < C; i++) {
            const uint8_t *cell = cells + (i * M + m) * W;
            run += i == 0 || memcmp(cell, cell - M * W, (size_t)W) != 0;
            numbers[i * M + m] = (int32_t)inverse[run];
        }
    }
    free(column);
    free(first);
    free(inverse);
    return status;
}

/* The row of measured cells with value v of parameter p, or -1. */
static int64_t row_of(const tg_cell_map *map, int64_t p, int64_t v, int64_t R) {
    if (p < 0 || p >= map->P || v < 0 || map->first[p] < 0 || map->first[p] + v >= map->S) return -1;
    const int64_t row = map->row[map->first[p] + v];
    return row < R ? row : -1;
}

int tg_cells_make(uint8_t *made, const tg_cell_map *map, const int32_t *codes, int64_t n,
                  const uint8_t *cells, int64_t R, int64_t W) {
    for (int64_t i = 0; i < n; i++, codes += map->P)
        for (int64_t m = 0; m < map->M; m++) {
            const int64_t p = map->of[m], row = p < 0 || p >= map->P ? -1 : row_of(map, p, codes[p], R);
            if (row < 0) return 0;
            memcpy(made + (i * map->M + m) * W, cells + (row * map->M + m) * W, (size_t)W);
        }
    return 1;
}

/* *sum of the slopes (W, V) of a cell at its digits (W); 0 for digits that do not exist. */
static int sum_slopes(const float *slope, const int8_t *digits, int64_t W, int64_t V, int low, float *sum) {
    *sum = 0;
    for (int64_t d = 0; d < W; d++) {
        const int v = digits[d] - low;
        if (v < 0 || v >= V) return 0;
        *sum += slope[d * V + v];
    }
    return 1;
}

int tg_cells_changes(float *changes, const tg_cell_map *map, const int32_t *codes, int64_t n,
                     const float *slope, const int8_t *digits, int64_t R, int64_t W, int64_t V, int low) {
    for (int64_t i = 0; i < n; i++, codes += map->P, changes += map->S)
        for (int64_t m = 0; m < map->M; m++, slope += W * V) {
            float here, there;
            const int64_t p = map->of[m], own = p < 0 || p >= map->P ? -1 : row_of(map, p, codes[p], R);
            if (own < 0 || !sum_slopes(slope, digits + (own * map->M + m) * W, W, V, low, &here)) return 0;
            const int64_t end = p + 1 < map->P ? map->first[p + 1] : map->S;
            for (int64_t at = map->first[p]; at < end; at++) {
                const int64_t row = row_of(map, p, at - map->first[p], R);
                if (row < 0 || !sum_slopes(slope, digits + (row * map->M + m) * W, W, V, low, &there))
                    return 0;
                changes[at] += there - here;
            }
        }
    return 1;
}
