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

int tg_cells_make(uint8_t *made, const tg_cell_map *map, const int32_t *codes, int64_t n,
                  const uint8_t *cells, int64_t R, int64_t W) {
    for (int64_t i = 0; i < n; i++, codes += map->P)
        for (int64_t m = 0; m < map->M; m++) {
            const int64_t p = map->of[m];
            if (p < 0 || p >= map->P) return 0;
            const int64_t first = map->first[p], at = first + codes[p];
            if (first < 0 || codes[p] < 0 || at >= map->S) return 0;
            const int64_t row = map->row[at];
            if (row < 0 || row >= R) return 0;
            memcpy(made + (i * map->M + m) * W, cells + (row * map->M + m) * W, (size_t)W);
        }
    return 1;
}
