#include "model/plan.h"

#include <string.h>

#include "model/model.h"

/* While the plan is made: which buffer holds a slot's value, statistics and gradient right now. */
typedef struct maker {
    tg_plan *plan;
    const tg_model *model;
    int kept[TG_MAX_STEPS + TG_EXTERNAL_SLOTS];       /* value of the forward pass */
    int recomputed[TG_MAX_STEPS + TG_EXTERNAL_SLOTS]; /* value made again for the backward pass */
    int stats[TG_MAX_STEPS + TG_EXTERNAL_SLOTS], grads[TG_MAX_STEPS + TG_EXTERNAL_SLOTS];
    int param_seen[TG_MAX_STEPS * TG_MAX_PARAMS];
    int kept_step; /* the one recomputable step whose output is kept all the same */
} maker;

static int new_buffer(maker *m, tg_shape shape, int event) {
    m->plan->buffers[m->plan->n_buffers] = (tg_buffer){shape, event, event};
    return m->plan->n_buffers++;
}

static int use(maker *m, int buffer, int event) {
    if (buffer >= 0) m->plan->buffers[buffer].last = event;
    return buffer;
}

static tg_event blank(tg_event_kind kind, int step) {
    tg_event e = {.kind = kind, .step = step, .x_stats = -1, .y = -1, .y_stats = -1, .dy = -1};
    for (int i = 0; i < TG_MAX_IN; i++) e.x[i] = e.dx[i] = TG_BUFFER_NONE;
    return e;
}

static void add_forward(maker *m, int i) {
    const tg_step *step = &m->model->steps[i];
    const tg_slot *out = &m->model->slots[step->out];
    const int now = m->plan->n_events++;
    tg_event e = blank(TG_EVENT_FORWARD, i);
    for (int k = 0; k < step->n_in; k++) e.x[k] = use(m, m->kept[step->in[k]], now);
    if (step->info.needs_stats) e.x_stats = use(m, m->stats[step->in[0]], now);
    e.y = m->kept[step->out] = new_buffer(m, out->shape, now);
    if (out->has_stats)
        e.y_stats = m->stats[step->out] =
            new_buffer(m, (tg_shape){TG_SPACE_CONFIG, 2 * out->shape.cols}, now);
    m->plan->events[now] = e;
}

/* The buffer with a slot's value for the backward pass, recomputing it (and what it needs) if it was let go.
 */
static int value_for_backward(maker *m, int slot) {
    const int producer = m->model->slots[slot].producer;
    if (producer < 0 || !m->model->steps[producer].info.recompute || producer == m->kept_step)
        return m->kept[slot];
    if (m->recomputed[slot] != TG_BUFFER_NONE) return m->recomputed[slot];
    const tg_step *step = &m->model->steps[producer];
    tg_event e = blank(TG_EVENT_RECOMPUTE, producer);
    for (int k = 0; k < step->n_in; k++) e.x[k] = value_for_backward(m, step->in[k]);
    const int now = m->plan->n_events++;
    for (int k = 0; k < step->n_in; k++) use(m, e.x[k], now);
    if (step->info.needs_stats) e.x_stats = use(m, m->stats[step->in[0]], now);
    e.y = m->recomputed[slot] = new_buffer(m, m->model->slots[slot].shape, now);
    m->plan->events[now] = e;
    return e.y;
}

static void add_backward(maker *m, int i) {
    const tg_step *step = &m->model->steps[i];
    tg_event e = blank(TG_EVENT_BACKWARD, i);
    for (int k = 0; k < step->n_in; k++)
        if (step->info.needs_in >> k & 1) e.x[k] = value_for_backward(m, step->in[k]);
    const int now = m->plan->n_events++;
    for (int k = 0; k < step->n_in; k++) use(m, e.x[k], now);
    if (step->info.needs_stats) e.x_stats = use(m, m->stats[step->in[0]], now);
    e.dy = use(m, m->grads[step->out], now);
    for (int k = step->n_in - 1; k >= 0; k--) { /* the residual first: it may take over dy's place */
        const int slot = step->in[k];
        if (m->model->slots[slot].producer < 0) continue; /* nobody asks for the gradient of the features */
        e.dx_add[k] = m->grads[slot] != TG_BUFFER_NONE;
        if (!e.dx_add[k])
            m->grads[slot] =
                k == step->info.inplace_in ? e.dy : new_buffer(m, m->model->slots[slot].shape, now);
        e.dx[k] = use(m, m->grads[slot], now);
    }
    for (int p = 0; p < step->n_params; p++) e.dw_add[p] = m->param_seen[step->param[p]]++ > 0;
    m->plan->events[now] = e;
}

void tg_plan_make(tg_plan *plan, const tg_model *model, int training) {
    maker m;
    memset(&m, 0, sizeof m);
    memset(plan, 0, sizeof *plan);
    m.plan = plan;
    m.model = model;
    m.kept_step = -1;
    for (int s = 0; s < model->n_slots; s++) {
        m.kept[s] = s < TG_EXTERNAL_SLOTS ? TG_BUFFER_INPUT : TG_BUFFER_NONE;
        m.recomputed[s] = m.stats[s] = m.grads[s] = TG_BUFFER_NONE;
    }
    for (int i = 0; i < model->n_steps; i++) add_forward(&m, i);
    plan->n_forward = plan->n_events;
    plan->scores = m.kept[model->scores];
    plan->dscores = TG_BUFFER_NONE;
    plan->buffers[plan->scores].last = plan->n_events;
    if (!training) return;
    /* The recomputable output that backward asks for first would be made again at once: keep that one. */
    for (int i = 0; i < model->n_steps; i++)
        for (int k = 0; k < model->steps[i].n_in; k++) {
            const int producer = model->slots[model->steps[i].in[k]].producer;
            if ((model->steps[i].info.needs_in >> k & 1) && producer > m.kept_step &&
                model->steps[producer].info.recompute)
                m.kept_step = producer;
        }
    m.grads[model->scores] = plan->dscores =
        new_buffer(&m, model->slots[model->scores].shape, plan->n_events);
    for (int i = model->n_steps - 1; i >= 0; i--) add_backward(&m, i);
}

int64_t tg_plan_place(const tg_plan *plan, const int64_t *sizes, int64_t *offsets) {
    const int n = plan->n_buffers + plan->n_events;
    int order[TG_MAX_BUFFERS + TG_MAX_EVENTS];
    int64_t total = 0;
    for (int i = 0; i < n; i++) { /* insertion sort, largest first: n is about fifty */
        int j = i;
        for (; j > 0 && sizes[order[j - 1]] < sizes[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        const int b = order[i], event = b - plan->n_buffers;
        const int first = event < 0 ? plan->buffers[b].first : event,
                  last = event < 0 ? plan->buffers[b].last : event;
        int64_t at = 0;
        for (int moved = 1; moved;) { /* climb over every placed buffer that is alive at the same time */
            moved = 0;
            for (int j = 0; j < i; j++) {
                const int o = order[j], oe = o - plan->n_buffers;
                const int of = oe < 0 ? plan->buffers[o].first : oe, ol = oe < 0 ? plan->buffers[o].last : oe;
                if (of > last || ol < first || offsets[o] >= at + sizes[b] || offsets[o] + sizes[o] <= at)
                    continue;
                at = offsets[o] + sizes[o];
                moved = 1;
            }
        }
        offsets[b] = at;
        if (at + sizes[b] > total) total = at + sizes[b];
    }
    return total;
}
