/* libFuzzer target of the submission reader: any bytes as a file. What it calls a ranking is checked again in the
   plainest way; every line is accounted for. */
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tg_row *row) {
    int64_t n = row->count, high = -1;
    int tile = row->id_size > 5 && memcmp(row->id, "tile:", 5) == 0 && n >= TG_CSV_TILE_PLACES;
    if (n < 1 || row->id == NULL || row->indices == NULL || row->problem[0] != 0) abort();
    for (int64_t i = 0; i < n; i++) {
        int64_t v = row->indices[i];
        if (v < 0 || (!tile && v >= n)) abort();
        high = v > high ? v : high;
        for (int64_t k = 0; k < i && i < 200; k++)
            if (row->indices[k] == v) abort();
    }
    if (high != row->high) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const collections[] = {"tile:xla", "layout:xla:random", "layout:nlp:default"};
    tg_error err;
    tg_row row;
    tg_csv csv;
    int more = 1;
    int64_t lines = 0, last = 0;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n' || i + 1 == size;
    tg_csv_open(&csv, (tg_source){-1, data, (int64_t)size}, collections, 3);
    while (tg_csv_next(&csv, &row, &more, &err) == TG_OK && more) {
        if (row.line <= last || (row.line > lines && row.line > 1)) abort();
        if ((row.state == TG_ROW_GOOD) != (row.problem[0] == 0)) abort();
        if (strlen(row.problem) >= sizeof row.problem || strchr(row.problem, '\n') != NULL) abort();
        last = row.line;
        if (row.state == TG_ROW_GOOD) check(&row);
    }
    if (more || csv.line < lines) abort();
    tg_csv_close(&csv);
    return 0;
}
