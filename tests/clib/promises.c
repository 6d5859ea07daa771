/* What docs/c-library.md promises, one program for each word: promises WORD RANKER GRAPH. Prints
   nothing if it is kept. Graphs are those of job.h. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "job.h"

static job shared;
static float *expected; /* its scores */
static size_t bytes;    /* of them */

/* ---- memory of the host ---- */

typedef struct host {
    long live, calls, fail_at; /* the call that fails, or -1 */
} host;

static void *host_allocate(void *context, size_t size) {
    host *h = context;
    if (h->calls++ == h->fail_at) return NULL;
    void *block = malloc(size);
    h->live += block != NULL;
    return block;
}

static void host_release(void *context, void *block) {
    ((host *)context)->live--;
    free(block);
}

static tg_options options_of(host *h) {
    tg_options o = {.size = sizeof o};
    o.allocate = host_allocate, o.release = host_release, o.memory_context = h;
    return o;
}

/* Everything once; an error ends it. */
static tg_status all_of_it(const char *path, const tg_options *o, float *scores, tg_message *message) {
    tg_ranker *ranker = NULL;
    tg_session *session = NULL;
    tg_graph_builder *builder = NULL;
    tg_status status = tg_ranker_open(path, o, &ranker, message);
    if (status == TG_OK) status = tg_ranker_score(ranker, &shared.graph, &shared.configs, scores, message);
    if (status == TG_OK)
        status = tg_session_open(ranker, &shared.graph, shared.configs.count, &session, message);
    if (status == TG_OK) status = tg_builder_open(ranker, &builder, message);
    for (int i = 0; i < 40 && status == TG_OK; i++) status = tg_builder_node(builder, 1, 1, NULL, message);
    for (int i = 1; i < 40 && status == TG_OK; i++) status = tg_builder_edge(builder, i, i - 1, message);
    for (int i = 0; i < 40 && status == TG_OK; i++) status = tg_builder_config(builder, i - 1, NULL, message);
    tg_ranker_close(ranker); /* the others keep it */
    if (status == TG_OK) status = tg_session_score(session, &shared.configs, scores, message);
    tg_session_close(session);
    tg_builder_close(builder);
    return status;
}

/* Memory is the host's, all of it comes back, scores of a session take none, and its end at any call is an error. */
static int memory(const char *path) {
    tg_message message = TG_MESSAGE;
    host h = {0, 0, -1};
    const tg_options o = options_of(&h);
    float *scores = malloc(bytes);
    tg_status status = all_of_it(path, &o, scores, &message);
    if (status != TG_OK) return failed(message.text);
    if (h.live != 0 || h.calls < 50 || memcmp(scores, expected, bytes) != 0) return failed("memory");
    const long calls = h.calls;
    for (h.fail_at = 0; h.fail_at < calls; h.fail_at += 1 + h.fail_at / 50) {
        h.calls = 0;
        status = all_of_it(path, &o, scores, &message);
        if (h.live != 0) return failed("memory: lost after an error");
        if (status != TG_OK && (status != TG_E_MEMORY || message.text[0] == 0)) return failed(message.text);
    }
    free(scores);
    return 0;
}

/* ---- threads ---- */

typedef struct hand {
    void (*task)(void *argument, int32_t i);
    void *argument;
    int32_t i;
} hand;

static int hands_seen;

static void *lend(void *at) {
    const hand *h = at;
    h->task(h->argument, h->i);
    return NULL;
}

