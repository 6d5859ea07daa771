#include "prepare/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "features/further.h"
#include "features/schema.h"

#define TG_ADDRESS(name) &tg_step_##name,
const tg_prepare_step *const tg_steps[] = {TG_STEP_LIST(TG_ADDRESS) NULL};
const char *const tg_table_fields[TG_TABLES] = {"node_feat", "graph_feat", "config_feat"};

const tg_prepare_step *tg_find_step(const char *name) {
    for (int i = 0; tg_steps[i] != NULL; i++)
        if (strcmp(tg_steps[i]->name, name) == 0) return tg_steps[i];
    return NULL;
}

tg_status tg_step_wrong(const tg_use *use, tg_error *err, const char *expected) {
    return tg_fail(err, TG_E_CONFIG, "preprocessing: step '%s': expected %s", use->step->name, expected);
}

tg_status tg_step_keeps(tg_use *use, const char *name, int whole, int64_t n, tg_error *err) {
    TG_ASSERT(use->n_states < TG_STEP_STATES && n >= 0);
    tg_step_state *state = &use->state[use->n_states];
    *state = (tg_step_state){.name = name, .whole = whole, .n = n};
    if ((state->data = calloc((size_t)n + 1, sizeof *state->f)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %s of %lld numbers", name, (long long)n);
    use->n_states++;
    return TG_OK;
}

void tg_columns_free(tg_columns *columns) {
    for (int c = 0; columns->column != NULL && c < columns->n; c++) {
        tg_column *column = &columns->column[c];
        for (int v = 0; v < column->n_values; v++) free(column->values[v]);
        free(column->values);
        free(column->name);
    }
    free(columns->column);
    free(columns->number);
    *columns = (tg_columns){0, NULL, NULL};
}

void tg_kept_free(tg_kept *kept) {
    tg_pruned_free(&kept->pruned);
    *kept = (tg_kept){0};
}

tg_structure tg_structure_of(const tg_stored *s) {
    return (tg_structure){
        s->N, s->E, s->K, tg_hash_row((const uint8_t *)s->edges, (size_t)s->E * 2 * sizeof *s->edges),
        tg_hash_row((const uint8_t *)s->config_nodes, (size_t)s->K * sizeof *s->config_nodes)};
}

/* ---- making a program ---- */

tg_status tg_program_add(tg_program *p, const tg_prepare_step *step, const double *attr, tg_columns *columns,
                         tg_error *err) {
    tg_status status = TG_OK;
    if (p->n == TG_PROGRAM_STEPS)
        status = tg_fail(err, TG_E_CONFIG, "preprocessing: expected at most %d steps", TG_PROGRAM_STEPS);
    const int once =
        step->fit != NULL || (step->flags & (TG_STEP_SELECTS | TG_STEP_TRAINING | TG_STEP_CUTS)) != 0;
    for (int i = 0; status == TG_OK && once && i < p->n; i++)
        if (p->use[i].step == step)
            status = tg_fail(err, TG_E_CONFIG, "preprocessing: expected step '%s' once, found it twice",
                             step->name);
    if (status != TG_OK) {
        for (int a = 0; a < TG_STEP_ATTRS; a++) tg_columns_free(&columns[a]);
        return status;
    }
    tg_use *use = &p->use[p->n++];
    *use = (tg_use){.step = step};
    memcpy(use->attr, attr, sizeof use->attr);
    memcpy(use->columns, columns, sizeof use->columns);
    p->whole_configs |= (step->flags & TG_STEP_CONFIGS) != 0;
    p->further |= (step->flags & TG_STEP_FURTHER) != 0;
    return TG_OK;
}

static tg_outline as_stored(const tg_program *p) {
    const int further = p->further ? TG_EXTRA_FEATURES : 0;
    return (tg_outline){.cols = {p->node_features > 0 ? p->node_features + further : -1, -1, -1}};
}

static void set_outline(tg_program *p) {
    p->after = as_stored(p);
    for (int i = 0; i < p->n; i++)
        if (p->use[i].step->outline != NULL) p->use[i].step->outline(&p->use[i], &p->after, p->fitted);
}

tg_status tg_program_close(tg_program *p, tg_error *err) {
    tg_outline before = as_stored(p);
    p->fitted = 1;
    for (int i = 0; i < p->n; i++) {
        tg_use *use = &p->use[i];
        use->whole_configs = p->whole_configs;
        use->node_features = TG_NODE_FEATURES + (p->further ? TG_EXTRA_FEATURES : 0);
        tg_status status = use->step->plan == NULL ? TG_OK : use->step->plan(use, &before, err);
        if (status != TG_OK) return status;
        if (use->step->outline != NULL) use->step->outline(use, &before, 0);
        if (use->step->fit != NULL) p->fitted = 0;
    }
    set_outline(p);
    return TG_OK;
}

void tg_program_free(tg_program *p) {
    for (int i = 0; i < p->n; i++) {
        for (int s = 0; s < p->use[i].n_states; s++) free(p->use[i].state[s].data);
        for (int a = 0; a < TG_STEP_ATTRS; a++) tg_columns_free(&p->use[i].columns[a]);
    }
    *p = (tg_program){0};
}

/* ---- running it ---- */

enum { ALL = (1 << TG_TABLES) - 1, WITHOUT_CONFIGS = ALL - (1 << TG_TABLE_CONFIG) };

static void begin(tg_draft *d, const tg_stored *s, unsigned tables, tg_kept *kept) {
    *d = (tg_draft){.from = s, .tables = tables, .N = s->N, .E = s->E, .K = s->K, .kept = kept};
    d->whole_N = s->N, d->whole_E = s->E;
    d->table[TG_TABLE_NODE] = (tg_features){s->N, s->F, (int)s->F, s->node_feat, NULL, 0};
    d->table[TG_TABLE_GRAPH] = (tg_features){1, s->G, (int)s->G, s->graph_feat, NULL, 0};
    d->table[TG_TABLE_CONFIG] = (tg_features){s->C, s->T, (int)s->T, s->config_feat, NULL, 0};
}

static void end(tg_program *p, tg_draft *d) {
    __atomic_fetch_add(&p->pruned, d->prunes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&p->checked, d->checks, __ATOMIC_RELAXED);
    for (int t = 0; t < TG_TABLES; t++) free(d->table[t].own);
    free(d->opcode);
    free(d->layout);
    free(d->copied);
    free(d->grown);
    tg_pruned_free(&d->pruned);
    free(d->own_edges);
}

static tg_status inspect(const tg_program *p, const tg_draft *d, tg_error *err) {
    const tg_stored *s = d->from;
    const tg_kept *kept = d->kept;
    if (tg_wants(d, TG_TABLE_NODE) && s->N < 1)
        return tg_fail_field(err, "node_feat", "at least one node", "none");
    const tg_structure of = kept->made ? tg_structure_of(s) : kept->of;
    if (memcmp(&of, &kept->of, sizeof of) != 0)
        return tg_fail(err, TG_E_DATA, "what pruning kept is that of another graph");
    for (int i = 0; i < p->n; i++)
        if (p->use[i].step->inspect != NULL) {
            tg_status status = p->use[i].step->inspect(&p->use[i], s, d->tables, err);
            if (status != TG_OK) return status;
        }
    return TG_OK;
}

static tg_status apply(const tg_program *p, tg_draft *d, tg_error *err) {
    tg_status status = inspect(p, d, err);
    for (int i = 0; status == TG_OK && i < p->n; i++)
        if (p->use[i].step->apply != NULL) status = p->use[i].step->apply(&p->use[i], d, err);
    return status;
}

void tg_program_forget(tg_program *p) {
    p->fitted = 0;
    p->fits = 0;
    for (int i = 0; i < p->n; i++)
        for (int s = 0; s < p->use[i].n_states; s++)
            memset(p->use[i].state[s].data, 0, (size_t)p->use[i].state[s].n * sizeof(double));
    set_outline(p);
}

tg_status tg_program_fit(tg_program *p, const tg_stored *stored, tg_kept *kept, tg_error *err) {
    tg_draft d;
    if (p->fitted) tg_program_forget(p);
    begin(&d, stored, p->whole_configs ? ALL : WITHOUT_CONFIGS, kept);
    tg_status status = inspect(p, &d, err);
    int last = p->n - 1; /* that learns something */
    while (last >= 0 && p->use[last].step->fit == NULL) last--;
    for (int i = 0; status == TG_OK && i < p->n; i++) {
        tg_use *use = &p->use[i];
        if (use->step->flags & (TG_STEP_SELECTS | (i < last ? TG_STEP_CHANGES : 0)))
            status = use->step->apply(use, &d, err);
        if (status == TG_OK && use->step->fit != NULL) status = use->step->fit(use, &d, err);
    }
    end(p, &d);
    if (status != TG_OK) tg_program_forget(p);
    p->fits += status == TG_OK;
    return status;
}

/* The state is whole, or of no use. */
static tg_status settle(tg_program *p, tg_status status) {
    if (status != TG_OK) {
        tg_program_forget(p);
        return status;
    }
    p->fitted = 1;
    set_outline(p);
    return TG_OK;
}

tg_status tg_program_finish(tg_program *p, tg_error *err) {
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < p->n; i++)
        if (p->use[i].step->finish != NULL) status = p->use[i].step->finish(&p->use[i], err);
    return settle(p, status);
}

static tg_status check_state(const tg_use *use, tg_error *err) {
    for (int s = 0; s < use->n_states; s++)
        for (int64_t j = 0; !use->state[s].whole && j < use->state[s].n; j++)
            if (!isfinite(use->state[s].f[j]))
                return tg_fail_field(err, use->state[s].name, "finite numbers", "%g at %lld",
                                     use->state[s].f[j], (long long)j);
    return use->step->check == NULL ? TG_OK : use->step->check(use, err);
}

tg_status tg_program_restored(tg_program *p, tg_error *err) {
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < p->n; i++) status = check_state(&p->use[i], err);
    return settle(p, status);
}

