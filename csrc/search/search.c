#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "configs/sample.h"
#include "search/methods.h"

const char *const tg_search_names[TG_SEARCHES] = {"genetic", "annealing", "langevin", "sample", "exhaustive"};

enum { MOST_VALUES = 16 << 20, TRIES = 64, LISTED = 1 << 20 };

static const int64_t MOST_CODES = INT64_MAX / 4;

/* Temperatures over the spread of the scores of the starts. */
static const double HOT = 0.3, COLD = 0.01;

int tg_search_sloped(const tg_search *s) { return s->options.method == TG_SEARCH_LANGEVIN; }

static int lists(const tg_search *s) { return s->options.method >= TG_SEARCH_SAMPLE; }

void tg_search_free(tg_search *s) {
    void *blocks[] = {s->sizes, s->offset, s->ordered, s->free,  s->member,
                      s->steps, s->owner,  s->spare,   s->weight};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
    tg_seen_free(&s->seen);
    tg_best_free(&s->best);
    *s = (tg_search){.P = 0};
}

static void *zeros(int64_t count, size_t size) { return calloc((size_t)count + 1, size); }

/* Sizes, offsets and which parameters are free. */
static tg_status measure(tg_search *s, const int32_t *sizes, const uint8_t *ordered, tg_error *err) {
    s->size = 1;
    for (int64_t p = 0; p < s->P; p++) {
        if (sizes[p] < 1)
            return tg_refuse(err, TG_E_CONFIG, "sizes", "at least one value of every parameter",
                             "%d of parameter %lld", sizes[p], (long long)p);
        s->sizes[p] = sizes[p];
        s->ordered[p] = ordered != NULL && ordered[p] != 0;
        if (sizes[p] > 1) s->free[s->frees++] = p;
        if (s->size > 0) s->size = s->size > MOST_CODES / sizes[p] ? -1 : s->size * sizes[p];
        s->offset[p + 1] = s->offset[p] + sizes[p];
        if (s->offset[p + 1] > MOST_VALUES)
            return tg_refuse(err, TG_E_CONFIG, "sizes", "at most 16,777,216 values in all", "more");
    }
    s->S = s->offset[s->P];
    return TG_OK;
}

static tg_status check_given(const tg_search *s, tg_error *err) {
    for (int64_t i = 0; i < s->givens * s->P; i++)
        if (s->given[i] < 0 || s->given[i] >= s->sizes[i % s->P])
            return tg_refuse(err, TG_E_CONFIG, "start", "numbers of values from 0 on",
                             "%d for parameter %lld of row %lld", s->given[i], (long long)(i % s->P),
                             (long long)(i / s->P));
    return TG_OK;
}