static void execute(void *context, void (*task)(void *, int32_t), void *argument, int32_t count) {
    pthread_t threads[16];
    hand hands[16];
    (void)context;
    if (count > hands_seen) hands_seen = count;
    for (int32_t i = 0; i < count; i++) {
        hands[i] = (hand){task, argument, i};
        if (pthread_create(&threads[i], NULL, lend, &hands[i]) != 0) exit(2);
    }
    for (int32_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

/* A session that is in use says so: asked again by the host's threads while it scores. */
static tg_session *used;
static int said_busy;

static void execute_and_ask(void *context, void (*task)(void *, int32_t), void *argument, int32_t count) {
    float score;
    tg_config_arrays one = shared.configs;
    one.count = 1;
    said_busy += tg_session_score(used, &one, &score, NULL) == TG_E_BUSY;
    execute(context, task, argument, count);
}

static int busy(const char *path) {
    tg_message message = TG_MESSAGE;
    tg_options o = {.size = sizeof o, .threads = 4, .execute = execute_and_ask};
    tg_ranker *ranker;
    float *scores = malloc(bytes);
    if (tg_ranker_open(path, &o, &ranker, &message) != TG_OK) return failed(message.text);
    if (tg_session_open(ranker, &shared.graph, shared.configs.count, &used, &message) != TG_OK)
        return failed(message.text);
    said_busy = 0; /* where the host's threads are slow, passes use one, and try them again now and then */
    for (int i = 0; i < 4096 && said_busy == 0; i++) {
        if (tg_session_score(used, &shared.configs, scores, &message) != TG_OK) return failed(message.text);
        if (memcmp(scores, expected, bytes) != 0) return failed("busy: other scores");
    }
    tg_session_close(used);
    tg_ranker_close(ranker);
    free(scores);
    return said_busy > 0 ? 0 : failed("busy: nobody was told");
}

/* The same bits on the host's threads, and on any number of the library's. */
static int spread(const char *path) {
    tg_message message = TG_MESSAGE;
    float *scores = malloc(bytes);
    for (int32_t threads = 1; threads < 6; threads += 2)
        for (int hosted = 0; hosted < 2; hosted++) {
            tg_options o = {.size = sizeof o, .threads = threads};
            tg_ranker *ranker;
            if (hosted) o.execute = execute;
            if (tg_ranker_open(path, &o, &ranker, &message) != TG_OK) return failed(message.text);
            if (tg_ranker_score(ranker, &shared.graph, &shared.configs, scores, &message) != TG_OK)
                return failed(message.text);
            tg_ranker_close(ranker);
            if (memcmp(scores, expected, bytes) != 0) return failed("spread: other scores");
        }
    free(scores);
    return hands_seen > 2 ? 0 : failed("spread: the host's threads were not used");
}

static void *score_often(void *at) {
    tg_ranker *ranker = at;
    tg_message message = TG_MESSAGE;
    tg_session *session;
    float *scores = malloc(bytes);
    intptr_t wrong =
        tg_session_open(ranker, &shared.graph, shared.configs.count, &session, &message) != TG_OK;
    for (int i = 0; i < 5 && !wrong; i++) {
        memset(scores, 0, bytes);
        if (i % 2) wrong |= tg_ranker_score(ranker, &shared.graph, &shared.configs, scores, NULL) != TG_OK;
        else wrong |= tg_session_score(session, &shared.configs, scores, NULL) != TG_OK;
        wrong |= memcmp(scores, expected, bytes) != 0;
    }
    tg_session_close(session);
    free(scores);
    return (void *)wrong;
}

/* Eight threads at once, of one ranker, which is closed while they score. */
static int many(const char *path) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    tg_ranker *ranker[THREADS];
    tg_message message = TG_MESSAGE;
    int code = 0;
    if (tg_ranker_open(path, NULL, &ranker[0], &message) != TG_OK) return failed(message.text);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, score_often, ranker[0]) != 0) return failed("no thread");
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong != NULL) code = failed("many: other scores");
    }
    tg_ranker_close(ranker[0]);
    return code;
}

/* ---- gradual change ---- */

static tg_status copy_graph(tg_graph_builder *b, tg_message *m) {
    const tg_graph_arrays *g = &shared.graph;
    tg_status status = TG_OK;
    for (int64_t n = 0; n < g->nodes && status == TG_OK; n++) {
        status = tg_builder_node(b, g->node_opcode[n], 0, NULL, m);
        for (int32_t f = 0; f < g->node_columns && status == TG_OK; f++)
            status = tg_builder_set(b, TG_NODE, n, f, g->node_feat[n * g->node_columns + f], m);
    }
    for (int64_t e = 0; e < g->edges && status == TG_OK; e++)
        status = tg_builder_edge(b, g->edge_index[2 * e], g->edge_index[2 * e + 1], m);
    for (int32_t f = 0; f < g->graph_columns && status == TG_OK; f++)
        status = tg_builder_set(b, TG_GRAPH_WIDE, 0, f, g->graph_feat[f], m);
    return status;
}

