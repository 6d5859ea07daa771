/* What of OpenMP is called by name; without it (the compiler is not given -fopenmp), the same for one thread. */
#ifndef TG_OPENMP_H
#define TG_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#else
#include <time.h>

static inline int omp_get_num_procs(void) { return 1; }
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_in_parallel(void) { return 0; }
static inline void omp_set_num_threads(int threads) { (void)threads; }
static inline double omp_get_wtime(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
#endif

#endif
