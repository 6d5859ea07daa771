#include "clib/clib.h"

#include <math.h>
#include <string.h>

typedef struct sums {
    tg_report report;
    double squares;
    int64_t values;
} sums;

/* Deviations of x from the mean of its column in training. */
static double deviations(const tg_column *column, const tg_learnt *learnt, float x) {
    if (learnt->seen != NULL) {
        const int known = x >= 0 && x < (float)column->n_values && x == floorf(x);
        return known && learnt->seen[(int)x] > 0 ? 0 : INFINITY;
    }
    const double value = learnt->log ? log1p(x) : (double)x, off = value - learnt->mean;
    if (!isfinite(value)) return INFINITY;
    if (learnt->deviation > 0) return fabs(off) / learnt->deviation;
    return fabs(off) <= 1e-5 * (1 + fabs(learnt->mean)) ? 0 : INFINITY;
}

static void look_at(sums *s, const tg_ranker *r, tg_table t, tg_group group, int column, const float *x,
                    int64_t rows, int64_t ld) {
    const tg_learnt *learnt = &r->learnt[t][column];
    double most = 0;
    if (!learnt->known || rows == 0) return;
    for (int64_t i = 0; i < rows; i++) {
        const double z = deviations(&r->columns[t].column[column], learnt, x[i * ld + column]);
        if (!(z <= most)) most = z;
        if (learnt->seen != NULL || learnt->deviation == 0) continue;
        s->squares += isfinite(z) ? z * z : 0;
        s->values++;
    }
    s->report.columns++;
    s->report.outside += most > TG_DEVIATIONS;
    if (s->report.column >= 0 && most <= s->report.farthest) return;
    s->report.group = (int32_t)group;
    s->report.column = column;
    s->report.farthest = most;
}

static tg_status look_at_table(sums *s, const tg_ranker *r, tg_table t, tg_group group, const float *x,
                               int64_t rows, int64_t cols, tg_error *err) {
    const int n = r->columns[t].n;
    if (x == NULL) return TG_OK;
    if (cols < n)
        return tg_fail_field(err, tg_table_fields[t], "all columns that the ranker learnt from", "%lld of %d",
                             (long long)cols, n);
    for (int c = 0; c < n; c++) look_at(s, r, t, group, c, x, rows, cols);
    return TG_OK;
}

static tg_status report(sums *s, const tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *c,
                        tg_error *err) {
    tg_stored g;
    tg_status status = tg_take_graph(graph, &g, err);
    if (status == TG_OK) status = look_at_table(s, r, TG_TABLE_NODE, TG_NODE, g.node_feat, g.N, g.F, err);
    if (status == TG_OK)
        status = look_at_table(s, r, TG_TABLE_GRAPH, TG_GRAPH_WIDE, g.graph_feat, 1, g.G, err);
    if (status != TG_OK || c == NULL) return status;
    if ((status = tg_take_count(c, g.K, s, err)) != TG_OK) return status;
    return look_at_table(s, r, TG_TABLE_CONFIG, TG_CONFIG, c->features, c->count,
                         c->digits != NULL ? c->feature_columns : c->columns, err);
}

tg_status tg_ranker_report(const tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                           tg_report *to, tg_message *message) {
    tg_graph_arrays g;
    tg_config_arrays c;
    tg_scope scope;
    sums s = {.report = {.group = -1, .column = -1}};
    if (r == NULL) return tg_argument(message, "ranker", "an open ranker");
    if (graph == NULL || !tg_take_struct(&g, sizeof g, graph, sizeof g))
        return tg_argument(message, "graph", "a graph, with its size");
    if (configs != NULL && !tg_take_struct(&c, sizeof c, configs, sizeof c))
        return tg_argument(message, "configs", "configs, with their size");
    if (to == NULL || to->size < sizeof s.report)
        return tg_argument(message, "report", "a struct with its size");
    tg_scope_begin(&scope, &r->heap, &r->spread, 1);
    const tg_status status = report(&s, r, &g, configs == NULL ? NULL : &c, &scope.err);
    s.report.size = to->size;
    s.report.distance = s.values > 0 ? sqrt(s.squares / (double)s.values) : 0;
    if (status == TG_OK) memcpy(to, &s.report, sizeof s.report);
    return tg_scope_end(&scope, status, message);
}
