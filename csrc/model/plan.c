#include "model/plan.h"

#include <string.h>

/* While the plan is made: which buffer holds a slot's value, statistics, gradient and its fix right now. */
typedef struct maker {
    tg_plan *plan;
    const tg_model *model;
    int kept[TG_MAX_SLOTS];       /* value of the forward pass */
    int recomputed[TG_MAX_SLOTS]; /* value made again for the backward pass */
    int stats[TG_MAX_SLOTS], grads[TG_MAX_SLOTS], fixes[TG_MAX_SLOTS];
    int saved[TG_MAX_STEPS][TG_MAX_SAVED];
    int readers[TG_MAX_SLOTS]; /* inputs it is given to */
    int tiles[TG_MAX_SLOTS];  /* it exists only as tiles: 1 + how many such slots these are made of in turn */
    int wanted[TG_MAX_SLOTS]; /* its gradient is needed */
    int active[TG_MAX_STEPS]; /* it has a backward */
    int reached[TG_MAX_MODEL_PARAMS]; /* calls that add to a parameter's gradient */
    int writer[TG_MAX_MODEL_PARAMS];  /* the last event that has one of them: 1 + its step */
    int top;                          /* step of the event that is made, with those within it */
    int digits_seen;
    int keep_all;  /* nothing is made again */
    int forget;    /* nothing is kept: no backward will ask */
    int kept_step; /* the one recomputable step whose output is kept all the same */
} maker;

static int new_buffer(maker *m, tg_shape shape, int event) {
    TG_ASSERT(m->plan->n_buffers < TG_MAX_BUFFERS);
    m->plan->buffers[m->plan->n_buffers] = (tg_buffer){shape, event, event};
    return m->plan->n_buffers++;
}

/* `numbers` per config of a node, and column: 2 for statistics, 3 for a fix. */
static tg_shape per_config(tg_shape shape, int numbers) {
    return (tg_shape){shape.space == TG_SPACE_NODE ? TG_SPACE_SLATE : TG_SPACE_CONFIG, numbers * shape.cols};
}

static tg_event blank(tg_event_kind kind, int step) {
    tg_event e = {.kind = kind, .step = step, .from = -1, .into = -1};
    for (int i = 0; i < TG_USES; i++) e.use[i] = TG_BUFFER_NONE;
    return e;
}

static int add_event(maker *m, tg_event e) {
    TG_ASSERT(m->plan->n_events < TG_MAX_EVENTS);
    m->plan->events[m->plan->n_events] = e;
    return m->plan->n_events++;
}

static int nest(maker *m, tg_event e) {
    e.nested = 1;
    return add_event(m, e);
}

/* The event and those within it run at `now`: what they touch is alive then. */
static void touch(maker *m, int event, int now) {
    const tg_event *e = &m->plan->events[event];
    for (int i = 0; i < TG_USES; i++)
        if (e->use[i] >= 0) m->plan->buffers[e->use[i]].last = now;
    if (e->from >= 0) touch(m, e->from, now);
    if (e->into >= 0) touch(m, e->into, now);
}

static int value_for_backward(maker *m, int slot);

/* Where a step finds the inputs in `wanted`; adds the events that make them. */
static void find_inputs(maker *m, tg_event *e, int back, unsigned wanted) {
    const tg_step *step = &m->model->steps[e->step];
    for (int k = 0; k < step->n_in; k++) {
        const int slot = step->in[k];
        if (!(wanted >> k & 1)) continue;
        if (m->tiles[slot]) {
            tg_event inner =
                blank(back ? TG_EVENT_RECOMPUTE : TG_EVENT_FORWARD, m->model->slots[slot].producer);
            find_inputs(m, &inner, back, ~0u);
            e->from = nest(m, inner);
        } else {
            e->use[TG_USE_X + k] = back ? value_for_backward(m, slot) : m->kept[slot];
        }
    }
    if (step->info.needs_stats) e->use[TG_USE_X_STATS] = m->stats[step->in[0]];
}

