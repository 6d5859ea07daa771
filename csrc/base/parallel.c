#define _GNU_SOURCE
#include "base/parallel.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/openmp.h"

static _Atomic int threads_set = 0;
static _Atomic int forked = 0;
static _Thread_local int held = 0;
static _Thread_local const tg_spread *spread = NULL;
static int unlimited = 0; /* what omp_get_max_threads() says while nobody has limited it */

/* Below this many operations starting a team costs more than it saves: waking a thread that has gone to sleep
   takes some 40 us. */
static const double grain_flops = 1e6;

static int from_environment(const char *name) {
    const char *text = getenv(name);
    if (text == NULL) return 0;
    long value = strtol(text, NULL, 10);
    return value >= 1 && value <= 4096 ? (int)value : 0;
}

/* Whole CPUs granted by the cgroup (v2, then v1), 0 if unlimited or unknown. */
static int cgroup_cpus(void) {
    double quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file != NULL) {
        if (fscanf(file, "%lf %lf", &quota, &period) != 2) quota = 0;
        fclose(file);
    } else {
        file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
        if (file != NULL) {
            if (fscanf(file, "%lf", &quota) != 1) quota = 0;
            fclose(file);
        }
        file = quota > 0 ? fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r") : NULL;
        if (file != NULL) {
            if (fscanf(file, "%lf", &period) != 1) period = 0;
            fclose(file);
        }
    }
    return quota > 0 && period > 0 ? (int)ceil(quota / period) : 0;
}

static int available_cpus(void) {
    int cpus = omp_get_num_procs();
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < cpus) cpus = CPU_COUNT(&set);
#endif
    int granted = cgroup_cpus();
    if (granted > 0 && granted < cpus) cpus = granted;
    return cpus < 1 ? 1 : cpus;
}

/* libgomp's team does not survive fork: a child that enters a parallel region would hang. */
static void in_child(void) { forked = 1; }

static void init_once(void) {
    pthread_atfork(NULL, NULL, in_child);
    int omp = from_environment("OMP_NUM_THREADS");
    unlimited = omp > 0 ? omp : omp_get_num_procs();
    int wanted = from_environment("TPUGRAPHS_NUM_THREADS");
    threads_set = wanted > 0 ? wanted : omp > 0 ? omp : available_cpus();
}

void tg_parallel_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}

int tg_max_threads(void) {
    if (spread != NULL && (spread->threads == 1 || spread->execute != NULL)) return spread->threads;
    tg_parallel_init();
    /* threadpoolctl limits libgomp through omp_set_num_threads: a number below libgomp's own is a limit. */
    int limit = omp_get_max_threads();
    int threads = threads_set;
    if (limit < unlimited && limit < threads) threads = limit;
    return spread != NULL && spread->threads < threads ? spread->threads : threads;
}

void tg_set_threads(int threads) {
    tg_parallel_init();
    threads_set = threads < 1 ? 1 : threads;
}

void tg_limit_threads(int threads) {
    tg_parallel_init();
    omp_set_num_threads(threads < 1 || threads > unlimited ? unlimited : threads);
}

void tg_hold_threads(int hold) { held = hold; }

const tg_spread *tg_spread_work(const tg_spread *other) {
    const tg_spread *before = spread;
    spread = other;
    return before;
}

int tg_hosted(void) { return spread != NULL && spread->execute != NULL; }

void tg_host_run(tg_task *task, void *argument, int32_t count) {
    spread->execute(spread->context, task, argument, count);
}

int tg_task_threads(double flops) {
    if (held || flops < grain_flops) return 1;
    if (!tg_hosted() && (forked || omp_in_parallel())) return 1;
    return tg_max_threads();
}

int tg_threads(double flops) { return tg_hosted() ? 1 : tg_task_threads(flops); }
