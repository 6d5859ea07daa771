#include "model/bind.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "base/scratch.h"

static int64_t padded(int64_t floats) { return (floats + TG_REDZONE + 15) & ~(int64_t)15; }

int64_t tg_bound_floats(const tg_binding *bind, int buffer, int b) {
    const tg_shape shape = bind->plan->buffers[buffer].shape;
    return tg_rows(&bind->slates[b], shape.space) * shape.cols;
}

/* ---- where everything is ---- */

static const float *input_rows(const tg_binding *bind, int slot, int b) {
    const tg_graph *graph = bind->pass->entries[b].graph;
    if (slot == TG_SLOT_NODE_FEAT) return graph->node_feat;
    if (slot == TG_SLOT_GRAPH_FEAT) return graph->graph_feat;
    if (slot == TG_SLOT_CONFIG_FEAT) return bind->config_feat[b];
    for (int i = 0; i < bind->pass->n_fed; i++)
        if (bind->pass->fed[i].slot == slot) return bind->pass->fed[i].rows[b];
    return NULL;
}

float *tg_bound_part(const tg_binding *bind, int buffer, int b) {
    if (buffer == TG_BUFFER_NONE) return NULL;
    TG_ASSERT(buffer < bind->plan->n_buffers && b >= 0 && b < bind->pass->n_entries);
    if (bind->base == NULL)
        return bind->model->weights; /* of pointers, sizes depend on whether they are NULL */
    if (buffer <= TG_BUFFER_INPUT) return (float *)(uintptr_t)input_rows(bind, tg_input_of_buffer(buffer), b);
    return bind->base + bind->offsets[buffer] + bind->starts[(int64_t)buffer * bind->pass->n_entries + b];
}

/* Number that the first entry has in the whole batch: random numbers are the same however it is cut. */
static int64_t first_entry(const tg_pass *pass) { return (int64_t)pass->part * pass->n_entries; }

static void bind_inputs(const tg_binding *bind, const tg_event *ev, int b, tg_exec *e) {
    for (int i = 0; i < TG_MAX_IN; i++) {
        e->x[i] = tg_bound_part(bind, ev->use[TG_USE_X + i], b);
        e->dx[i] = tg_bound_part(bind, ev->use[TG_USE_DX + i], b);
        e->dx_add[i] = ev->dx_add[i];
    }
    for (int i = 0; i < TG_MAX_SAVED; i++) e->saved[i] = tg_bound_part(bind, ev->use[TG_USE_SAVED + i], b);
    e->x_stats = tg_bound_part(bind, ev->use[TG_USE_X_STATS], b);
    e->y_stats = tg_bound_part(bind, ev->use[TG_USE_Y_STATS], b);
    e->y = tg_bound_part(bind, ev->use[TG_USE_Y], b);
    e->dy = tg_bound_part(bind, ev->use[TG_USE_DY], b);
    e->dy_fix = tg_bound_part(bind, ev->use[TG_USE_DY_FIX], b);
    e->dx_fix = tg_bound_part(bind, ev->use[TG_USE_DX_FIX], b);
    e->dx_fix_add = ev->dx_fix_add;
}

static void bind_params(const tg_binding *bind, const tg_event *ev, int b, tg_exec *e) {
    const tg_step *step = &bind->model->steps[ev->step];
    const tg_pass *pass = bind->pass;
    for (int p = 0; p < TG_MAX_PARAMS; p++) {
        if (step->param[p] < 0) continue;
        const int64_t offset = bind->model->params[step->param[p]].offset;
        e->w[p] = bind->model->weights + offset;
        e->dw[p] = pass->grads == NULL ? NULL : pass->grads + offset;
        e->dw_add[p] = ev->dw_add[p] || b > 0 || pass->part > 0;
    }
    if (ev->kind != TG_EVENT_BACKWARD || pass->ddigits == NULL) return;
    e->ddigits = pass->ddigits[b];
    e->ddigits_add = ev->ddigits_add;
}