static void add_forward(maker *m, int i) {
    const tg_step *step = &m->model->steps[i];
    const tg_slot *out = &m->model->slots[step->out];
    if (m->tiles[step->out]) return;
    tg_event e = blank(TG_EVENT_FORWARD, i);
    find_inputs(m, &e, 0, ~0u);
    const int now = m->plan->n_events;
    e.use[TG_USE_Y] = m->kept[step->out] = new_buffer(m, out->shape, now);
    if (out->has_stats)
        e.use[TG_USE_Y_STATS] = m->stats[step->out] = new_buffer(m, per_config(out->shape, 2), now);
    for (int j = 0; j < TG_MAX_SAVED; j++)
        if (step->info.saved[j].cols > 0)
            e.use[TG_USE_SAVED + j] = m->saved[i][j] = new_buffer(m, step->info.saved[j], now);
    touch(m, add_event(m, e), now);
}

/* The buffer with a slot's value for the backward pass, recomputing it (and what it needs) if it was let go.
 */
static int value_for_backward(maker *m, int slot) {
    const int producer = m->model->slots[slot].producer;
    if (producer < 0 || m->keep_all || !m->model->steps[producer].info.recompute || producer == m->kept_step)
        return m->kept[slot];
    if (m->recomputed[slot] != TG_BUFFER_NONE) return m->recomputed[slot];
    tg_event e = blank(TG_EVENT_RECOMPUTE, producer);
    find_inputs(m, &e, 1, ~0u);
    const int now = m->plan->n_events;
    e.use[TG_USE_Y] = m->recomputed[slot] = new_buffer(m, m->model->slots[slot].shape, now);
    touch(m, add_event(m, e), now);
    return e.use[TG_USE_Y];
}

/* Of two gradients of one parameter in one event, ops may write either first: both are added to zeros then. */
static void add_writers(maker *m, const tg_step *step, tg_event *e) {
    for (int p = 0; p < TG_MAX_PARAMS; p++) {
        const int param = step->param[p];
        if (param < 0) continue;
        m->plan->clear[param] |= m->writer[param] == m->top + 1;
        m->writer[param] = m->top + 1;
        e->dw_add[p] = m->reached[param]++ > 0;
    }
}

/* Parameters that no score depends on have gradients of 0; of those that are cleared, every call adds. */
static void finish_writers(maker *m) {
    tg_plan *plan = m->plan;
    for (int i = 0; i < m->model->n_params; i++) plan->clear[i] |= m->reached[i] == 0;
    for (int i = plan->n_forward; i < plan->n_events; i++) {
        const tg_step *step = &m->model->steps[plan->events[i].step];
        for (int p = 0; p < TG_MAX_PARAMS; p++)
            if (step->param[p] >= 0) plan->events[i].dw_add[p] |= plan->clear[step->param[p]];
    }
}

/* The backward of step i and of those it hands gradients on to; where those gradients go is not decided yet. */
static tg_event backward_event(maker *m, int i) {
    const tg_step *step = &m->model->steps[i];
    tg_event e = blank(TG_EVENT_BACKWARD, i);
    find_inputs(m, &e, 1, step->info.needs_in);
    add_writers(m, step, &e);
    if (step->info.flags & TG_NEEDS_DIGITS) e.ddigits_add = m->digits_seen++ > 0;
    for (int j = 0; j < TG_MAX_SAVED; j++) e.use[TG_USE_SAVED + j] = m->saved[i][j];
    if (!m->tiles[step->out]) {
        e.use[TG_USE_DY] = m->grads[step->out];
        e.use[TG_USE_DY_FIX] = m->fixes[step->out];
        const int fixed = e.use[TG_USE_DY_FIX] != TG_BUFFER_NONE && step->op->fixes_dy != TG_FIXED_BY_OP;
        if (fixed || step->info.needs_out) e.use[TG_USE_Y] = value_for_backward(m, step->out);
    }
    if (m->tiles[step->in[0]] && m->wanted[step->in[0]]) {
        const tg_event inner = backward_event(m, m->model->slots[step->in[0]].producer);
        e.into = nest(m, inner);
    }
    return e;
}

