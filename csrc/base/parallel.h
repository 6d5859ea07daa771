/* Threads. OpenMP is used above kernels/ only, always with the clause num_threads(tg_threads(work)).
   Results never depend on the number of threads: reductions go over chunks fixed by the problem. */
#ifndef TG_PARALLEL_H
#define TG_PARALLEL_H

#include <stdint.h>

#include "base/check.h"

/* Threads to use for about `flops` scalar operations: 1 below the grain, after fork, or inside a parallel
   region; otherwise the set number. */
int tg_threads(double flops);

/* The set number; at first TPUGRAPHS_NUM_THREADS, else OMP_NUM_THREADS, else affinity and cgroup quota. */
int tg_max_threads(void);

/* threads >= 1 */
void tg_set_threads(int threads);

/* Limits the threads of work begun by the calling thread, so that several can work side by side. 0: no limit. */
void tg_limit_threads(int threads);

/* While set, work begun by the calling thread uses no other. */
void tg_hold_threads(int hold);

/* How the calling thread's work is spread, in place of all of the above: on at most `threads` threads, those that `execute`
   calls its task on, or OpenMP's if it is NULL. */
typedef void tg_task(void *argument, int32_t i);
typedef struct tg_spread {
    int threads; /* >= 1 */
    void (*execute)(void *context, tg_task *task, void *argument, int32_t count);
    void *context;
} tg_spread;

/* From now on; returns the one before. `spread` must stay as it is meanwhile; NULL: none. */
const tg_spread *tg_spread_work(const tg_spread *spread);

/* Threads for work that can also be run by tg_host_run. */
int tg_task_threads(double flops);

/* Whether tasks are for tg_host_run, which calls task(argument, 0..count-1) and returns when all have ended. */
int tg_hosted(void);
void tg_host_run(tg_task *task, void *argument, int32_t count);

/* Register the fork handler and read the environment; safe to call more than once. */
void tg_parallel_init(void);

/* Chunks into which `items` are cut for a reduction: at least `grain` items each, at most `most` chunks. */
static inline int64_t tg_chunks(int64_t items, int64_t grain, int64_t most) {
    TG_ASSERT(items >= 0 && grain >= 1 && most >= 1);
    int64_t chunks = (items + grain - 1) / grain;
    return chunks < 1 ? 1 : chunks > most ? most : chunks;
}

/* First item of chunk `i` of `chunks`. */
static inline int64_t tg_chunk_start(int64_t items, int64_t chunks, int64_t i) {
    TG_ASSERT(i >= 0 && i <= chunks && chunks >= 1);
    return items * i / chunks;
}

#endif