tg_exec *tg_bound_call(const tg_binding *bind, int event, int b) {
    const tg_event *ev = &bind->plan->events[event];
    const tg_step *step = &bind->model->steps[ev->step];
    tg_exec *e = &bind->execs[event];
    memset(e, 0, offsetof(tg_exec, room));
    e->op = step->op;
    e->k = bind->k;
    e->threads = bind->threads;
    e->slate = &bind->slates[b];
    e->attrs = step->attrs;
    e->n_in = step->n_in;
    memcpy(e->in, step->info.in, sizeof e->in);
    e->out = step->info.out;
    memcpy(e->params, step->info.params, sizeof e->params);
    e->whole_nodes = step->info.whole_nodes;
    e->training = bind->training && bind->pass->dscores == NULL;
    e->key = tg_key(bind->pass->key, ((uint64_t)ev->step << 32) | (uint32_t)(first_entry(bind->pass) + b));
    e->batch_key = tg_key(~bind->pass->key, (uint64_t)ev->step);
    bind_inputs(bind, ev, b, e);
    bind_params(bind, ev, b, e);
    if (ev->from >= 0) e->from = tg_bound_call(bind, ev->from, b);
    if (ev->into >= 0) e->into = tg_bound_call(bind, ev->into, b);
    return e;
}

/* ---- sizes ---- */

/* Sizes of everything; returns the floats of the arena. */
static int64_t measure(tg_binding *bind) {
    const tg_plan *plan = bind->plan;
    const int B = bind->pass->n_entries;
    for (int i = 0; i < plan->n_buffers; i++) {
        bind->sizes[i] = 0;
        for (int b = 0; b < B; b++) {
            bind->starts[(int64_t)i * B + b] = bind->sizes[i];
            bind->sizes[i] += padded(tg_bound_floats(bind, i, b));
        }
    }
    for (int i = 0; i < plan->n_events; i++) {
        int64_t most = 0;
        for (int b = 0; b < B && !plan->events[i].nested; b++) {
            tg_exec *e = tg_bound_call(bind, i, b);
            const int64_t floats = tg_place_call(e, plan->events[i].kind == TG_EVENT_BACKWARD, NULL);
            if (floats > most) most = floats;
            bind->work += e->work;
        }
        bind->sizes[plan->n_buffers + i] = most;
    }
    return tg_plan_place(plan, bind->sizes, bind->offsets);
}

/* Cells that are equal are not known yet: all count. */
static double count_floats(const tg_entry *entry, tg_shape shape) {
    const tg_slate slate = tg_make_slate(entry);
    const double cells = (double)entry->C * entry->graph->K;
    const double rows = shape.space == TG_SPACE_UNIQUE
                            ? cells
                            : (double)tg_items(&slate, shape.space) * tg_per_item(&slate, shape.space);
    return rows * shape.cols;
}

/* Floats of all slots of the batch, and of what steps save for backward. */
static double slot_sizes(const tg_model *model, const tg_pass *pass) {
    double floats = 0;
    for (int b = 0; b < pass->n_entries; b++) {
        const tg_entry *entry = &pass->entries[b];
        for (int s = 0; s < model->n_slots; s++) floats += count_floats(entry, model->slots[s].shape);
        for (int i = 0; i < model->n_steps; i++)
            for (int j = 0; j < TG_MAX_SAVED; j++)
                floats += count_floats(entry, model->steps[i].info.saved[j]);
        floats += (double)entry->C * entry->graph->K * entry->graph->D;
    }
    return floats;
}

/* Sizes are products of four numbers: refuse before any of them can overflow (2^44 floats are 64 TiB). Unique cells have
   numbers of 32 bits. */