/* The buffer a new gradient is written to. */
static int gradient_buffer(maker *m, const tg_event *e, int k, int now) {
    const tg_step *step = &m->model->steps[e->step];
    const tg_slot *slot = &m->model->slots[step->in[k]];
    if (k == step->info.inplace_in && e->use[TG_USE_DY] != TG_BUFFER_NONE && slot->producer >= 0)
        return e->use[TG_USE_DY];
    if (k == 0 && step->info.overwrites_in0 && m->readers[step->in[0]] == 1 && !slot->has_stats &&
        slot->producer >= 0 && !m->model->steps[slot->producer].info.needs_out)
        return e->use[TG_USE_X];
    return new_buffer(m, slot->shape, now);
}

static void place_gradients(maker *m, int event, int now) {
    tg_event *e = &m->plan->events[event];
    const tg_step *step = &m->model->steps[e->step];
    for (int k = step->n_in - 1; k >= 0; k--) { /* the residual first: it may take over dy's place */
        const int slot = step->in[k];
        if (!m->wanted[slot] || m->tiles[slot]) continue;
        e->dx_add[k] = m->grads[slot] != TG_BUFFER_NONE;
        if (!e->dx_add[k]) m->grads[slot] = gradient_buffer(m, e, k, now);
        e->use[TG_USE_DX + k] = m->grads[slot];
        if (k > 0 || !step->info.needs_stats) continue;
        e->dx_fix_add = m->fixes[slot] != TG_BUFFER_NONE;
        if (!e->dx_fix_add) m->fixes[slot] = new_buffer(m, per_config(m->model->slots[slot].shape, 3), now);
        e->use[TG_USE_DX_FIX] = m->fixes[slot];
    }
    if (e->into >= 0) place_gradients(m, e->into, now);
}

static void add_backward(maker *m, int i) {
    if (!m->active[i] || m->tiles[m->model->steps[i].out]) return;  /* tiles: part of the reader's event */
    if (m->grads[m->model->steps[i].out] == TG_BUFFER_NONE) return; /* nothing that is scored depends on it */
    m->top = i;
    const int now = add_event(m, backward_event(m, i));
    place_gradients(m, now, now);
    touch(m, now, now);
}

/* Backward makes tiles again for each of those made of them, so that the events of a chain grow with the square of its
   length. TG_MAX_EVENTS holds for chains of this length: of its k-th slot there are k + 3, and 3 of the step at its end. */
enum { MOST_TILES = 4 };

/* Whether a step can be run for one tile of its output after the other. */
static int is_by_tiles(const tg_phase *phases, int forward) {
    const int more = forward ? phases[1].forward != NULL : phases[1].backward != NULL;
    return phases[0].over == TG_OVER_OUTPUT && !phases[0].by_config && !more;
}

static void choose_tiles(maker *m) {
    const tg_model *model = m->model;
    for (int i = 0; i < model->n_steps; i++)
        for (int k = 0; k < model->steps[i].n_in; k++) m->readers[model->steps[i].in[k]]++;
    for (int i = 0; i < m->plan->request.n_fetched; i++) m->readers[m->plan->request.fetched[i]]++;
    for (int i = 0; i < model->n_steps; i++) {
        const int slot = model->steps[i].in[0], producer = model->slots[slot].producer;
        if (producer < 0 || m->readers[slot] != 1 || model->slots[slot].has_stats) continue;
        const tg_step *maker_ = &model->steps[producer];
        const int before = m->tiles[maker_->in[0]];
        const int fits = model->steps[i].info.pulls && is_by_tiles(maker_->op->forward, 1) &&
                         maker_->info.saved[0].cols == 0 && !maker_->info.needs_out &&
                         (m->forget || (maker_->info.recompute && is_by_tiles(maker_->op->backward, 0) &&
                                        before < MOST_TILES));
        if (fits) m->tiles[slot] = 1 + before;
    }
}

/* The recomputable output that backward asks for first would be made again at once: keep that one. */
static void choose_kept(maker *m) {
    const tg_model *model = m->model;
    m->kept_step = -1;
    for (int i = 0; i < model->n_steps; i++)
        for (int k = 0; k < model->steps[i].n_in; k++) {
            const int slot = model->steps[i].in[k], producer = model->slots[slot].producer;
            if ((model->steps[i].info.needs_in >> k & 1) && producer > m->kept_step && !m->tiles[slot] &&
                model->steps[producer].info.recompute)
                m->kept_step = producer;
        }
}

