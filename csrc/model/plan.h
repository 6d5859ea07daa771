/* The static plan of a model: the order of op calls (forward, recomputed forward, backward) and which buffer
   each one reads and writes. Made once per model; binding it to a batch only computes sizes and places in the
   arena.
   A slot that is cheap to make and read by one op only has no buffer: its tiles are made inside the event that
   reads them, and their gradients are handed on inside that event's backward. */
#ifndef TG_PLAN_H
#define TG_PLAN_H

#include <stdint.h>

#include "base/status.h"
#include "ops/op.h"

struct tg_model;

typedef enum { TG_EVENT_FORWARD, TG_EVENT_RECOMPUTE, TG_EVENT_BACKWARD } tg_event_kind;

/* Buffers are numbers; -1 is none. The others stand for the graph's own node features and the slate's features of
   configs. */
enum { TG_BUFFER_NONE = -1, TG_BUFFER_NODE_FEAT = -2, TG_BUFFER_CONFIG_FEAT = -3 };

typedef struct tg_event {
    tg_event_kind kind;
    int step;
    int nested; /* runs inside another event, tile by tile */
    int from;   /* event that makes input 0 inside this one, or -1 */
    int into;   /* event that takes the gradient of input 0 inside this one, or -1 */
    int x[TG_MAX_IN], x_stats, y, y_stats, dy, dy_fix, dx[TG_MAX_IN], dx_fix;
    int dx_add[TG_MAX_IN], dx_fix_add, dw_add[TG_MAX_PARAMS];
} tg_event;

typedef struct tg_buffer {
    tg_shape shape;  /* floats per slate = rows(space) * cols */
    int first, last; /* events between which it is alive */
} tg_buffer;

enum { TG_MAX_EVENTS = 5 * 128, TG_MAX_BUFFERS = 8 * 128 };

typedef struct tg_plan {
    int n_events, n_forward, n_buffers;
    int scores, dscores; /* buffers */
    tg_event events[TG_MAX_EVENTS];
    tg_buffer buffers[TG_MAX_BUFFERS];
} tg_plan;

/* What a plan is for. Training either makes cheap outputs again for backward or, where memory is no matter, keeps
   them. */
typedef enum { TG_PLAN_SCORES, TG_PLAN_TRAINING, TG_PLAN_KEEPING, TG_PLANS } tg_plan_kind;
void tg_plan_make(tg_plan *plan, const struct tg_model *model, tg_plan_kind kind);

/* Places of all buffers for given sizes (floats, n_buffers + n_events: buffers, then the workspace of each
   event). Fills offsets (floats), returns the floats needed in all. First fit, largest first, over lifetimes.
 */
int64_t tg_plan_place(const tg_plan *plan, const int64_t *sizes, int64_t *offsets);

#endif
