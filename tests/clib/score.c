/* Score without Python: score RANKER GRAPH SCORES [K]. With K the numbers of K configs to measure are printed. GRAPH holds nine int64 sizes and then the arrays that
   test_clib_score.py writes in this order; SCORES gets the float32 scores. An error is one line and exit code 1. A session
   must give the same scores, and allocate nothing for them. */
#include <string.h>

#include "job.h"

/* Of anything in this process; OTHERS_ALLOCATE: its OpenMP, too, as that of LLVM does in every parallel region. */
static long allocations;
#if defined(__GLIBC__) && !defined(OTHERS_ALLOCATE)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t bytes);
void *malloc(size_t bytes) { return allocations++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t size) { return allocations++, __libc_calloc(count, size); }
void *realloc(void *block, size_t bytes) { return allocations++, __libc_realloc(block, bytes); }
#endif

/* Through a session, twice: the same bits, without an allocation. */
static int score_again(tg_ranker *ranker, const job *j, const float *scores) {
    const size_t n = (size_t)j->configs.count;
    tg_message message = TG_MESSAGE;
    tg_session *session;
    if (n == 0) return 0;
    float *again = calloc(n, sizeof *again);
    if (tg_session_open(ranker, &j->graph, (int64_t)n, &session, &message) != TG_OK)
        return failed(message.text);
    int code = 0;
    for (int i = 0; i < 2 && code == 0; i++) {
        const long before = allocations;
        if (tg_session_score(session, &j->configs, again, &message) != TG_OK) code = failed(message.text);
        else if (memcmp(scores, again, n * sizeof *again) != 0) code = failed("a session: other scores");
        else if (allocations != before) code = failed("a session allocates");
    }
    tg_session_close(session);
    free(again);
    return code;
}

static int choose(tg_ranker *ranker, const job *j, int64_t k) {
    tg_message message = TG_MESSAGE;
    int64_t *best = malloc((size_t)(k + 1) * sizeof *best);
    if (best == NULL) return failed("no memory");
    const tg_status status = tg_ranker_choose(ranker, &j->graph, &j->configs, k, best, &message);
    for (int64_t i = 0; status == TG_OK && i < k; i++) printf("%lld\n", (long long)best[i]);
    free(best);
    return status == TG_OK ? 0 : failed(message.text);
}

static int score(const char *ranker_path, const job *j, const char *to, int64_t k) {
    tg_ranker *ranker;
    tg_message message = TG_MESSAGE;
    if (tg_ranker_open(ranker_path, NULL, &ranker, &message) != TG_OK) return failed(message.text);
    const size_t n = (size_t)j->configs.count;
    float *scores = malloc((n + 1) * sizeof *scores);
    int code = scores == NULL ? failed("no memory") : 0;
    if (code == 0 && tg_ranker_score(ranker, &j->graph, &j->configs, scores, &message) != TG_OK)
        code = failed(message.text);
    if (code == 0) code = score_again(ranker, j, scores);
    if (code == 0 && k > 0) code = choose(ranker, j, k);
    FILE *file = code == 0 ? fopen(to, "wb") : NULL;
    if (code == 0 && (file == NULL || fwrite(scores, sizeof *scores, n, file) != n))
        code = failed("cannot write scores");
    if (file != NULL) fclose(file);
    free(scores);
    tg_ranker_close(ranker);
    return code;
}

int main(int argc, char **argv) {
    job j = {0};
    if (argc != 4 && argc != 5) return failed("usage: score RANKER GRAPH SCORES [K]");
    if (!read_job(argv[2], &j)) return failed("cannot read the graph");
    const int code = score(argv[1], &j, argv[3], argc == 5 ? atoll(argv[4]) : 0);
    free(j.bytes);
    return code;
}