static tg_status check_size(const tg_model *model, double floats, const tg_pass *pass, tg_error *err) {
    int fits = floats <= 0x1p44;
    for (int b = 0; b < pass->n_entries && (model->flags & TG_NEEDS_UNIQUE); b++)
        fits &= (int64_t)pass->entries[b].C * pass->entries[b].graph->K <= INT32_MAX;
    if (fits) return TG_OK;
    const tg_entry *entry = pass->entries;
    for (int b = 1; b < pass->n_entries; b++)
        if ((double)pass->entries[b].C * pass->entries[b].graph->N > (double)entry->C * entry->graph->N)
            entry = &pass->entries[b];
    return tg_fail(err, TG_E_CONFIG, "%d configs of a graph of %d nodes in one pass: give fewer at a time",
                   entry->C, entry->graph->N);
}

/* ---- plans ---- */

/* Below this many floats of slots, outputs are kept that would otherwise be made again. */
static const double KEEP_FLOATS = 16 << 20;

static tg_request request_of(const tg_model *model, const tg_pass *pass, int training, double floats) {
    const int keep = !model->lean && floats <= KEEP_FLOATS;
    tg_request r = {.kind = !training ? TG_PLAN_SCORES
                            : keep    ? TG_PLAN_KEEPING
                                      : TG_PLAN_TRAINING,
                    .weights = pass->grads != NULL,
                    .digits = pass->ddigits != NULL};
    if (pass->scores != NULL || training) r.fetched[r.n_fetched++] = model->scores;
    for (int i = 0; i < pass->n_fetched; i++) r.fetched[r.n_fetched++] = pass->fetched[i].slot;
    for (int i = 0; i < pass->n_input_grads; i++) r.input_grads[r.n_inputs++] = pass->input_grads[i].slot;
    return r;
}

/* The plan for a request: one that is kept, or a new one instead of that which was used longest ago. */
static const tg_plan *find_plan(tg_workspace *ws, const tg_model *model, const tg_request *r) {
    int at = 0;
    ws->passes++;
    for (int i = 0; i < TG_KEPT_PLANS; i++) {
        if (ws->kept[i].model == model->number && memcmp(&ws->kept[i].plan->request, r, sizeof *r) == 0) {
            ws->kept[i].used = ws->passes;
            return ws->kept[i].plan;
        }
        if (ws->kept[i].used < ws->kept[at].used) at = i;
    }
    ws->kept[at].model = 0;
    if (ws->kept[at].plan == NULL) ws->kept[at].plan = malloc(sizeof(tg_plan));
    if (ws->kept[at].plan == NULL) return NULL;
    tg_plan_make(ws->kept[at].plan, model, r);
    ws->kept[at].model = model->number;
    ws->kept[at].used = ws->passes;
    return ws->kept[at].plan;
}

void tg_workspace_free(tg_workspace *ws) {
    tg_arena_free(&ws->arena);
    tg_arena_free(&ws->configs);
    for (int i = 0; i < TG_KEPT_PLANS; i++) free(ws->kept[i].plan);
    memset(ws, 0, sizeof *ws);
}

size_t tg_workspace_bytes(const tg_workspace *ws) { return ws->arena.size + ws->configs.size; }

/* ---- configs ---- */

/* What is gathered for an entry. */
typedef struct gathered {
    int8_t *digits;                 /* (C,K,D) */
    float *feat;                    /* (C,T) */
    int32_t *unique_of, *unique_at; /* (K,C), room for as many; if equal cells are asked for */
} gathered;

static gathered carve(tg_scratch *c, const tg_model *model, const tg_entry *entry) {
    const tg_graph *g = entry->graph;
    const int64_t cells = (int64_t)entry->C * g->K, numbered = model->flags & TG_NEEDS_UNIQUE ? cells : 0;
    gathered to;
    to.digits = tg_take(c, cells * g->D, sizeof *to.digits);
    to.feat = tg_take(c, (int64_t)entry->C * g->T, sizeof *to.feat);
    to.unique_of = tg_take(c, numbered, sizeof *to.unique_of);
    to.unique_at = tg_take(c, numbered, sizeof *to.unique_at);
    return to;
}

