#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <omp.h>

#include "base/parallel.h"
#include "base/rng.h"

/* A plan bound to a batch: where everything is. Offsets and sizes are in floats. */
typedef struct binding {
    const tg_model *model;
    const tg_plan *plan;
    const tg_pass *pass;
    tg_slate *slates; /* (B) */
    int64_t *offsets; /* (n_buffers + n_events) */
    int64_t *sizes;
    float *base;     /* arena; NULL while sizes are measured */
    tg_exec *execs;  /* (n_events) */
    int64_t *starts; /* (n_buffers, B): where each slate's part of a buffer begins */
    int64_t total_configs;
    const tg_kernels *k; /* one table and one number of threads for the whole pass */
    int threads;
    void *block; /* the one allocation behind the arrays above */
} binding;

static int64_t padded(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

static int64_t slot_floats(const tg_slate *slate, tg_shape shape) {
    return padded(tg_rows(slate, shape.space) * shape.cols);
}

/* The part of a buffer that belongs to slate b. */
static float *part(const binding *bind, int buffer, int b) {
    if (buffer == TG_BUFFER_NONE) return NULL;
    if (buffer == TG_BUFFER_NODE_FEAT) return (float *)bind->pass->entries[b].graph->node_feat;
    if (bind->base == NULL)
        return bind->model->weights; /* of pointers, sizes depend on whether they are NULL */
    if (buffer == TG_BUFFER_CONFIG_FEAT) return (float *)bind->slates[b].config_feat;
    return bind->base + bind->offsets[buffer] + bind->starts[(int64_t)buffer * bind->pass->n_entries + b];
}

/* Number that the first entry has in the whole batch: random numbers are the same however it is cut. */
static int64_t first_entry(const tg_pass *pass) { return (int64_t)pass->part * pass->n_entries; }

/* The call behind an event, and those within it. */
static tg_exec *make_exec(const binding *bind, int event, int b) {
    const tg_event *ev = &bind->plan->events[event];
    const tg_step *step = &bind->model->steps[ev->step];
    tg_exec *e = &bind->execs[event];
    *e = (tg_exec){
        .op = step->op,
        .k = bind->k,
        .threads = bind->threads,
        .slate = &bind->slates[b],
        .attr = step->attr,
        .out = step->info.out,
        .whole_nodes = step->info.whole_nodes,
        .table_cols = step->info.table_cols,
        .training = bind->pass->loss != NULL,
        .key = tg_key(bind->pass->key, ((uint64_t)ev->step << 32) | (uint32_t)(first_entry(bind->pass) + b))};
    for (int i = 0; i < TG_MAX_IN; i++) e->in[i] = step->info.in[i];
    if (e->table_cols == 0 && step->op->wants_table >= 0)
        e->table_cols = step->info.params[step->op->wants_table].cols;
    e->x_stats = part(bind, ev->x_stats, b);
    e->y_stats = part(bind, ev->y_stats, b);
    for (int i = 0; i < step->n_in; i++) {
        e->x[i] = part(bind, ev->x[i], b);
        e->dx[i] = part(bind, ev->dx[i], b);
        e->dx_add[i] = ev->dx_add[i];
    }
    e->y = part(bind, ev->y, b);
    e->dy = part(bind, ev->dy, b);
    e->dy_fix = part(bind, ev->dy_fix, b);
    e->dx_fix = part(bind, ev->dx_fix, b);
    e->dx_fix_add = ev->dx_fix_add;
    for (int p = 0; p < step->n_params; p++) {
        const int64_t offset = bind->model->params[step->param[p]].offset;
        e->w[p] = bind->model->weights + offset;
        e->dw[p] = bind->model->grads + offset;
        e->dw_add[p] = ev->dw_add[p] || b > 0 || bind->pass->part > 0;
    }
    if (ev->from >= 0) e->from = make_exec(bind, ev->from, b);
    if (ev->into >= 0) e->into = make_exec(bind, ev->into, b);
    return e;
}

/* Sizes of everything; returns the floats of the arena without the configs. */
static int64_t measure(binding *bind) {
    const tg_plan *plan = bind->plan;
    const int B = bind->pass->n_entries;
    for (int i = 0; i < plan->n_buffers; i++) {
        bind->sizes[i] = 0;
        for (int b = 0; b < B; b++) {
            bind->starts[(int64_t)i * B + b] = bind->sizes[i];
            bind->sizes[i] += slot_floats(&bind->slates[b], plan->buffers[i].shape);
        }
    }
    for (int i = 0; i < plan->n_events; i++) {
        int64_t most = 0;
        for (int b = 0; b < B && !plan->events[i].nested; b++) {
            const int64_t floats =
                tg_place_call(make_exec(bind, i, b), plan->events[i].kind == TG_EVENT_BACKWARD, NULL);
            if (floats > most) most = floats;
        }
        bind->sizes[plan->n_buffers + i] = most;
    }
    return tg_plan_place(plan, bind->sizes, bind->offsets);
}

/* Floats of all slots of the batch. */
static double slot_sizes(const tg_model *model, const tg_pass *pass) {
    double cols[TG_SPACES] = {0}, floats = 0;
    for (int s = 0; s < model->n_slots; s++) cols[model->slots[s].shape.space] += model->slots[s].shape.cols;
    for (int b = 0; b < pass->n_entries; b++) {
        const double C = pass->entries[b].C, N = pass->entries[b].graph->N, K = pass->entries[b].graph->K;
        floats += N * (cols[TG_SPACE_NODE] + C * cols[TG_SPACE_NODE_CONFIG]) + cols[TG_SPACE_SLATE] +
                  C * (cols[TG_SPACE_CONFIG] + K * TG_DIGITS);
    }
    return floats;
}

/* Sizes are products of four numbers: refuse before any of them can overflow (2^44 floats are 64 TiB). */
static tg_status check_size(const tg_model *model, const tg_pass *pass, tg_error *err) {
    if (slot_sizes(model, pass) <= 0x1p44) return TG_OK;
    const tg_entry *entry = pass->entries;
    for (int b = 1; b < pass->n_entries; b++)
        if ((double)pass->entries[b].C * pass->entries[b].graph->N > (double)entry->C * entry->graph->N)
            entry = &pass->entries[b];
    return tg_fail(err, TG_E_CONFIG, "%d configs of a graph of %d nodes in one pass: give fewer at a time",
                   entry->C, entry->graph->N);
}

/* Below this many floats of slots, outputs are kept that would otherwise be made again. */
static const double KEEP_FLOATS = 16 << 20;

static const tg_plan *choose_plan(const tg_model *model, const tg_pass *pass, int training) {
    if (!training) return &model->plans[TG_PLAN_SCORES];
    const int keep = !model->lean && slot_sizes(model, pass) <= KEEP_FLOATS;
    return &model->plans[keep ? TG_PLAN_KEEPING : TG_PLAN_TRAINING];
}

static tg_status prepare(binding *bind, const tg_model *model, const tg_pass *pass, int training,
                         tg_error *err) {
    *bind = (binding){.model = model,
                      .pass = pass,
                      .plan = choose_plan(model, pass, training),
                      .k = tg_kernel_table_for(pass->precision),
                      .threads = tg_max_threads()};
    if (bind->threads > TG_MAX_CHUNKS) bind->threads = TG_MAX_CHUNKS;
    const size_t n = (size_t)(bind->plan->n_buffers + bind->plan->n_events), B = (size_t)pass->n_entries;
    tg_status status = check_size(model, pass, err);
    if (status != TG_OK) return status;
    const size_t events = (size_t)bind->plan->n_events;
    bind->block = malloc(B * sizeof(tg_slate) + (2 + B) * n * sizeof(int64_t) + events * sizeof(tg_exec));
    if (bind->block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a batch of %d slates", pass->n_entries);
    bind->execs = bind->block;
    bind->slates = (tg_slate *)(bind->execs + events);
    bind->offsets = (int64_t *)(bind->slates + B);
    bind->sizes = bind->offsets + n;
    bind->starts = bind->sizes + n;
    for (size_t b = 0; b < B; b++) {
        bind->slates[b] = tg_make_slate(&pass->entries[b]);
        bind->total_configs += pass->entries[b].C;
    }
    return TG_OK;
}

static int64_t digit_bytes(const tg_entry *entry) {
    return (int64_t)tg_align((size_t)entry->C * (size_t)entry->graph->K * TG_DIGITS);
}

static int64_t config_bytes(const tg_entry *entry) {
    return digit_bytes(entry) + (int64_t)tg_align((size_t)entry->C * (size_t)entry->graph->T * sizeof(float));
}

static tg_status bind_arena(binding *bind, tg_model *model, tg_error *err) {
    int64_t bytes = measure(bind) * (int64_t)sizeof(float), at = bytes;
    for (int b = 0; b < bind->pass->n_entries; b++) bytes += config_bytes(&bind->pass->entries[b]);
    if (!tg_arena_reserve(&model->arena, (size_t)bytes))
        return tg_fail(err, TG_E_MEMORY, "no memory for a pass of %lld MB", (long long)(bytes >> 20));
    bind->base = model->arena.base;
    for (int b = 0; b < bind->pass->n_entries; b++) {
        const tg_entry *entry = &bind->pass->entries[b];
        int8_t *digits = (int8_t *)model->arena.base + at;
        float *config_feat = (float *)(digits + digit_bytes(entry));
        tg_status status = tg_gather_configs(entry, digits, config_feat, err);
        if (status != TG_OK) return status;
        bind->slates[b].digits = digits;
        bind->slates[b].config_feat = config_feat;
        at += config_bytes(entry);
    }
    return TG_OK;
}

static tg_status run_event(const binding *bind, int event, tg_error *err) {
    const int back = bind->plan->events[event].kind == TG_EVENT_BACKWARD;
    if (bind->plan->events[event].nested) return TG_OK;
    for (int b = 0; b < bind->pass->n_entries; b++) {
        if (tg_cancelled(bind->pass->cancel)) return tg_fail(err, TG_E_CANCELLED, "interrupted");
        tg_exec *e = make_exec(bind, event, b);
        tg_place_call(e, back, bind->base + bind->offsets[bind->plan->n_buffers + event]);
        tg_run(e, back);
    }
    return TG_OK;
}

static tg_status timed_event(const binding *bind, tg_model *model, int event, tg_error *err) {
    const double start = omp_get_wtime();
    const tg_status status = run_event(bind, event, err);
    model->seconds[event] = omp_get_wtime() - start;
    return status;
}

static void copy_scores(const binding *bind) {
    float *to = bind->pass->scores;
    for (int b = 0; b < bind->pass->n_entries; b++) {
        memcpy(to, part(bind, bind->plan->scores, b), (size_t)bind->slates[b].C * sizeof *to);
        to += bind->slates[b].C;
    }
}

/* Loss and its gradient with respect to the scores, into the plan's buffer. */
static tg_status run_loss(const binding *bind, tg_pass *pass, tg_error *err) {
    const int B = pass->n_entries;
    const size_t L = (size_t)bind->total_configs;
    void *block = malloc(((size_t)B + 1) * sizeof(int64_t) + L * sizeof(float));
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %zu scores", L);
    int64_t *offsets = block;
    float *dscores = (float *)(offsets + B + 1);
    tg_loss_spec spec = *pass->loss;
    spec.first = first_entry(pass);
    offsets[0] = 0;
    for (int b = 0; b < B; b++) offsets[b + 1] = offsets[b] + pass->entries[b].C;
    tg_status status =
        tg_loss_lists(&spec, B, offsets, pass->scores, pass->runtimes, dscores, &pass->loss_value, err);
    if (pass->parts > 1)
        for (size_t i = 0; i < L; i++) dscores[i] /= (float)pass->parts;
    for (int b = 0; status == TG_OK && b < B; b++)
        memcpy(part(bind, bind->plan->dscores, b), dscores + offsets[b],
               (size_t)pass->entries[b].C * sizeof(float));
    free(block);
    return status;
}

static tg_status update(tg_model *model, tg_pass *pass, tg_error *err) {
    float *const moments[] = {model->moment1, model->moment2};
    if (!isfinite(pass->loss_value))
        return tg_fail(err, TG_E_DATA, "the loss is not finite: lower the learning rate or look at the data");
    return tg_optimizer_update(pass->optimizer, model->P, model->weights, model->grads, moments, NULL, err);
}

tg_status tg_model_run(tg_model *model, tg_pass *pass, tg_error *err) {
    binding bind;
    tg_status status = prepare(&bind, model, pass, pass->loss != NULL, err);
    if (status == TG_OK) status = bind_arena(&bind, model, err);
    model->last = NULL;
    for (int i = 0; status == TG_OK && i < bind.plan->n_forward; i++)
        status = timed_event(&bind, model, i, err);
    if (status == TG_OK) copy_scores(&bind);
    if (status == TG_OK && pass->loss != NULL) {
        status = run_loss(&bind, pass, err);
        for (int i = bind.plan->n_forward; status == TG_OK && i < bind.plan->n_events; i++)
            status = timed_event(&bind, model, i, err);
        if (status == TG_OK && pass->optimizer != NULL) status = update(model, pass, err);
    }
    if (status == TG_OK) model->last = bind.plan;
    free(bind.block);
    return status;
}

int64_t tg_model_bytes(const tg_model *model, int n_entries, const tg_entry *entries, int training,
                       tg_error *err) {
    const tg_pass pass = {.n_entries = n_entries, .entries = entries};
    binding bind;
    if (prepare(&bind, model, &pass, training, err) != TG_OK) return -1;
    int64_t bytes = measure(&bind) * (int64_t)sizeof(float);
    for (int b = 0; b < n_entries; b++) bytes += config_bytes(&entries[b]);
    free(bind.block);
    return bytes;
}