static tg_status add_row(tg_graph_builder *b, int64_t c, tg_message *m) {
    int64_t config;
    const int64_t columns = shared.configs.columns;
    const tg_status status = tg_builder_config(b, -1, &config, m);
    if (status == TG_OK)
        memcpy(tg_builder_row(b, TG_CONFIG, config), shared.configs.features + c * columns,
               (size_t)columns * sizeof(float));
    return status;
}

/* Configs come and go: the scores are those of the rows that are left, in the order that the header says, and scoring no
   more of them than before takes no memory. Of configs that are features. */
static int changes(const char *path) {
    tg_message m = TG_MESSAGE;
    host h = {0, 0, -1};
    const tg_options o = options_of(&h);
    const int64_t n = shared.configs.count;
    tg_ranker *ranker;
    tg_graph_builder *b;
    float *scores = malloc(bytes);
    int64_t *row = malloc((size_t)n * sizeof *row), left = n;
    if (tg_ranker_open(path, &o, &ranker, &m) != TG_OK) return failed(m.text);
    if (tg_builder_open(ranker, &b, &m) != TG_OK || copy_graph(b, &m) != TG_OK) return failed(m.text);
    for (int64_t c = 0; c < n; c++)
        if (row[c] = c, add_row(b, c, &m) != TG_OK) return failed(m.text);
    if (tg_builder_score(b, scores, &m) != TG_OK || memcmp(scores, expected, bytes) != 0)
        return failed("all");
    const long calls = h.calls;
    for (int64_t c = 3; c < left; c += 5) {
        if (tg_builder_remove(b, c, &m) != TG_OK) return failed(m.text);
        row[c] = row[--left];
    }
    if (tg_builder_score(b, scores, &m) != TG_OK || tg_builder_count(b) != left) return failed("removed");
    for (int64_t c = 0; c < left; c++)
        if (scores[c] != expected[row[c]]) return failed("removed: another score");
    if (h.calls != calls) return failed("changes take memory");
    if (tg_builder_config(b, 0, NULL, &m) != TG_OK || tg_builder_score(b, scores, &m) != TG_OK ||
        scores[left] != scores[0])
        return failed("one like another");
    tg_builder_clear(b);
    if (tg_builder_count(b) != 0 || copy_graph(b, &m) != TG_OK || add_row(b, 7, &m) != TG_OK ||
        tg_builder_score(b, scores, &m) != TG_OK || scores[0] != expected[7])
        return failed("built again");
    tg_builder_close(b);
    tg_ranker_close(ranker);
    free(row);
    free(scores);
    return h.live == 0 ? 0 : failed("changes: memory lost");
}

/* ---- arguments ---- */