tg_status tg_search_new(tg_search *s, const tg_search_options *options, const int32_t *sizes,
                        const uint8_t *ordered, int64_t P, const int32_t *given, int64_t givens,
                        tg_error *err) {
    const int64_t members = options->members;
    *s = (tg_search){
        .options = *options, .P = P, .given = given, .givens = givens, .least = INFINITY, .spread = -1};
    s->sizes = zeros(P, sizeof *s->sizes);
    s->offset = zeros(P + 1, sizeof *s->offset);
    s->ordered = zeros(P, sizeof *s->ordered);
    s->free = zeros(P, sizeof *s->free);
    s->spare = zeros(P, sizeof *s->spare);
    s->member = zeros(members, sizeof *s->member);
    s->steps = zeros(members, sizeof *s->steps);
    s->owner = zeros(members, sizeof *s->owner);
    if (s->sizes == NULL || s->offset == NULL || s->ordered == NULL || s->free == NULL || s->spare == NULL ||
        s->member == NULL || s->steps == NULL || s->owner == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a search over %lld parameters", (long long)P);
    tg_status status = measure(s, sizes, ordered, err);
    if (status == TG_OK) status = check_given(s, err);
    if (status == TG_OK) status = tg_best_new(&s->best, P, options->keep, err);
    if (status != TG_OK) return status;
    s->seen = (tg_seen){.P = P, .S = tg_search_sloped(s) ? s->S : 0};
    s->weight = zeros(s->S, sizeof *s->weight);
    return s->weight != NULL ? TG_OK : tg_fail(err, TG_E_MEMORY, "no memory for a search");
}

/* ---- new codes ---- */

void tg_search_move(const tg_search *s, uint64_t key, uint64_t *counter, int64_t p, int32_t *code) {
    const int32_t size = s->sizes[p];
    if (s->ordered[p] && size > 2 && tg_below(key, (*counter)++, 2)) {
        const uint64_t bits = tg_draw(key, (*counter)++);
        const int32_t step = 1 + __builtin_ctzll(bits | UINT64_C(1) << 62),
                      to = code[p] + (bits >> 63 ? step : -step);
        if (to >= 0 && to < size) code[p] = to;
        return;
    }
    const int32_t other = (int32_t)tg_below(key, (*counter)++, (uint64_t)size - 1);
    code[p] = other + (other >= code[p]);
}

static void code_of(const tg_search *s, int64_t number, int32_t *code) {
    for (int64_t p = s->P - 1; p >= 0; p--) {
        code[p] = (int32_t)(number % s->sizes[p]);
        number /= s->sizes[p];
    }
}

int tg_search_fresh(tg_search *s, int32_t *code) {
    const uint64_t key = tg_search_key(s, TG_DRAW_FRESH, (uint64_t)s->drawn++);
    uint64_t counter = 0;
    for (int i = 0; i < TRIES; i++) {
        for (int64_t p = 0; p < s->P; p++) code[p] = (int32_t)tg_below(key, counter++, (uint64_t)s->sizes[p]);
        if (tg_seen_find(&s->seen, code) < 0) return 1;
    }
    if (s->size < 0 || s->size > LISTED) return 0;
    const int64_t first = (int64_t)tg_below(key, counter, (uint64_t)s->size);
    for (int64_t i = 0; s->seen.count < s->size && i < s->size; i++) {
        code_of(s, (first + i) % s->size, code);
        if (tg_seen_find(&s->seen, code) < 0) return 1;
    }
    return 0;
}

tg_status tg_search_wait(tg_search *s, const int32_t *code, int64_t owner, tg_error *err) {
    const int64_t at = tg_search_waiting(s);
    if (owner >= 0) s->owner[at] = owner;
    return tg_seen_add(&s->seen, code, err);
}

/* The next code of a list of all: in its order, or in a random one. 0: there is none. */
static int next_listed(tg_search *s, int32_t *code) {
    const int random = s->options.method == TG_SEARCH_SAMPLE;
    if (s->size < 0) return random && tg_search_fresh(s, code);
    if (s->drawn >= s->size) return 0;
    const uint64_t key = tg_search_key(s, TG_DRAW_ORDER, 0);
    code_of(s, random ? tg_permute(s->drawn, s->size, key) : s->drawn, code);
    s->drawn++;
    return 1;
}

/* Codes to begin with: those given, then random ones or those of a list. */
static tg_status ask_starts(tg_search *s, int64_t most, tg_error *err) {
    tg_status status = TG_OK;
    while (status == TG_OK && tg_search_waiting(s) < most) {
        const int32_t *code = s->spare;
        if (s->taken < s->givens) code = s->given + s->taken++ * s->P;
        else if (!(lists(s) ? next_listed(s, s->spare) : tg_search_fresh(s, s->spare))) break;
        if (tg_seen_find(&s->seen, code) < 0) status = tg_search_wait(s, code, -1, err);
    }
    return status;
}

int64_t tg_search_waiting(const tg_search *s) { return s->seen.count - s->seen.told; }

const int32_t *tg_search_codes(const tg_search *s) { return s->seen.code + s->seen.told * s->P; }

tg_status tg_search_ask(tg_search *s, int64_t most, tg_error *err) {
    if (tg_search_waiting(s) > 0) return TG_OK;
    if (s->filled > 0)
        return s->options.method == TG_SEARCH_GENETIC ? tg_genetic_ask(s, most, err)
                                                      : tg_chains_ask(s, most, err);
    const int64_t left = s->options.starts - s->scored;
    return ask_starts(s, lists(s) || left < 1 || most < left ? most : left, err);
}

/* ---- scores ---- */

typedef struct ranked {
    double score;
    int64_t at;
} ranked;

static int by_score(const void *one, const void *other) {
    const ranked *a = one, *b = other;
    if (a->score != b->score) return a->score < b->score ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The best of the starts become the members. */
static tg_status begin(tg_search *s, tg_error *err) {
    ranked *order = malloc((size_t)s->seen.told * sizeof *order + 1);
    if (order == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the starts of a search");
    int64_t n = 0;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < s->seen.told; i++) {
        const double score = s->seen.score[i];
        if (!isfinite(score)) continue;
        order[n++] = (ranked){score, i};
        const double step = score - mean;
        mean += step / (double)n;
        squares += step * (score - mean);
    }
    qsort(order, (size_t)n, sizeof *order, by_score);
    s->filled = n < s->options.members ? n : s->options.members;
    for (int64_t i = 0; i < s->filled; i++) s->member[i] = order[i].at;
    s->spread = sqrt(squares / (double)n);
    free(order);
    return TG_OK;
}

double tg_search_temperature(const tg_search *s) {
    const tg_search_options *o = &s->options;
    const double hot = o->hot >= 0 ? o->hot : HOT * s->spread,
                 cold = o->cold >= 0 ? o->cold : COLD * s->spread;
    const int64_t length = o->budget - o->starts, done = s->scored - o->starts;
    const double part = done < 0 ? 0 : done < length ? (double)done / (double)length : 1;
    return fmax(hot > 0 && cold > 0 ? hot * pow(cold / hot, part) : cold, 1e-30);
}

static tg_status check_told(const tg_search *s, const double *scores, const float *changes, int64_t n,
                            tg_error *err) {
    if (n != tg_search_waiting(s))
        return tg_refuse(err, TG_E_CONFIG, "scores", "one for each code that was asked for", "%lld for %lld",
                         (long long)n, (long long)tg_search_waiting(s));
    for (int64_t i = 0; i < n; i++)
        if (isnan(scores[i]))
            return tg_refuse(err, TG_E_CONFIG, "scores", "numbers, infinite for codes that cannot be",
                             "nan at %lld", (long long)i);
    if (tg_search_sloped(s) != (changes != NULL))
        return tg_refuse(err, TG_E_CONFIG, "changes", changes == NULL ? "changes of the score" : "none",
                         changes == NULL ? "none" : "some");
    for (int64_t i = 0; changes != NULL && i < n * s->S; i++)
        if (!isfinite(changes[i]))
            return tg_refuse(err, TG_E_CONFIG, "changes", "finite numbers", "another at %lld", (long long)i);
    return TG_OK;
}

tg_status tg_search_tell(tg_search *s, const double *scores, const float *changes, int64_t n, tg_error *err) {
    tg_status status = check_told(s, scores, changes, n, err);
    if (status != TG_OK) return status;
    const int64_t first = s->seen.told;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++) {
        s->seen.score[first + i] = scores[i];
        tg_best_put(&s->best, s->seen.code + (first + i) * s->P, scores[i]);
        finite += isfinite(scores[i]) != 0;
        if (isfinite(scores[i])) s->least = fmin(s->least, scores[i]);
    }
    if (s->seen.S > 0) memcpy(s->seen.change + first * s->S, changes, (size_t)(n * s->S) * sizeof *changes);
    s->seen.told += n;
    const int moving = s->filled > 0;
    if (moving && s->options.method == TG_SEARCH_GENETIC) tg_genetic_tell(s, first);
    else if (moving) tg_chains_tell(s, first);
    s->scored += finite, s->failed += n - finite, s->rounds++;
    if (lists(s)) {
        if (s->givens == 0 && s->size >= 0) tg_seen_clear(&s->seen); /* a list repeats nothing */
        return TG_OK;
    }
    return !moving && s->scored > 0 && s->scored >= s->options.starts ? begin(s, err) : TG_OK;
}

/* ---- what was saved ---- */

static int within(const int64_t *numbers, int64_t n, int64_t below) {
    for (int64_t i = 0; i < n; i++)
        if (numbers[i] < 0 || numbers[i] >= below) return 0;
    return 1;
}

tg_status tg_search_check(const tg_search *s, tg_error *err) {
    const int64_t waiting = tg_search_waiting(s),
                  owned = s->filled > 0 && waiting < s->options.members ? waiting : 0;
    for (int64_t i = 0; i < s->seen.count * s->P; i++)
        if (s->seen.code[i] < 0 || s->seen.code[i] >= s->sizes[i % s->P])
            return tg_refuse(err, TG_E_CHECKPOINT, "codes", "codes of this search", "a value it lacks");
    for (int64_t i = 0; i < s->seen.told; i++)
        if (isnan(s->seen.score[i])) return tg_refuse(err, TG_E_CHECKPOINT, "scores", "numbers", "nan");
    if (s->filled < 0 || s->filled > s->options.members || !within(s->member, s->filled, s->seen.told) ||
        !within(s->owner, owned, s->options.members) || s->drawn < 0 || s->scored < 0 || s->failed < 0 ||
        s->rounds < 0 || s->taken < 0 || s->taken > s->givens)
        return tg_refuse(err, TG_E_CHECKPOINT, "members", "those of this search", "others");
    return TG_OK;
}
