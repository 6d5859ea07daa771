/* The digits of a node's layout as numbers, times `scale`, `copies` times next to each other: y(N, 6 copies). Places that
   a layout does not have are -1; so are those of nodes without one. As `positions` column t is the place of dimension t in
   the layout, -1 where it is not listed. `wrapped` are positions in which the digit -2 of a node without a layout counts
   from the end, as an index of Python does, and the last place that lists a dimension counts. */
#include <string.h>

#include "features/schema.h"
#include "ops/op.h"

enum { DIGITS, POSITIONS, WRAPPED };

typedef struct attrs {
    int copies, form;
    double scale;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){TG_SPACE_NODE, TG_LAYOUT_DIGITS * ((const attrs *)p->attrs)->copies};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += (double)e->slate->N * e->out.cols;
}

/* Number of column t: its digit, or the place whose digit is t. */
static int number(const int8_t *digits, int t, int form) {
    if (form == DIGITS) return digits[t] < -1 ? -1 : digits[t];
    int found = -1;
    for (int place = TG_LAYOUT_DIGITS - 1; place >= 0; place--) {
        const int digit = form == WRAPPED && digits[place] == -2 ? TG_LAYOUT_DIGITS - 2 : digits[place];
        if (digit == t && (found < 0 || form == POSITIONS)) found = place;
    }
    return found;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const float scale = (float)a->scale;
    for (int i = 0; i < t->rows; i++) {
        const int8_t *digits = e->slate->layout + (t->row + i) * TG_LAYOUT_DIGITS;
        float row[TG_LAYOUT_DIGITS];
        for (int p = 0; p < TG_LAYOUT_DIGITS; p++) row[p] = scale * (float)number(digits, p, a->form);
        for (int copy = 0; copy < a->copies; copy++, y += TG_LAYOUT_DIGITS) memcpy(y, row, sizeof(row));
    }
}

/* Nothing that has a gradient is read. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) { (void)e, (void)t, (void)dy; }

const tg_op tg_op_layout_columns = {
    .name = "layout_columns",
    .doc = "The digits of a node's own layout as numbers, a column each.",
    .attrs = TG_ATTRS(
        TG_INT(attrs, copies, 1, 1, 64, "how often they stand next to each other"),
        TG_CHOICE(attrs, form, DIGITS, "digits|positions|wrapped",
                  "the digits themselves; the place of every dimension in the layout; or these places as "
                  "the fifth place of the Kaggle competition has them: -2 stands for dimension 4"),
        TG_REAL(attrs, scale, 1, -1e6, 1e6, "factor")),
    .flags = TG_NEEDS_LAYOUT,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
