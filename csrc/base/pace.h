/* The choice of one thread or all for a pass. A pass of a few milliseconds waits at hundreds of barriers, so it is
   faster on one thread while another process holds a core. That changes over time, so it is measured: every now and
   then a few passes are made the other way. Results are the same for any number of threads. */
#ifndef TG_PACE_H
#define TG_PACE_H

enum { TG_ALL_THREADS, TG_ONE_THREAD, TG_WAYS };
enum { TG_PACES = 9 }; /* sizes of passes, powers of two apart; larger ones always have all threads */

/* What is known of passes of about one size. All zero: nothing. */
typedef struct tg_pace {
    double seconds[TG_WAYS]; /* per operation, a running mean; 0: not tried */
    int way;                 /* the faster one */
    int wait, left;          /* passes between trials of the other way, and until the next one */
    int trial;               /* passes that the present trial still has; 0: none */
    int slow;                /* passes in a row that were far slower than the mean */
} tg_pace;

/* The pace for passes of `work` operations among TG_PACES, or NULL: all threads. */
tg_pace *tg_pace_of(tg_pace *paces, double work);

/* The way of the next pass. */
int tg_pace_next(const tg_pace *pace);

/* What it took, in seconds per operation. */
void tg_pace_note(tg_pace *pace, double seconds);

#endif
