#include "optim/schedule.h"

#include <math.h>

#include "base/check.h"

/* ---- shapes: the share of the peak after `done` of `count` steps ---- */

static double share_constant(const tg_schedule *s, int64_t done, int64_t count) {
    (void)s, (void)done, (void)count;
    return 1;
}

static double share_cosine(const tg_schedule *s, int64_t done, int64_t count) {
    (void)s;
    return 0.5 * (1 + cos(3.141592653589793 * (double)done / (double)count));
}

static double share_linear(const tg_schedule *s, int64_t done, int64_t count) {
    (void)s;
    return 1 - (double)done / (double)count;
}

static int64_t steps_of(double share, int64_t count) { return (int64_t)ceil(share * (double)count); }

static double share_step(const tg_schedule *s, int64_t done, int64_t count) {
    const int64_t every = s->decay_every > 0 ? steps_of(s->decay_every, count) : 1;
    const int64_t first = isnan(s->decay_from) ? every : steps_of(s->decay_from, count);
    return done < first ? 1 : pow(s->decay, (double)((done - first) / every + 1));
}

static double (*const shares[TG_SCHEDULES])(const tg_schedule *, int64_t, int64_t) = {
#define TG_ROW(name) share_##name,
    TG_SCHEDULE_LIST(TG_ROW)
#undef TG_ROW
};

double tg_schedule_rate(const tg_schedule *s, int64_t step, int64_t total) {
    TG_ASSERT(step >= 1 && total >= 1);
    const int64_t warm = s->rises ? steps_of(s->warmup, total) : 0;
    if (step <= warm) return s->peak * (double)step / (double)warm;
    const double share = shares[s->shape](s, step - 1 - warm, total > warm ? total - warm : 1);
    /* rounded before it is added: with fused products, learning rates would differ from machine to machine */
    const volatile double above = (s->peak - s->end) * share;
    return s->end + above;
}

/* ---- a schedule as a text describes it ---- */

enum { SCHEDULE, PEAK, END, WARMUP, DECAY, DECAY_FROM, DECAY_EVERY, ATTRS };
#define ANY 1e300
static const tg_attr attrs[ATTRS] = {
#define TG_WORD(name)   "|" #name
#define TG_RISING(name) "|warmup-" #name
    [SCHEDULE] = {"schedule", TG_ATTR_CHOICE, 0, TG_SCHEDULES + TG_SCHEDULE_cosine, 0, 0,
                  &(TG_SCHEDULE_LIST(TG_WORD) TG_SCHEDULE_LIST(TG_RISING))[1],
                  "learning rate over the steps"},
#undef TG_WORD
#undef TG_RISING
    [PEAK] = {"learning_rate", TG_ATTR_REAL, 0, 1e-3, 0, ANY, NULL, "peak of the schedule"},
    [END] = {"learning_rate_end", TG_ATTR_REAL, 0, 0, 0, ANY, NULL, "what the learning rate falls towards"},
    [WARMUP] = {"warmup", TG_ATTR_REAL, 0, 0.05, 0, 1, NULL,
                "share of the steps with a rising learning rate (warmup-)"},
    [DECAY] = {"decay", TG_ATTR_REAL, 0, 0.1, 0, 1, NULL, "factor of the learning rate at every drop (step)"},
    [DECAY_FROM] = {"decay_from", TG_ATTR_REAL, 0, NAN, 0, 1, NULL,
                    "share before the first drop; None: decay_every"},
    [DECAY_EVERY] = {"decay_every", TG_ATTR_REAL, 0, 0.3, 0, 1, NULL,
                     "share of the steps from one drop to the next (step)"},
};

const tg_attr *tg_schedule_attrs(int *n) {
    *n = ATTRS;
    return attrs;
}

tg_status tg_schedule_read(tg_schedule *s, const tg_json_value *given, tg_error *err) {
    tg_attr_value v[ATTRS];
    const tg_status status = tg_attrs_read(attrs, ATTRS, given, NULL, "schedule", TG_E_CONFIG, v, err);
    if (status != TG_OK) return status;
    const int word = (int)v[SCHEDULE].number;
    *s = (tg_schedule){.shape = (tg_schedule_shape)(word % TG_SCHEDULES),
                       .rises = word >= TG_SCHEDULES,
                       .peak = v[PEAK].number,
                       .end = v[END].number,
                       .warmup = v[WARMUP].number,
                       .decay = v[DECAY].number,
                       .decay_from = v[DECAY_FROM].number,
                       .decay_every = v[DECAY_EVERY].number};
    return TG_OK;
}
