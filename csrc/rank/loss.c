#include "rank/loss.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "rank/lists.h"

static tg_status check_spec(const tg_loss_spec *spec, tg_error *err) {
    if (spec->kind == TG_LOSS_LIST_MLE && spec->reduction == TG_REDUCE_MEAN_PAIRS)
        return tg_fail(
            err, TG_E_CONFIG,
            "list_mle has no pairs: use reduction \"sum\" or \"mean-all\" instead of \"mean-pairs\"");
    if (spec->kind == TG_LOSS_PAIRWISE_HINGE && !(isfinite(spec->margin) && spec->margin >= 0))
        return tg_fail(err, TG_E_CONFIG, "pairwise_hinge: margin must be a finite number >= 0, got %g",
                       (double)spec->margin);
    return TG_OK;
}

/* Offsets (lists+1,) never fall; fills the longest list's length. All are checked before any score is read.
 */
static tg_status check_offsets(int64_t lists, const int64_t *offsets, int64_t *longest, tg_error *err) {
    *longest = 0;
    for (int64_t list = 0; list < lists; list++) {
        int64_t start = offsets[list], end = offsets[list + 1];
        if (start < 0 || end < start)
            return tg_fail(err, TG_E_SHAPE,
                           "offsets: list %lld is [%lld, %lld); offsets start at 0 and never fall",
                           (long long)list, (long long)start, (long long)end);
        if (end - start > INT32_MAX / 2)
            return tg_fail(err, TG_E_SHAPE, "offsets: list %lld has %lld entries, more than a loss takes",
                           (long long)list, (long long)(end - start));
        if (end - start > *longest) *longest = end - start;
    }
    return TG_OK;
}

static tg_status check_scores(int64_t lists, const int64_t *offsets, const float *scores, tg_error *err) {
    const int64_t all = lists > 0 ? offsets[lists] : 0;
    int broken = 0;
    for (int64_t i = lists > 0 ? offsets[0] : 0; i < all; i++) broken |= !isfinite(scores[i]);
    if (!broken) return TG_OK;
    for (int64_t list = 0; list < lists; list++)
        for (int64_t i = offsets[list]; i < offsets[list + 1]; i++)
            if (!isfinite(scores[i]))
                return tg_fail_field(err, "scores", "finite numbers", "%g at index %lld (list %lld)",
                                     (double)scores[i], (long long)i, (long long)list);
    return TG_OK;
}

/* Value of one list of two or more; fills dscores (L,) with its gradient times 1/lists. work: 8-byte aligned,
   as large as list_bytes says. */
static double hinge(const tg_loss_spec *spec, int64_t length, const float *scores, const int64_t *runtimes,
                    double share, float *dscores, char *work) {
    int64_t *counts = (int64_t *)work;
    tg_hinge_counts found = tg_hinge_list(length, scores, runtimes, spec->margin, length <= TG_HINGE_DIRECT,
                                          counts, counts + length);
    double scale = 1;
    if (spec->reduction == TG_REDUCE_MEAN_ALL) scale = 1 / ((double)length * (double)length);
    if (spec->reduction == TG_REDUCE_MEAN_PAIRS) scale = found.pairs > 0 ? 1 / (double)found.pairs : 0;
    /* Counts sum to 0, so any constant may be taken from the scores: it keeps a common offset out of the
     * rounding. */
    double sum = 0, origin = scores[0];
    for (int64_t i = 0; i < length; i++) {
        sum += (double)counts[i] * ((double)scores[i] - origin);
        dscores[i] = (float)((double)counts[i] * scale * share);
    }
    return ((double)spec->margin * (double)found.active + sum) * scale;
}

static double list_value(const tg_loss_spec *spec, int64_t list, const int64_t *offsets, const float *scores,
                         const int64_t *runtimes, double share, float *dscores, char *work) {
    int64_t start = offsets[list], length = offsets[list + 1] - start;
    if (length < 2) {
        if (length == 1) dscores[start] = 0;
        return 0;
    }
    if (spec->kind == TG_LOSS_LIST_MLE) {
        const double scale = spec->reduction == TG_REDUCE_MEAN_ALL ? 1 / (double)length : 1;
        return scale * tg_mle_list(length, scores + start, runtimes + start,
                                   tg_key(spec->key, (uint64_t)(spec->first + list)), scale * share,
                                   dscores + start, work);
    }
    return hinge(spec, length, scores + start, runtimes + start, share, dscores + start, work);
}

/* Scalar operations of all lists, roughly; decides whether threads pay. */
static double work_of(int64_t lists, const int64_t *offsets) {
    double work = 0;
    for (int64_t list = 0; list < lists; list++) {
        double length = (double)(offsets[list + 1] - offsets[list]);
        work += length <= TG_HINGE_DIRECT ? length * length / 2 + 50 * length : 400 * length;
    }
    return work;
}

tg_status tg_loss_lists(const tg_loss_spec *spec, int64_t lists, const int64_t *offsets, const float *scores,
                        const int64_t *runtimes, float *dscores, double *loss, tg_error *err) {
    int64_t longest;
    *loss = 0;
    tg_status status = check_spec(spec, err);
    if (status == TG_OK) status = check_offsets(lists, offsets, &longest, err);
    if (status == TG_OK) status = check_scores(lists, offsets, scores, err);
    if (status != TG_OK || lists <= 0) return status;
    int threads = lists > 1 ? tg_threads(work_of(lists, offsets)) : 1;
    if (threads > lists) threads = (int)lists;
    size_t list_bytes = (size_t)longest * sizeof(double) + tg_list_scratch(longest) + 64;
    list_bytes &= ~(size_t)63;
    double *values = malloc((size_t)lists * sizeof *values);
    char *work = malloc(list_bytes * (size_t)threads);
    if (values == NULL || work == NULL) {
        free(values);
        free(work);
        return tg_fail(err, TG_E_MEMORY, "no memory for the loss of lists of up to %lld entries",
                       (long long)longest);
    }
    double share = 1 / (double)lists;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int thread = 0; thread < threads; thread++)
        for (int64_t list = thread; list < lists; list += threads)
            values[list] = list_value(spec, list, offsets, scores, runtimes, share, dscores,
                                      work + list_bytes * (size_t)thread);
    for (int64_t list = 0; list < lists; list++) *loss += values[list];
    *loss *= share;
    free(values);
    free(work);
    return TG_OK;
}
