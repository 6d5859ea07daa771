#include "rank/pairs.h"

#include <string.h>

#include "base/check.h"
#include "base/parallel.h"

tg_reads tg_reads_order(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = TG_NEED_ORDER};
}

tg_ordered tg_take_ordered(tg_scratch *c, int64_t n) {
    tg_ordered by;
    by.items = tg_take(c, n, sizeof *by.items);
    by.spare = tg_take(c, n, sizeof *by.spare);
    by.group = tg_take(c, n, sizeof *by.group);
    return by;
}

double tg_order_list(const tg_list *list, tg_ordered by) {
    const int64_t n = list->length;
    TG_ASSERT(list->order != NULL && n <= INT32_MAX); /* places are int32 */
    for (int64_t i = 0; i < n; i++) by.items[i] = (tg_keyed){tg_key_i64(list->order[i]), i};
    tg_sort_keyed(by.items, by.spare, n);
    int64_t pairs = 0, first = 0;
    for (int64_t p = 0; p < n; p++) {
        if (by.items[p].key != by.items[first].key) first = p;
        by.group[p] = (int32_t)first;
        pairs += first;
    }
    if (list->weight == NULL) return (double)pairs;
    double sum = 0, faster = 0, all = 0;
    for (int64_t p = 0; p < n; p++) {
        const double w = tg_weight(list, by.items[p].index);
        if (by.group[p] == p) faster = all;
        sum += w * faster;
        all += w;
    }
    return sum;
}

double tg_total_weight(const tg_list *list) {
    if (list->weight == NULL) return (double)list->length;
    double sum = 0;
    for (int64_t i = 0; i < list->length; i++) sum += (double)list->weight[i];
    return sum;
}

static double inverse(double x) { return x > 0 ? 1 / x : 0; }

double tg_reduce_pairs(const tg_list *list, double pairs) {
    if (list->reduction == TG_REDUCE_SUM) return 1;
    if (list->reduction == TG_REDUCE_MEAN_PAIRS) return inverse(pairs);
    const double total = tg_total_weight(list);
    return inverse(total * total);
}

double tg_reduce_entries(const tg_list *list) {
    return list->reduction == TG_REDUCE_SUM ? 1 : inverse(tg_total_weight(list));
}

enum { GRAIN = 512, MOST_CHUNKS = 16 };

int64_t tg_pair_room(int64_t n) { return tg_chunks(n, GRAIN, MOST_CHUNKS) * 2 * n; }

double tg_pair_rows(int64_t n, int64_t rows, tg_pair_row *row, const void *context, double *memory) {
    const int64_t chunks = tg_chunks(n, GRAIN, MOST_CHUNKS);
    TG_ASSERT(rows <= n);
    const int wanted = tg_threads(20.0 * (double)rows * (double)n);
    double values[MOST_CHUNKS];
#pragma omp parallel for schedule(dynamic, 1) num_threads(wanted < chunks ? wanted : (int)chunks)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        double *g = memory + chunk * 2 * n, value = 0;
        memset(g, 0, (size_t)n * sizeof *g);
        /* rows differ in length by and by: every chunk gets short and long ones */
        for (int64_t p = chunk; p < rows; p += chunks) value += row(context, p, g, g + n);
        values[chunk] = value;
    }
    for (int64_t chunk = 1; chunk < chunks; chunk++) {
        values[0] += values[chunk];
        for (int64_t i = 0; i < n; i++) memory[i] += memory[chunk * 2 * n + i];
    }
    return values[0];
}
