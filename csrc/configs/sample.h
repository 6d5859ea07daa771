/* Sampling without replacement. Everything is a pure function of a key and of counters (base/rng.h): no
   state to keep, so a run resumes exactly from its step number. */
#ifndef TG_SAMPLE_H
#define TG_SAMPLE_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

/* out (k,): k distinct integers of 0..n-1, every subset equally likely; in random order, or ascending when
   `sorted`. 0 <= k <= n. O(k) time and memory (O(k log k) sorted), whatever n. `cancel` may be NULL. */
tg_status tg_sample(int64_t *out, int64_t n, int64_t k, uint64_t key, int sorted, tg_cancel *cancel,
                    tg_error *err);

/* Element `i` of a pseudo-random permutation of 0..n-1 chosen by `key`; 0 <= i < n. O(1) expected. */
int64_t tg_permute(int64_t i, int64_t n, uint64_t key);

/* out (k,): the distinct rows of 0..n-1 that step number `step` >= 0 trains on, 0 <= k <= n. The steps walk
   one permutation after the other (one per epoch), k rows at a time, so each row comes once per epoch. Where
   a step reaches into the next epoch, rows it already has are put off to the following step. With n < 2k
   there is no room to put off, and each step is a fresh sample. `cancel` may be NULL. */
tg_status tg_sample_epoch(int64_t *out, int64_t n, int64_t k, uint64_t key, int64_t step, tg_cancel *cancel,
                          tg_error *err);

#endif