static int has_params(const tg_step *step) {
    for (int p = 0; p < TG_MAX_PARAMS; p++)
        if (step->param[p] >= 0) return 1;
    return 0;
}

/* Which gradients lead to one that is asked for. */
static void choose_gradients(maker *m) {
    const tg_model *model = m->model;
    const tg_request *r = &m->plan->request;
    for (int i = 0; i < r->n_inputs; i++) m->wanted[r->input_grads[i]] = 1;
    for (int i = 0; i < model->n_steps; i++) {
        const tg_step *step = &model->steps[i];
        int wanted = (r->weights && has_params(step)) || (r->digits && (step->info.flags & TG_NEEDS_DIGITS));
        for (int k = 0; k < step->n_in; k++) wanted |= m->wanted[step->in[k]];
        m->active[i] = m->wanted[step->out] = wanted;
    }
}

static void start(maker *m, tg_plan *plan, const tg_model *model, const tg_request *request) {
    memset(m, 0, sizeof *m);
    memset(plan, 0, sizeof *plan);
    plan->request = *request;
    m->plan = plan;
    m->model = model;
    m->keep_all = request->kind == TG_PLAN_KEEPING;
    m->forget = request->kind == TG_PLAN_SCORES;
    for (int s = 0; s < model->n_slots; s++) {
        m->kept[s] = s < model->n_inputs ? tg_buffer_of_input(s) : TG_BUFFER_NONE;
        m->recomputed[s] = m->stats[s] = m->grads[s] = m->fixes[s] = TG_BUFFER_NONE;
    }
    for (int i = 0; i < model->n_steps; i++)
        for (int j = 0; j < TG_MAX_SAVED; j++) m->saved[i][j] = TG_BUFFER_NONE;
}

static void check_request(const tg_model *model, const tg_request *r) {
    TG_ASSERT(r->kind == TG_PLAN_SCORES || model->scores >= 0);
    TG_ASSERT(r->n_fetched <= TG_MAX_SLOTS && r->n_inputs <= TG_MAX_INPUTS);
    for (int i = 0; i < r->n_fetched; i++) TG_ASSERT(r->fetched[i] >= 0 && r->fetched[i] < model->n_slots);
    for (int i = 0; i < r->n_inputs; i++)
        TG_ASSERT(r->input_grads[i] >= 0 && r->input_grads[i] < model->n_inputs);
    (void)model;
}

void tg_plan_make(tg_plan *plan, const tg_model *model, const tg_request *request) {
    maker m;
    check_request(model, request);
    start(&m, plan, model, request);
    choose_tiles(&m);
    choose_kept(&m);
    for (int i = 0; i < model->n_steps; i++) add_forward(&m, i);
    plan->n_forward = plan->n_events;
    plan->dscores = TG_BUFFER_NONE;
    for (int i = 0; i < request->n_fetched; i++) {
        const int buffer = plan->value[request->fetched[i]] = m.kept[request->fetched[i]];
        if (buffer >= 0 && plan->buffers[buffer].last < plan->n_events)
            plan->buffers[buffer].last = plan->n_events;
    }
    if (request->kind == TG_PLAN_SCORES) return;
    choose_gradients(&m);
    m.grads[model->scores] = plan->dscores =
        new_buffer(&m, model->slots[model->scores].shape, plan->n_events);
    for (int i = model->n_steps - 1; i >= 0; i--) add_backward(&m, i);
    for (int i = 0; i < model->n_inputs; i++) {
        plan->input_grads[i] = m.grads[i];
        if (m.grads[i] >= 0) plan->buffers[m.grads[i]].last = plan->n_events;
    }
    finish_writers(&m);
}

int64_t tg_plan_place(const tg_plan *plan, const int64_t *sizes, int64_t *offsets) {
    const int n = plan->n_buffers + plan->n_events;
    int order[TG_MAX_BUFFERS + TG_MAX_EVENTS];
    int64_t total = 0;
    for (int i = 0; i < n; i++) TG_ASSERT(sizes[i] >= 0);
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
        /* climb over every placed buffer that is alive at the same time */
        for (int moved = sizes[b] > 0; moved;) {
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
