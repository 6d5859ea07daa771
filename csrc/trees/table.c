#include "trees/table.h"

#include <math.h>
#include <string.h>

enum { STATISTICS = 4 }; /* of a column of the nodes */

int64_t tg_table_shared(const tg_config_rows *c) {
    if (c->config_feat == NULL) return 0;
    return 1 + (c->N > 0 ? STATISTICS * c->F : 0) + c->G;
}

int64_t tg_table_width(const tg_config_rows *c) {
    return tg_table_shared(c) + (c->config_feat == NULL ? 0 : c->T) + c->cells;
}

static void add_statistics(const tg_config_rows *c, int64_t column, float *to) {
    const float *x = c->node_feat + column;
    const double n = (double)c->N;
    double sum = 0, squares = 0;
    float most = x[0];
    for (int64_t i = 0; i < c->N; i++) {
        const float value = x[i * c->F];
        sum += (double)value;
        if (value > most || isnan(value)) most = value;
    }
    for (int64_t i = 0; i < c->N; i++) {
        const double off = (double)x[i * c->F] - sum / n;
        squares += off * off;
    }
    to[column] = (float)(sum / n);
    to[c->F + column] = most;
    to[2 * c->F + column] = (float)sqrt(squares / n);
    to[3 * c->F + column] = x[(c->N - 1) * c->F];
}

void tg_table_graph(const tg_config_rows *c, float *shared) {
    if (c->config_feat == NULL) return;
    *shared++ = (float)c->N;
    for (int64_t column = 0; c->N > 0 && column < c->F; column++) add_statistics(c, column, shared);
    if (c->G > 0)
        memcpy(shared + (c->N > 0 ? STATISTICS * c->F : 0), c->graph_feat, (size_t)c->G * sizeof *shared);
}

void tg_table_rows(const tg_config_rows *c, const float *shared, int64_t first, int64_t n, float *rows) {
    const int64_t same = tg_table_shared(c), own = c->config_feat == NULL ? 0 : c->T;
    for (int64_t i = first; i < first + n; i++) {
        if (same > 0) memcpy(rows, shared, (size_t)same * sizeof *rows);
        if (own > 0) memcpy(rows + same, c->config_feat + i * own, (size_t)own * sizeof *rows);
        rows += same + own;
        for (int64_t j = 0; j < c->cells; j++) *rows++ = (float)c->digits[i * c->cells + j];
    }
}