static tg_status not_fitted(tg_error *err) {
    return tg_fail(err, TG_E_CONFIG, "preprocessing: not fitted yet");
}

/* The table as memory of its own, all its numbers finite. */
static tg_status take(tg_draft *d, tg_table t, const float **to, void **own, tg_error *err) {
    tg_features *x = &d->table[t];
    if (x->own == NULL) {
        float *copy = tg_draft_room(x->rows, x->cols, err);
        if (copy == NULL) return err->code;
        tg_features_copy(x, copy, x->cols);
        *x = (tg_features){x->rows, x->cols, x->cols, copy, copy, 0};
    }
    for (int64_t i = 0; !x->finite && i < x->rows * x->cols; i++)
        if (!isfinite(x->own[i]))
            return tg_fail_field(err, tg_table_fields[t], "finite numbers", "%g (row %lld, column %lld)",
                                 (double)x->own[i], (long long)(i / x->cols), (long long)(i % x->cols));
    *to = x->x;
    *own = x->own;
    x->own = NULL;
    return TG_OK;
}

/* Hands everything in the draft over to the graph. */
static tg_status deliver(tg_draft *d, tg_graph *g, tg_error *err) {
    const tg_stored *s = d->from;
    tg_status status = d->nodes == NULL ? tg_draft_whole(d, err) : TG_OK;
    g->N = (int32_t)d->N, g->E = (int32_t)d->E, g->K = (int32_t)d->K;
    g->F = d->table[TG_TABLE_NODE].cols;
    g->G = d->table[TG_TABLE_GRAPH].cols;
    if (status == TG_OK) status = take(d, TG_TABLE_NODE, &g->node_feat, &g->owned[0], err);
    if (status == TG_OK && g->G > 0) status = take(d, TG_TABLE_GRAPH, &g->graph_feat, &g->owned[1], err);
    if (status == TG_OK && tg_wants(d, TG_TABLE_CONFIG) && s->config_feat != NULL) {
        status = take(d, TG_TABLE_CONFIG, &g->config_feat, &g->owned[2], err);
        g->T = d->table[TG_TABLE_CONFIG].cols;
        g->C = s->C;
        if (g->digits == NULL) g->D = 0; /* as many as there will be */
        g->has_configs = 1;
    }
    g->opcode = g->owned[3] = d->opcode;
    g->layout = g->owned[4] = d->layout;
    d->opcode = NULL, d->layout = NULL;
    return status == TG_OK ? tg_graph_build(g, d->edges, d->config_nodes, err) : status;
}