static int64_t all_config_bytes(const tg_model *model, const tg_pass *pass) {
    tg_scratch c = {0};
    for (int b = 0; b < pass->n_entries; b++) carve(&c, model, &pass->entries[b]);
    return (int64_t)c.used;
}

/* Gradients of digits and of inputs are those of every cell by itself. */
static tg_equal_cells equal_cells(const tg_model *model, const tg_pass *pass) {
    if (pass->ddigits != NULL || pass->n_input_grads > 0) return TG_NO_CELLS;
    return model->unlike ? TG_CELLS_OF_A_NODE : TG_ALIKE_CELLS;
}

static tg_status gather(tg_binding *bind, tg_workspace *ws, tg_error *err) {
    const int64_t bytes = all_config_bytes(bind->model, bind->pass);
    if (!tg_arena_reserve(&ws->configs, (size_t)bytes))
        return tg_fail(err, TG_E_MEMORY, "no memory for the configs of a pass, %lld MB",
                       (long long)(bytes >> 20));
    tg_scratch c = {.base = ws->configs.base};
    for (int b = 0; b < bind->pass->n_entries; b++) {
        const tg_entry *entry = &bind->pass->entries[b];
        const gathered to = carve(&c, bind->model, entry);
        tg_slate *slate = &bind->slates[b];
        const tg_status status = tg_gather_configs(entry, to.digits, to.feat, err);
        if (status != TG_OK) return status;
        slate->digits = to.digits;
        bind->config_feat[b] = to.feat;
        if (!(bind->model->flags & TG_NEEDS_UNIQUE) || slate->K == 0) continue;
        const tg_equal_cells equal = equal_cells(bind->model, bind->pass);
        if ((slate->U = tg_unique_cells(entry, to.digits, equal, to.unique_of, to.unique_at)) < 0)
            return tg_fail(err, TG_E_MEMORY, "no memory for the configs of a pass");
        slate->unique_of = to.unique_of;
        slate->unique_at = to.unique_at;
    }
    return TG_OK;
}

/* ---- binding ---- */

