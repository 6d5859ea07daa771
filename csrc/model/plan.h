/* The static plan of a model: the order of op calls (forward, recomputed forward, backward) and which buffer
   each one reads and writes. Made once per model and request; binding it to a batch only computes sizes and places in
   the arena.
   A slot that is cheap to make and read by one op only has no buffer: its tiles are made inside the event that
   reads them, and their gradients are handed on inside that event's backward. */
#ifndef TG_PLAN_H
#define TG_PLAN_H

#include <stdint.h>

#include "model/model.h"

typedef enum { TG_EVENT_FORWARD, TG_EVENT_RECOMPUTE, TG_EVENT_BACKWARD } tg_event_kind;

/* Buffers are numbers; -1 is none. TG_BUFFER_INPUT - i stands for input slot i, whose memory is the caller's. */
enum { TG_BUFFER_NONE = -1, TG_BUFFER_INPUT = -2 };
static inline int tg_buffer_of_input(int slot) { return TG_BUFFER_INPUT - slot; }
static inline int tg_input_of_buffer(int buffer) { return TG_BUFFER_INPUT - buffer; }

/* Everything that a call uses is in one list, from which lifetimes are derived. */
enum {
    TG_USE_X = 0,
    TG_USE_DX = TG_USE_X + TG_MAX_IN,
    TG_USE_SAVED = TG_USE_DX + TG_MAX_IN,
    TG_USE_X_STATS = TG_USE_SAVED + TG_MAX_SAVED,
    TG_USE_Y,
    TG_USE_Y_STATS,
    TG_USE_DY,
    TG_USE_DY_FIX,
    TG_USE_DX_FIX,
    TG_USES
};

typedef struct tg_event {
    tg_event_kind kind;
    int step;
    int nested; /* runs inside another event, tile by tile */
    int from;   /* event that makes input 0 inside this one, or -1 */
    int into;   /* event that takes the gradient of input 0 inside this one, or -1 */
    int use[TG_USES];
    int dx_add[TG_MAX_IN], dx_fix_add, dw_add[TG_MAX_PARAMS], ddigits_add;
} tg_event;

typedef struct tg_buffer {
    tg_shape shape;  /* floats per slate = rows(space) * cols */
    int first, last; /* events between which it is alive */
} tg_buffer;

enum { TG_MAX_EVENTS = 5 * TG_MAX_STEPS, TG_MAX_BUFFERS = 12 * TG_MAX_STEPS };

/* The purpose of a plan. Training either recomputes cheap outputs for backward or, where memory does not
   matter, keeps them. */
typedef enum { TG_PLAN_SCORES, TG_PLAN_TRAINING, TG_PLAN_KEEPING } tg_plan_kind;
typedef struct tg_request {
    tg_plan_kind kind;
    int n_fetched, fetched[TG_MAX_SLOTS];     /* slots that the caller reads after the forward pass */
    int weights, digits;                      /* their gradients are wanted */
    int n_inputs, input_grads[TG_MAX_INPUTS]; /* input slots whose gradients are wanted */
} tg_request;

typedef struct tg_plan {
    tg_request request;
    int n_events, n_forward, n_buffers;
    int dscores;                    /* buffer */
    int value[TG_MAX_SLOTS];        /* of the slots fetched: their buffers after the forward pass */
    int input_grads[TG_MAX_INPUTS]; /* buffers of the input slots' gradients, or none */
    int clear[TG_MAX_MODEL_PARAMS]; /* a parameter's gradient is 0 when the backward pass begins */
    tg_event events[TG_MAX_EVENTS];
    tg_buffer buffers[TG_MAX_BUFFERS];
} tg_plan;

void tg_plan_make(tg_plan *plan, const tg_model *model, const tg_request *request);

/* Place all buffers for given sizes (floats, n_buffers + n_events: buffers, then the workspace of each
   event). Fills offsets (floats), returns the floats needed. First fit, largest first, over lifetimes. */
int64_t tg_plan_place(const tg_plan *plan, const int64_t *sizes, int64_t *offsets);

#endif