tg_status tg_program_apply(tg_program *p, const tg_stored *stored, int configs, tg_kept *kept,
                           tg_graph *graph, tg_error *err) {
    if (!p->fitted) return not_fitted(err);
    tg_kept mine = {0};
    tg_draft d;
    begin(&d, stored, configs ? ALL : WITHOUT_CONFIGS, kept == NULL ? &mine : kept);
    tg_status status = TG_OK;
    if (stored->opcode != NULL) {
        if ((d.opcode = malloc((size_t)stored->N + 1)) == NULL)
            status =
                tg_fail(err, TG_E_MEMORY, "no memory for the opcodes of %lld nodes", (long long)stored->N);
        else memcpy(d.opcode, stored->opcode, (size_t)stored->N);
    }
    if (status == TG_OK) status = apply(p, &d, err);
    if (status == TG_OK) status = deliver(&d, graph, err);
    end(p, &d);
    tg_kept_free(&mine);
    __atomic_fetch_add(&p->applies, 1, __ATOMIC_RELAXED);
    return status;
}

tg_status tg_program_configs(tg_program *p, const float *config_feat, int64_t C, int64_t T, float **rows,
                             int *cols, tg_error *err) {
    if (!p->fitted) return not_fitted(err);
    const tg_stored stored = {.C = C, .T = T, .config_feat = config_feat};
    tg_kept none = {0};
    tg_draft d;
    begin(&d, &stored, 1u << TG_TABLE_CONFIG, &none);
    const float *x;
    void *own = NULL;
    tg_status status = apply(p, &d, err);
    *cols = d.table[TG_TABLE_CONFIG].cols;
    if (status == TG_OK) status = take(&d, TG_TABLE_CONFIG, &x, &own, err);
    *rows = own;
    end(p, &d);
    return status;
}
