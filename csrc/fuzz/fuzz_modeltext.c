/* libFuzzer target of the reader of LightGBM's text: any bytes as a model of three columns. Of a model that is accepted,
   rows of all kinds get finite sums that float32 holds, and every split is seen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trees/forest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COLUMNS = 3, ROWS = 8 };

static void look(const tg_forest *forest) {
    static const float values[] = {0, 1, -1, 40, 1e-36f, 3e9f, NAN, INFINITY, -INFINITY, 0.5f, 7};
    static const int64_t columns[COLUMNS] = {0, 2, 5};
    float rows[ROWS * 6];
    double sums[ROWS], gains[COLUMNS];
    tg_error err;
    for (int i = 0; i < ROWS * 6; i++) rows[i] = values[(7 * i + i / 11) % 11];
    for (int cols = 4; cols <= 6; cols++) {
        if (tg_forest_sums(forest, rows, ROWS, cols, forest->trees, sums, NULL, &err) != TG_OK) abort();
        for (int i = 0; i < ROWS; i++)
            if (!isfinite((float)sums[i])) abort();
    }
    if (forest->sigmoid != 0) {
        float means[ROWS];
        tg_forest_chances(forest, forest->trees, sums, ROWS);
        if (tg_forest_against(forest, rows, ROWS, rows + 9, 5, 3, 2, means, NULL, &err) != TG_OK) abort();
        for (int i = 0; i < ROWS; i++)
            if (!(sums[i] >= 0 && sums[i] <= 1 && means[i] >= 0 && means[i] <= 1)) abort();
    }
    tg_forest_gains(forest, forest->trees, columns, COLUMNS, gains);
    for (int i = 0; i < COLUMNS; i++)
        if (!(gains[i] >= 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t columns[COLUMNS] = {0, 2, 5};
    tg_error err = {0};
    tg_forest forest;
    if (tg_forest_read(&forest, (const char *)data, size, columns, COLUMNS, 6, &err) == TG_OK) look(&forest);
    else if (err.message[0] == 0 || err.code == TG_OK) abort();
    tg_forest_free(&forest);
    return 0;
}