static tg_status prepare(tg_binding *bind, const tg_model *model, tg_workspace *ws, const tg_pass *pass,
                         int training, tg_error *err) {
    *bind = (tg_binding){.model = model,
                         .pass = pass,
                         .training = training,
                         .k = tg_kernel_table_for(pass->precision),
                         .threads = tg_max_threads()};
    if (bind->threads > TG_MAX_CHUNKS) bind->threads = TG_MAX_CHUNKS;
    const double floats = slot_sizes(model, pass);
    tg_status status = check_size(model, floats, pass, err);
    if (status != TG_OK) return status;
    const tg_request request = request_of(model, pass, training, floats);
    if ((bind->plan = find_plan(ws, model, &request)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for the plan of a pass");
    const size_t n = (size_t)(bind->plan->n_buffers + bind->plan->n_events), B = (size_t)pass->n_entries;
    const size_t events = (size_t)bind->plan->n_events;
    bind->block = malloc(events * sizeof(tg_exec) + B * (sizeof(tg_slate) + sizeof(float *)) +
                         (2 + B) * n * sizeof(int64_t));
    if (bind->block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a batch of %d slates", pass->n_entries);
    bind->execs = bind->block;
    bind->slates = (tg_slate *)(bind->execs + events);
    bind->config_feat = (const float **)(bind->slates + B);
    bind->offsets = (int64_t *)(bind->config_feat + B);
    bind->sizes = bind->offsets + n;
    bind->starts = bind->sizes + n;
    for (size_t b = 0; b < B; b++) bind->slates[b] = tg_make_slate(&pass->entries[b]);
    return TG_OK;
}

/* Preconditions of a pass. */
static void check_pass(const tg_model *model, const tg_pass *pass, int training) {
    TG_ASSERT(model->weights != NULL && pass->n_entries >= 1 && pass->part >= 0 && pass->part < pass->parts);
    TG_ASSERT(pass->losses == NULL || (pass->scores != NULL && pass->dscores == NULL));
    TG_ASSERT(training || (pass->grads == NULL && pass->ddigits == NULL && pass->n_input_grads == 0));
    TG_ASSERT(!training || pass->precision != TG_INT8);
    TG_ASSERT(pass->n_fed == model->n_inputs - TG_GRAPH_SLOTS);
    for (int b = 0; b < pass->n_entries; b++) {
        const tg_entry *entry = &pass->entries[b];
        const tg_graph *graph = entry->graph;
        TG_ASSERT(entry->C >= 1 && entry->rows != NULL);
        TG_ASSERT(graph->F == model->slots[TG_SLOT_NODE_FEAT].shape.cols);
        TG_ASSERT(graph->T == model->slots[TG_SLOT_CONFIG_FEAT].shape.cols);
        TG_ASSERT(graph->G == model->slots[TG_SLOT_GRAPH_FEAT].shape.cols);
        TG_ASSERT(!(model->flags & TG_NEEDS_DIGITS) ||
                  (graph->D == model->digit_cols && graph->digit_rows == model->digit_rows));
        TG_ASSERT(!(model->flags & TG_NEEDS_OPCODE) || graph->opcode != NULL);
        TG_ASSERT(!(model->flags & TG_NEEDS_LAYOUT) || graph->layout != NULL);
        (void)graph;
    }
    (void)model, (void)training;
}

tg_status tg_bind(tg_binding *bind, const tg_model *model, tg_workspace *ws, const tg_pass *pass,
                  tg_error *err) {
    const int training = pass->losses != NULL || pass->dscores != NULL;
    check_pass(model, pass, training);
    tg_status status = prepare(bind, model, ws, pass, training, err);
    if (status == TG_OK) status = gather(bind, ws, err);
    if (status != TG_OK) return status;
    const int64_t bytes = measure(bind) * (int64_t)sizeof(float);
    if (!tg_arena_reserve(&ws->arena, (size_t)bytes))
        return tg_fail(err, TG_E_MEMORY, "no memory for a pass of %lld MB", (long long)(bytes >> 20));
    bind->base = ws->arena.base;
    return TG_OK;
}

void tg_unbind(tg_binding *bind, const tg_workspace *ws) {
    if (TG_REDZONE > 0 && bind->base != NULL) {
        tg_scratch c = {.base = ws->configs.base, .closing = "the configs of a pass"};
        for (int b = 0; b < bind->pass->n_entries; b++) carve(&c, bind->model, &bind->pass->entries[b]);
        tg_unpoison(ws->arena.base, ws->arena.size);
    }
    free(bind->block);
}

int64_t tg_model_bytes(const tg_model *model, int n_entries, const tg_entry *entries, int training,
                       tg_error *err) {
    tg_workspace ws = {.passes = 0};
    tg_binding bind;
    float some;
    const tg_pass pass = {.n_entries = n_entries,
                          .entries = entries,
                          .scores = model->scores < 0 ? NULL : &some,
                          .grads = training ? &some : NULL,
                          .parts = 1};
    int64_t bytes = -1;
    if (training && model->scores < 0) {
        tg_fail(err, TG_E_CONFIG, "the model makes no 'scores' to train by");
        return -1;
    }
    if (prepare(&bind, model, &ws, &pass, training, err) == TG_OK) {
        for (int b = 0; b < n_entries; b++) bind.slates[b].U = entries[b].C * entries[b].graph->K;
        bytes = measure(&bind) * (int64_t)sizeof(float) + all_config_bytes(model, &pass);
    }
    tg_unbind(&bind, &ws);
    tg_workspace_free(&ws);
    return bytes;
}
