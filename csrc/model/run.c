#include "model/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/openmp.h"

#include "base/parallel.h"
#include "model/bind.h"

static size_t bytes_of(const tg_binding *bind, int buffer, int b) {
    return (size_t)tg_bound_floats(bind, buffer, b) * sizeof(float);
}

/* Checked builds: a buffer's life begins, filled with NaN, or ends, and what lies behind it is looked at. */
static void open_buffer(const tg_binding *bind, int buffer) {
    for (int b = 0; TG_REDZONE > 0 && b < bind->pass->n_entries; b++)
        tg_redzone_open(tg_bound_part(bind, buffer, b), bytes_of(bind, buffer, b));
}

static void close_buffer(const tg_binding *bind, int buffer) {
    for (int b = 0; TG_REDZONE > 0 && b < bind->pass->n_entries; b++)
        tg_redzone_close("a slot", tg_bound_part(bind, buffer, b), bytes_of(bind, buffer, b));
}

static void open_buffers(const tg_binding *bind, int event) { /* dscores is there before its first event */
    for (int i = 0; TG_REDZONE > 0 && i < bind->plan->n_buffers; i++)
        if (bind->plan->buffers[i].first == event && i != bind->plan->dscores) open_buffer(bind, i);
}

static void close_buffers(const tg_binding *bind, int event) {
    for (int i = 0; TG_REDZONE > 0 && i < bind->plan->n_buffers; i++)
        if (bind->plan->buffers[i].last == event) close_buffer(bind, i);
}

static tg_status run_event(const tg_binding *bind, int event, tg_error *err) {
    const int back = bind->plan->events[event].kind == TG_EVENT_BACKWARD;
    if (bind->plan->events[event].nested) return TG_OK;
    for (int b = 0; b < bind->pass->n_entries; b++) {
        if (tg_cancelled(bind->pass->cancel)) return tg_fail(err, TG_E_CANCELLED, "interrupted");
        tg_exec *e = tg_bound_call(bind, event, b);
        tg_place_call(e, back, bind->base + bind->offsets[bind->plan->n_buffers + event]);
        tg_run(e, back);
    }
    return TG_OK;
}

static tg_status run_events(const tg_binding *bind, tg_workspace *ws, int from, int to, tg_error *err) {
    for (int i = from; i < to; i++) {
        const double start = omp_get_wtime();
        open_buffers(bind, i);
        const tg_status status = run_event(bind, i, err);
        if (status != TG_OK) return status;
        close_buffers(bind, i);
        ws->seconds[i] = omp_get_wtime() - start;
    }
    return TG_OK;
}

/* The slots that the caller wants, and the scores. */
static void copy_slots(const tg_binding *bind) {
    const tg_pass *pass = bind->pass;
    float *scores = pass->scores;
    for (int b = 0; b < pass->n_entries; b++) {
        if (scores != NULL) {
            const int32_t C = pass->entries[b].C;
            memcpy(scores, tg_bound_part(bind, bind->plan->value[bind->model->scores], b),
                   (size_t)C * sizeof *scores);
            scores += C;
        }
        for (int i = 0; i < pass->n_fetched; i++) {
            const tg_shape shape = bind->model->slots[pass->fetched[i].slot].shape;
            const int64_t floats = tg_rows(&bind->slates[b], shape.space) * shape.cols;
            const float *from = tg_bound_part(bind, bind->plan->value[pass->fetched[i].slot], b);
            if (floats > 0) memcpy(pass->fetched[i].rows[b], from, (size_t)floats * sizeof *from);
        }
    }
}

/* Gradients of inputs; an input that no score depends on has none. */
static void copy_input_gradients(const tg_binding *bind) {
    const tg_pass *pass = bind->pass;
    for (int i = 0; i < pass->n_input_grads; i++)
        for (int b = 0; b < pass->n_entries; b++) {
            const int slot = pass->input_grads[i].slot, buffer = bind->plan->input_grads[slot];
            const tg_shape shape = bind->model->slots[slot].shape;
            const size_t bytes =
                (size_t)tg_rows(&bind->slates[b], shape.space) * (size_t)shape.cols * sizeof(float);
            float *to = pass->input_grads[i].rows[b];
            if (bytes == 0) continue;
            if (buffer < 0) memset(to, 0, bytes);
            else memcpy(to, tg_bound_part(bind, buffer, b), bytes);
        }
}

static int64_t count_scores(const tg_pass *pass) {
    int64_t L = 0;
    for (int b = 0; b < pass->n_entries; b++) L += pass->entries[b].C;
    return L;
}

/* Where the backward pass starts: dscores (L,) into the plan's buffer. */
static void start_backward(const tg_binding *bind, const float *dscores) {
    for (int b = 0; b < bind->pass->n_entries; b++) {
        const int32_t C = bind->pass->entries[b].C;
        memcpy(tg_bound_part(bind, bind->plan->dscores, b), dscores, (size_t)C * sizeof *dscores);
        dscores += C;
    }
}