static int refused(tg_status status, tg_message *message, const char *what) {
    const int fine = status == TG_E_DATA && message->status == TG_E_DATA && message->text[0] != 0 &&
                     strchr(message->text, '\n') == NULL;
    if (!fine) fprintf(stderr, "%s: status %d, %s\n", what, (int)status, message->text);
    memset(message->text, 0, sizeof message->text);
    return fine;
}
#define REFUSED(call)                                                                                        \
    if (!refused(call, &m, #call)) return 1

/* NULLs, sizes that are none and numbers out of range are refused by name. */
static int arguments(const char *path) {
    tg_message m = TG_MESSAGE;
    tg_ranker *ranker, *none;
    tg_session *session;
    tg_graph_builder *builder;
    tg_graph_arrays g = shared.graph;
    tg_config_arrays c = shared.configs;
    float *scores = malloc(bytes);
    int64_t best[4];
    if (tg_ranker_open(path, NULL, &ranker, &m) != TG_OK) return failed(m.text);
    REFUSED(tg_ranker_open(NULL, NULL, &none, &m));
    REFUSED(tg_ranker_open(path, NULL, NULL, &m));
    REFUSED(tg_ranker_open_memory(NULL, 9, NULL, &none, &m));
    tg_options o = {.size = 1};
    REFUSED(tg_ranker_open(path, &o, &none, &m));
    o = (tg_options){.size = sizeof o, .allocate = host_allocate};
    REFUSED(tg_ranker_open(path, &o, &none, &m));
    REFUSED(tg_ranker_score(NULL, &g, &c, scores, &m));
    REFUSED(tg_ranker_score(ranker, NULL, &c, scores, &m));
    REFUSED(tg_ranker_score(ranker, &g, NULL, scores, &m));
    REFUSED(tg_ranker_score(ranker, &g, &c, NULL, &m));
    g.size = 12;
    REFUSED(tg_ranker_score(ranker, &g, &c, scores, &m));
    g = shared.graph, g.edge_index = NULL;
    REFUSED(tg_ranker_score(ranker, &g, &c, scores, &m));
    g = shared.graph, g.nodes = INT64_MAX;
    REFUSED(tg_ranker_score(ranker, &g, &c, scores, &m));
    c.count = -1;
    REFUSED(tg_ranker_score(ranker, &shared.graph, &c, scores, &m));
    REFUSED(tg_session_open(ranker, NULL, 1, &session, &m));
    REFUSED(tg_session_open(ranker, &shared.graph, 0, &session, &m));
    REFUSED(tg_session_open(ranker, &shared.graph, 1, NULL, &m));
    if (tg_session_open(ranker, &shared.graph, 2, &session, &m) != TG_OK) return failed(m.text);
    REFUSED(tg_session_score(session, NULL, scores, &m));
    REFUSED(tg_session_score(session, &shared.configs, scores, &m)); /* more than two */
    REFUSED(tg_session_score(NULL, &shared.configs, scores, &m));
    if (tg_builder_open(ranker, &builder, &m) != TG_OK) return failed(m.text);
    REFUSED(tg_builder_config(builder, -1, NULL, &m));
    REFUSED(tg_builder_node(builder, 256, 0, NULL, &m));
    if (tg_builder_node(builder, 1, 1, NULL, &m) != TG_OK) return failed(m.text);
    REFUSED(tg_builder_edge(builder, 0, 1, &m));
    REFUSED(tg_builder_edge(builder, -1, 0, &m));
    REFUSED(tg_builder_config(builder, 0, NULL, &m));
    REFUSED(tg_builder_remove(builder, 0, &m));
    REFUSED(tg_builder_set(builder, TG_NODE, 1, 0, 1, &m));
    REFUSED(tg_builder_set(builder, TG_NODE, 0, 1 << 20, 1, &m));
    REFUSED(tg_builder_set(builder, (tg_group)9, 0, 0, 1, &m));
    REFUSED(tg_builder_digit(builder, 0, 0, 0, 1, &m));
    REFUSED(tg_builder_arrays(builder, NULL, &c, &m));
    REFUSED(tg_best(expected, 3, 4, best, &m));
    REFUSED(tg_best(NULL, 4, 4, best, &m));
    if (tg_builder_set(builder, TG_NODE, 0, -1, 5, &m) != TG_OK) return failed("an unknown feature");
    if (tg_builder_row(builder, TG_CONFIG, 0) != NULL) return failed("a row that is not there");
    struct {
        uint32_t size;
        int32_t status;
        char text[8], behind[8];
    } small = {16, 0, {0}, "behind"};
    if (tg_builder_edge(builder, -1, 0, (tg_message *)(void *)&small) != TG_E_DATA || small.text[7] != 0 ||
        strcmp(small.behind, "behind") != 0)
        return failed("a short message");
    tg_builder_close(builder);
    tg_session_close(session);
    tg_ranker_close(ranker);
    tg_ranker_close(NULL), tg_session_close(NULL), tg_builder_close(NULL);
    if (tg_status_string(-1) == NULL || tg_status_string(1000) == NULL || tg_abi_version() != TG_ABI_VERSION)
        return failed("status or version");
    free(scores);
    return 0;
}

/* The file's bytes serve as well, and may go away at once; they need not be aligned. */
static int bytes_of(const char *path) {
    tg_message message = TG_MESSAGE;
    tg_ranker *ranker;
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(size + 1);
    if (fread(content + 1, 1, size, file) != size) return failed("cannot read");
    fclose(file);
    if (tg_ranker_open_memory(content + 1, size, NULL, &ranker, &message) != TG_OK)
        return failed(message.text);
    memset(content, 0, size + 1);
    free(content);
    float *scores = malloc(bytes);
    if (tg_ranker_score(ranker, &shared.graph, &shared.configs, scores, &message) != TG_OK)
        return failed(message.text);
    tg_ranker_close(ranker);
    const int wrong = memcmp(scores, expected, bytes);
    free(scores);
    return wrong ? failed("other scores") : 0;
}

/* Names and what stands for missing features, for Python to compare. */
static int names(const char *path) {
    tg_message message = TG_MESSAGE;
    tg_ranker *ranker;
    if (tg_ranker_open(path, NULL, &ranker, &message) != TG_OK) return failed(message.text);
    for (int group = TG_NODE; group <= TG_DIGIT; group++)
        for (int32_t i = 0; i < tg_feature_count(ranker, (tg_group)group); i++) {
            const char *name = tg_feature_name(ranker, (tg_group)group, i);
            if (tg_feature_index(ranker, (tg_group)group, name) != i) return failed(name);
            printf("%d %s %.9g\n", group, name, (double)tg_feature_fill(ranker, (tg_group)group, i));
        }
    if (tg_feature_index(ranker, TG_NODE, "none such") != -1) return failed("a name");
    tg_ranker_close(ranker);
    return 0;
}

/* What lies outside, for Python to compare, and the best five. */
static int report(const char *path) {
    tg_message message = TG_MESSAGE;
    tg_ranker *ranker;
    tg_report all = {.size = sizeof all}, graph = {.size = sizeof graph};
    int64_t best[5];
    if (tg_ranker_open(path, NULL, &ranker, &message) != TG_OK) return failed(message.text);
    if (tg_ranker_report(ranker, &shared.graph, &shared.configs, &all, &message) != TG_OK ||
        tg_ranker_report(ranker, &shared.graph, NULL, &graph, &message) != TG_OK ||
        tg_ranker_choose(ranker, &shared.graph, &shared.configs, 5, best, &message) != TG_OK)
        return failed(message.text);
    const tg_report *both[] = {&all, &graph};
    for (int i = 0; i < 2; i++) {
        const tg_report *r = both[i];
        printf("%d %d %s %.9g %.9g\n", r->columns, r->outside,
               tg_feature_name(ranker, (tg_group)r->group, r->column), r->farthest, r->distance);
    }
    for (int i = 0; i < 5; i++) printf("%d\n", (int)best[i]);
    const int64_t n = shared.configs.count;
    const double gain = (double)expected[n - 1] - (double)expected[best[0]];
    if (tg_decide(expected, n, n - 1, gain / 2) != best[0] || tg_decide(expected, n, n - 1, gain) != n - 1 ||
        tg_decide(expected, n, n, 0) != n)
        return failed("decide");
    all.size = 8;
    if (tg_ranker_report(ranker, &shared.graph, NULL, &all, &message) != TG_E_DATA)
        return failed("a short report");
    tg_ranker_close(ranker);
    return 0;
}

static int prepare(const char *path) {
    tg_ranker *ranker;
    tg_message message = TG_MESSAGE;
    bytes = (size_t)shared.configs.count * sizeof *expected;
    if ((expected = malloc(bytes)) == NULL) return failed("no memory");
    if (tg_ranker_open(path, NULL, &ranker, &message) != TG_OK) return failed(message.text);
    if (tg_ranker_score(ranker, &shared.graph, &shared.configs, expected, &message) != TG_OK)
        return failed(message.text);
    tg_ranker_close(ranker);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *word;
        int (*check)(const char *path);
    } promises[] = {{"memory", memory},       {"spread", spread},  {"many", many},
                    {"arguments", arguments}, {"bytes", bytes_of}, {"names", names},
                    {"report", report},       {"busy", busy},      {"changes", changes}};
    if (argc != 4 || !read_job(argv[3], &shared) || prepare(argv[2]) != 0) return failed("usage");
    int code = 3;
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++)
        if (strcmp(argv[1], promises[i].word) == 0) code = promises[i].check(argv[2]);
    free(expected);
    free(shared.bytes);
    return code;
}
