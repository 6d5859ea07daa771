/* Cooperative cancellation: long C work asks now and then whether to stop.
   `poll` may take the GIL (py/ supplies it); it is called from the calling thread only, never inside a
   parallel region. tg_cancelled limits the calls to about twenty a second. */
#ifndef TG_CANCEL_H
#define TG_CANCEL_H

typedef struct tg_cancel {
    int (*poll)(void *context); /* non-zero: stop */
    void *context;
    double next; /* monotonic seconds before which poll is not called again */
} tg_cancel;

/* 1 if the work is to stop. `cancel` may be NULL (never stops). */
int tg_cancelled(tg_cancel *cancel);

#endif