#ifndef TG_SCORES_ONLY
/* Losses of the lists, every slate one unless the caller gives others; their gradient starts the backward pass. */
static tg_status run_losses(const tg_binding *bind, tg_pass *pass, int64_t L, tg_error *err) {
    const int B = pass->n_entries;
    void *block = malloc(((size_t)B + 1) * sizeof(int64_t) + (size_t)L * sizeof(float));
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld scores", (long long)L);
    int64_t *offsets = block;
    float *dscores = (float *)(offsets + B + 1);
    tg_lists lists = pass->lists != NULL ? *pass->lists : (tg_lists){.count = B, .offsets = offsets};
    lists.first = pass->part * lists.count;
    offsets[0] = 0;
    for (int b = 0; b < B; b++) offsets[b + 1] = offsets[b] + pass->entries[b].C;
    const tg_status status =
        tg_losses_run(pass->losses, L, pass->scores, &pass->targets, &lists, dscores, &pass->loss_value, err);
    if (status == TG_OK && pass->parts > 1)
        for (int64_t i = 0; i < L; i++) dscores[i] /= (float)pass->parts;
    if (status == TG_OK) start_backward(bind, dscores);
    free(block);
    return status;
}

#else /* no pass trains, and no loss is linked */
static tg_status run_losses(const tg_binding *bind, tg_pass *pass, int64_t L, tg_error *err) {
    (void)bind, (void)pass, (void)L;
    return tg_fail(err, TG_E_CONFIG, "this library only scores");
}
#endif

/* Gradients of parameters that no call overwrites. */
static void clear_gradients(const tg_binding *bind) {
    const tg_pass *pass = bind->pass;
    for (int p = 0; pass->grads != NULL && pass->part == 0 && p < bind->model->n_params; p++) {
        const tg_param *param = &bind->model->params[p];
        if (bind->plan->clear[p])
            memset(pass->grads + param->offset, 0,
                   (size_t)tg_param_floats(param->rows, param->cols) * sizeof(float));
    }
}

static tg_status run_backward(const tg_binding *bind, tg_workspace *ws, tg_pass *pass, tg_error *err) {
    open_buffer(bind, bind->plan->dscores);
    tg_status status = TG_OK;
    if (pass->losses != NULL) status = run_losses(bind, pass, count_scores(pass), err);
    else start_backward(bind, pass->dscores);
    if (status == TG_OK) clear_gradients(bind);
    return status == TG_OK ? run_events(bind, ws, bind->plan->n_forward, bind->plan->n_events, err) : status;
}

const char *tg_model_lacks(const tg_model *m, const tg_graph *g) {
    const int config = m->slots[TG_SLOT_CONFIG_FEAT].shape.cols,
              graph = m->slots[TG_SLOT_GRAPH_FEAT].shape.cols;
    if (g->F != m->slots[TG_SLOT_NODE_FEAT].shape.cols) return "node features of another number";
    if (!g->has_configs) return "no configs";
    if (g->T != config) return config > 0 && g->T == 0 ? "no features of configs" : "configs of another kind";
    if (g->G != graph) return "graph features of another number";
    if ((m->flags & TG_NEEDS_LAYOUT) && g->layout == NULL) return "no layout digits";
    if ((m->flags & TG_NEEDS_OPCODE) && g->opcode == NULL) return "no opcodes";
    const int digits = m->flags & (TG_NEEDS_DIGITS | TG_NEEDS_UNIQUE);
    if (digits && g->digits == NULL && g->codes.table == NULL) return "no config digits";
    return digits && (g->D != m->digit_cols || g->digit_rows != m->digit_rows)
               ? "config digits of another kind"
               : NULL;
}

static tg_status run_bound(const tg_binding *bind, tg_workspace *ws, tg_pass *pass, tg_error *err) {
    tg_status status = run_events(bind, ws, 0, bind->plan->n_forward, err);
    if (status == TG_OK) copy_slots(bind);
    if (status == TG_OK && bind->training) status = run_backward(bind, ws, pass, err);
    if (status == TG_OK && bind->training) copy_input_gradients(bind);
    return status;
}

/* On one thread or on all, whichever has been faster of late. */
static tg_status run_paced(const tg_binding *bind, tg_workspace *ws, tg_pass *pass, tg_error *err) {
    tg_pace *pace = bind->threads > 1 ? tg_pace_of(ws->paces[bind->training], bind->work) : NULL;
    if (pace == NULL) return run_bound(bind, ws, pass, err);
    const double start = omp_get_wtime();
    tg_hold_threads(tg_pace_next(pace) == TG_ONE_THREAD);
    const tg_status status = run_bound(bind, ws, pass, err);
    tg_hold_threads(0);
    if (status == TG_OK) tg_pace_note(pace, (omp_get_wtime() - start) / bind->work);
    return status;
}

tg_status tg_model_run(const tg_model *model, tg_workspace *ws, tg_pass *pass, tg_error *err) {
    tg_binding bind;
    ws->last = NULL;
    tg_status status = tg_bind(&bind, model, ws, pass, err);
    if (status == TG_OK && pass->bound != NULL) status = pass->bound(pass->bound_context, bind.slates, err);
    if (status == TG_OK) status = run_paced(&bind, ws, pass, err);
    if (status == TG_OK) close_buffers(&bind, bind.plan->n_events); /* what is read after the last event */
    if (status == TG_OK) ws->last = bind.plan, ws->last_model = model->number;
    tg_unbind(&bind, ws);
    return status;
}
