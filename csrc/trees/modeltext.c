#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trees/forest.h"

/* The text is lines of KEY=VALUE: those of the model, then for every tree "Tree=0", its own and an empty line, and in the
   end "end of trees". Numbers in a list are separated by blanks. It is read twice: first the sizes of
   the trees, none of which can exceed how many numbers follow, then the numbers. */

typedef struct span {
    const char *at, *end;
    int64_t line; /* 0: there is none */
} span;

enum { VERSION, CLASSES, PER_ROUND, LAST_COLUMN, OBJECTIVE, AVERAGE, HEAD_KEYS };
static const char *const head_keys[HEAD_KEYS] = {"version",         "num_class", "num_tree_per_iteration",
                                                 "max_feature_idx", "objective", "average_output"};

enum { LEAVES, SETS, COLUMN, GAIN, THRESHOLD, TYPE, LEFT, RIGHT, LEAF, BOUNDS, WORDS, LINEAR, TREE_KEYS };
static const char *const tree_keys[TREE_KEYS] = {
    "num_leaves", "num_cat",     "split_feature", "split_gain",     "threshold",     "decision_type",
    "left_child", "right_child", "leaf_value",    "cat_boundaries", "cat_threshold", "is_linear"};

enum { MOST_NUMBER = 48, MOST_TREES = 16 << 20 };
static const double most_sum = 3e38; /* float32 holds it */

typedef struct reader {
    const char *at, *end;
    int64_t line;
    locale_t plain; /* in which a point is a point */
    tg_forest *forest;
    const int64_t *columns;
    int64_t n;
    double reach;                  /* no sum can be larger */
    int64_t splits, leaves, words; /* so far */
    int64_t sets;                  /* of this tree */
    span key[TREE_KEYS];           /* of one tree */
    tg_error *err;
} reader;

static tg_status wrong(reader *r, const char *key, int64_t line, const char *expected, const char *found,
                       size_t size) {
    return tg_fail_field(r->err, key, expected, "'%.*s' in line %lld", (int)(size < 40 ? size : 40),
                         size > 0 ? found : "", (long long)line);
}

/* ---- lines ---- */

/* The next line, without its end; 0 behind the last. */
static int next_line(reader *r, span *line) {
    if (r->at == r->end) return 0;
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    *line = (span){r->at, end == NULL ? r->end : end, ++r->line};
    r->at = end == NULL ? r->end : end + 1;
    if (line->end > line->at && line->end[-1] == '\r') line->end--;
    return 1;
}

static int begins(const span *line, const char *text) {
    const size_t size = strlen(text);
    return (size_t)(line->end - line->at) >= size && memcmp(line->at, text, size) == 0;
}

/* If the line is that of one of the keys, its value is taken. */
static tg_status take_key(reader *r, const span *line, const char *const *keys, int n, span *values) {
    const char *sign = memchr(line->at, '=', (size_t)(line->end - line->at));
    const char *end = sign == NULL ? line->end : sign;
    for (int i = 0; i < n; i++) {
        if ((size_t)(end - line->at) != strlen(keys[i]) || !begins(line, keys[i])) continue;
        if (values[i].line != 0) return wrong(r, keys[i], line->line, "one line", "a second", 8);
        values[i] = (span){sign == NULL ? end : sign + 1, line->end, line->line};
    }
    return TG_OK;
}

/* ---- numbers ---- */

/* The next word of a list; 0 behind the last. */
static int next_word(span *list, span *word) {
    while (list->at < list->end && *list->at == ' ') list->at++;
    *word = *list;
    while (list->at < list->end && *list->at != ' ') list->at++;
    word->end = list->at;
    return word->end > word->at;
}

static int64_t words_in(span list) {
    int64_t n = 0;
    for (span word; next_word(&list, &word);) n++;
    return n;
}

/* A number within low..high, such as 7, 1e-5 or inf, but never NaN; whether it is one. */
static int number_of(const reader *r, const span *word, double low, double high, double *to) {
    char text[MOST_NUMBER], *end;
    const size_t size = (size_t)(word->end - word->at);
    if (size >= sizeof text) return 0;
    memcpy(text, word->at, size);
    text[size] = 0;
    if (size == 0 || strspn(text, "0123456789+-.eEinf") != size) return 0;
    *to = strtod_l(text, &end, r->plain);
    return end == text + size && *to >= low && *to <= high;
}

static int whole_of(const reader *r, const span *word, int64_t low, int64_t high, int64_t *to) {
    double number;
    if (!number_of(r, word, (double)low, (double)high, &number) || number != floor(number)) return 0;
    *to = (int64_t)number;
    return 1;
}

/* The one whole number of a key, `missing` if the key may be left out and is. */
static tg_status take_whole(reader *r, const char *key, span value, int64_t low, int64_t high,
                            int64_t missing, int64_t *to) {
    char expected[80];
    const span whole = value;
    span word;
    *to = missing;
    if (value.line == 0 && missing >= low) return TG_OK;
    if (low == high) snprintf(expected, sizeof expected, "%lld", (long long)low);
    else snprintf(expected, sizeof expected, "a whole number in %lld..%lld", (long long)low, (long long)high);
    if (value.line == 0)
        return tg_fail_field(r->err, key, expected, "none before line %lld", (long long)r->line);
    if (!next_word(&value, &word) || !whole_of(r, &word, low, high, to) || words_in(value) > 0)
        return wrong(r, key, whole.line, expected, whole.at, (size_t)(whole.end - whole.at));
    return TG_OK;
}

/* One item of the lists of a tree: item `i` of its `n`. */
typedef int take_item(reader *r, const span *word, int64_t i, int64_t n);

static tg_status take_list(reader *r, int key, int64_t n, take_item *take, const char *items) {
    span list = r->key[key], word;
    const char *name = tree_keys[key];
    char expected[80];
    snprintf(expected, sizeof expected, "%lld numbers, %s", (long long)n, items);
    if (list.line == 0)
        return tg_fail_field(r->err, name, expected, "no such line before line %lld", (long long)r->line);
    const int64_t found = words_in(list);
    if (found != n)
        return tg_fail_field(r->err, name, expected, "%lld in line %lld", (long long)found,
                             (long long)list.line);
    for (int64_t i = 0; i < n; i++) {
        next_word(&list, &word);
        if (!take(r, &word, i, n))
            return wrong(r, name, list.line, expected, word.at, (size_t)(word.end - word.at));
    }
    return TG_OK;
}

/* ---- the model ---- */

/* The objective matters if a sum stands for a chance. */
static tg_status take_objective(reader *r, span value) {
    static const char sigmoid[] = "sigmoid:";
    const span whole = value;
    span word;
    if (value.line == 0 || !next_word(&value, &word) || !begins(&word, "binary") || word.end - word.at != 6)
        return TG_OK;
    while (next_word(&value, &word)) {
        if (!begins(&word, sigmoid)) continue;
        word.at += strlen(sigmoid);
        if (number_of(r, &word, 1e-6, 1e6, &r->forest->sigmoid)) return TG_OK;
    }
    return wrong(r, "objective", whole.line, "a factor such as 'sigmoid:1' in 1e-6..1e6", whole.at,
                 (size_t)(whole.end - whole.at));
}

/* All lines before the first tree's. */
static tg_status take_head(reader *r) {
    span line, head[HEAD_KEYS] = {{NULL, NULL, 0}};
    int64_t number;
    if (!next_line(r, &line) || !begins(&line, "tree") || line.end - line.at != 4)
        return tg_fail_field(r->err, "trees", "a text of LightGBM that begins with the line 'tree'",
                             "another");
    for (const char *at = r->at; next_line(r, &line); at = r->at) {
        if (begins(&line, "Tree=") || begins(&line, "end of trees")) {
            r->at = at, r->line--;
            break;
        }
        const tg_status status = take_key(r, &line, head_keys, HEAD_KEYS, head);
        if (status != TG_OK) return status;
    }
    const span *version = &head[VERSION];
    if (version->line == 0 || version->end - version->at != 2 || version->at[0] != 'v' ||
        version->at[1] < '2' || version->at[1] > '4')
        return wrong(r, "version", version->line, "v2, v3 or v4, as LightGBM 2 to 4 write it", version->at,
                     version->line == 0 ? 0 : (size_t)(version->end - version->at));
    tg_status status = take_whole(r, head_keys[CLASSES], head[CLASSES], 1, 1, 1, &number);
    if (status == TG_OK) status = take_whole(r, head_keys[PER_ROUND], head[PER_ROUND], 1, 1, 1, &number);
    if (status == TG_OK)
        status = take_whole(r, head_keys[LAST_COLUMN], head[LAST_COLUMN], r->n - 1, r->n - 1, -2, &number);
    r->forest->average = head[AVERAGE].line != 0;
    return status == TG_OK ? take_objective(r, head[OBJECTIVE]) : status;
}

/* ---- a tree ---- */

/* The keys of the next tree: *more is 0 behind the last. */
static tg_status find_tree(reader *r, int64_t number, int *more) {
    span line = {r->at, r->at, r->line}, word;
    int64_t found = -1;
    memset(r->key, 0, sizeof r->key);
    do {
        if (!next_line(r, &line))
            return tg_fail_field(r->err, "trees", "the line 'end of trees'",
                                 "the end of the text in line %lld", (long long)r->line);
    } while (line.end == line.at);
    *more = !begins(&line, "end of trees");
    if (!*more) return TG_OK;
    const span whole = line;
    line.at += begins(&line, "Tree=") ? 5 : 0;
    if (line.at == whole.at || !next_word(&line, &word) || !whole_of(r, &word, number, number, &found))
        return wrong(r, "Tree", whole.line, "the trees in order, and 'end of trees'", whole.at,
                     (size_t)(whole.end - whole.at));
    while (next_line(r, &line) && line.end > line.at) {
        const tg_status status = take_key(r, &line, tree_keys, TREE_KEYS, r->key);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

/* Leaves and sets of the tree whose keys were found. Each takes a number in the text. */
static tg_status sizes_of(reader *r, int64_t *leaves, int64_t *sets) {
    const int64_t values = words_in(r->key[LEAF]), bounds = words_in(r->key[BOUNDS]);
    int64_t linear;
    tg_status status = take_whole(r, tree_keys[LINEAR], r->key[LINEAR], 0, 0, 0, &linear);
    if (status == TG_OK)
        status = take_whole(r, tree_keys[LEAVES], r->key[LEAVES], 1, values > 1 ? values : 1, -1, leaves);
    if (status == TG_OK)
        status = take_whole(r, tree_keys[SETS], r->key[SETS], 0, bounds > 1 ? bounds - 1 : 0, -1, sets);
    return status;
}

static int take_column(reader *r, const span *word, int64_t i, int64_t n) {
    int64_t column;
    (void)n;
    if (!whole_of(r, word, 0, r->n - 1, &column)) return 0;
    r->forest->split[r->splits + i].column = (int32_t)r->columns[column];
    return 1;
}

/* Gains count for nothing but importance: anything else is 0. */
static int take_gain(reader *r, const span *word, int64_t i, int64_t n) {
    double gain;
    (void)n;
    r->forest->gain[r->splits + i] = number_of(r, word, 0, most_sum, &gain) ? (float)gain : 0;
    return 1;
}

/* 1: a set, 2: what is missing goes left, 4: 0 is missing, 8: NaN is; with neither NaN stands for 0. The last is made
   real with the threshold, which decides where that goes. */
static int take_type(reader *r, const span *word, int64_t i, int64_t n) {
    int64_t type;
    (void)n;
    if (!whole_of(r, word, 0, 11, &type)) return 0;
    r->forest->split[r->splits + i].rule = (uint32_t)type;
    return 1;
}

static int take_threshold(reader *r, const span *word, int64_t i, int64_t n) {
    static const double zero = 1e-35f;
    tg_split *s = &r->forest->split[r->splits + i];
    double threshold = 0;
    (void)n;
    if (s->rule & TG_SPLIT_SET) {
        int64_t set;
        if (!whole_of(r, word, 0, r->sets - 1, &set)) return 0;
        s->at.set.first = (uint32_t)set; /* until the sets are known */
        return 1;
    }
    if (!number_of(r, word, -HUGE_VAL, HUGE_VAL, &threshold)) return 0;
    if ((s->rule & 12) == 0) s->rule = threshold >= 0 ? TG_SPLIT_MISSING : 0;
    /* Numbers nearer to 0 than this are 0 for LightGBM. */
    if (fabs(threshold) <= zero) threshold = threshold >= 0 ? zero : nextafter(-zero, -1);
    s->at.threshold = threshold;
    return 1;
}

/* A split that comes later in the tree, or one of its leaves. */
static int child_of(reader *r, const span *word, int64_t i, int64_t n, int32_t *to) {
    int64_t child;
    if (!whole_of(r, word, -n - 1, n - 1, &child) || (child >= 0 && child <= i)) return 0;
    *to = (int32_t)(child >= 0 ? r->splits + child : ~(r->leaves + ~child));
    return 1;
}

static int take_left(reader *r, const span *word, int64_t i, int64_t n) {
    return child_of(r, word, i, n, &r->forest->split[r->splits + i].left);
}

static int take_right(reader *r, const span *word, int64_t i, int64_t n) {
    return child_of(r, word, i, n, &r->forest->split[r->splits + i].right);
}

static int take_leaf(reader *r, const span *word, int64_t i, int64_t n) {
    (void)n;
    return number_of(r, word, -most_sum, most_sum, &r->forest->leaf[r->leaves + i]);
}

static int take_word(reader *r, const span *word, int64_t i, int64_t n) {
    int64_t bits;
    (void)n;
    if (!whole_of(r, word, 0, UINT32_MAX, &bits)) return 0;
    r->forest->word[r->words + i] = (uint32_t)bits;
    return 1;
}

/* Splits that name a set get its words. */
static tg_status take_sets(reader *r, int64_t splits) {
    const int64_t sets = r->sets, words = words_in(r->key[WORDS]), top = r->words + words;
    tg_split *split = r->forest->split + r->splits;
    span list = r->key[BOUNDS], word;
    int64_t *bounds = calloc((size_t)sets + 1, sizeof *bounds);
    if (bounds == NULL) return tg_fail(r->err, TG_E_MEMORY, "no memory for a tree");
    tg_status status = take_list(r, WORDS, words, take_word, "words of sets");
    for (int64_t i = 0, low = 0; status == TG_OK && i <= sets; low = bounds[i++])
        if (!next_word(&list, &word) ||
            !whole_of(r, &word, i < sets ? low : words, i > 0 ? words : 0, &bounds[i]))
            status = wrong(r, tree_keys[BOUNDS], list.line, "where the words of each set begin and end",
                           word.at, (size_t)(word.end - word.at));
    if (status == TG_OK && next_word(&list, &word))
        status = wrong(r, tree_keys[BOUNDS], list.line, "no numbers beyond the sets", word.at,
                       (size_t)(word.end - word.at));
    for (int64_t i = 0; status == TG_OK && i < splits; i++)
        if (split[i].rule & TG_SPLIT_SET) {
            const int64_t set = split[i].at.set.first;
            split[i].at.set.first = (uint32_t)(r->words + bounds[set]);
            split[i].at.set.count = (uint32_t)(bounds[set + 1] - bounds[set]);
        }
    r->words = top;
    free(bounds);
    return status;
}

/* That every split but the root and every leaf is the child of one split, and how long ways are. Splits point forward,
   so there is no circle. */
static tg_status check_ways(reader *r, int64_t splits) {
    const tg_split *split = r->forest->split + r->splits;
    int32_t *depth =
        calloc((size_t)(2 * splits + 1), sizeof *depth); /* of splits, then of leaves; 0: not reached */
    if (depth == NULL) return tg_fail(r->err, TG_E_MEMORY, "no memory for a tree");
    depth[0] = 1;
    tg_status status = TG_OK;
    for (int64_t i = 0; status == TG_OK && i < splits; i++)
        for (int side = 0; status == TG_OK && side < 2; side++) {
            const int64_t child = side ? split[i].right : split[i].left;
            const int64_t place = child >= 0 ? child - r->splits : splits + (~child - r->leaves);
            if (depth[i] == 0 || depth[place] != 0)
                status =
                    tg_fail_field(r->err, tree_keys[side ? RIGHT : LEFT], "every split and every leaf once",
                                  "another shape in line %lld", (long long)r->key[side ? RIGHT : LEFT].line);
            depth[place] = depth[i] + 1;
            if (depth[i] > r->forest->depth) r->forest->depth = depth[i];
        }
    free(depth);
    return status;
}

/* The numbers of the tree whose keys were found. */
static tg_status take_tree(reader *r) {
    int64_t leaves;
    tg_status status = sizes_of(r, &leaves, &r->sets);
    if (status != TG_OK) return status;
    const int64_t splits = leaves - 1;
    status = take_list(r, LEAF, leaves, take_leaf, "finite and within float32");
    double most = 0;
    for (int64_t i = 0; status == TG_OK && i < leaves; i++)
        most = fmax(most, fabs(r->forest->leaf[r->leaves + i]));
    if (status == TG_OK && !((r->reach += most) <= most_sum))
        status = wrong(r, tree_keys[LEAF], r->key[LEAF].line, "leaves whose sums float32 holds",
                       "larger ones", 11);
    if (status == TG_OK && splits > 0) {
        status = take_list(r, COLUMN, splits, take_column, "columns of the table");
        if (status == TG_OK && r->key[GAIN].line != 0)
            status = take_list(r, GAIN, splits, take_gain, "gains");
        if (status == TG_OK && r->key[TYPE].line != 0)
            status = take_list(r, TYPE, splits, take_type, "types of splits, 0..11");
        if (status == TG_OK) status = take_list(r, THRESHOLD, splits, take_threshold, "thresholds or sets");
        if (status == TG_OK) status = take_list(r, LEFT, splits, take_left, "later splits or leaves");
        if (status == TG_OK) status = take_list(r, RIGHT, splits, take_right, "later splits or leaves");
        if (status == TG_OK) status = check_ways(r, splits);
        if (status == TG_OK && r->sets > 0) status = take_sets(r, splits);
    }
    r->splits += splits;
    r->leaves += leaves;
    return status;
}

/* ---- both readings ---- */

static tg_status count_trees(reader *r, int64_t *trees) {
    int more = 1;
    for (*trees = 0;; ++*trees) {
        tg_status status = find_tree(r, *trees, &more);
        if (status != TG_OK || !more) return status;
        int64_t leaves, sets;
        if ((status = sizes_of(r, &leaves, &sets)) != TG_OK) return status;
        r->leaves += leaves;
        r->splits += leaves - 1;
        r->words += words_in(r->key[WORDS]);
        if (*trees >= MOST_TREES || r->leaves > INT32_MAX / 2 || r->words > INT32_MAX)
            return tg_fail_field(r->err, "trees",
                                 "at most 16 million trees, 2^30 leaves and 2^31 words of sets", "more");
    }
}

static void *carve(char **at, int64_t n, size_t size) {
    void *part = *at;
    *at += ((size_t)n * size + 7) & ~(size_t)7;
    return part;
}

/* Room for what was counted, all of it once in the text. */
static tg_status make_room(reader *r, int64_t trees) {
    tg_forest *f = r->forest;
    const size_t bytes = (size_t)trees * sizeof *f->first +
                         (size_t)r->splits * (sizeof *f->split + sizeof *f->gain) +
                         (size_t)r->leaves * sizeof *f->leaf + (size_t)r->words * sizeof *f->word + 64;
    char *at = f->block = calloc(bytes, 1);
    if (at == NULL) return tg_fail(r->err, TG_E_MEMORY, "no memory for %lld trees", (long long)trees);
    f->split = carve(&at, r->splits, sizeof *f->split);
    f->leaf = carve(&at, r->leaves, sizeof *f->leaf);
    f->gain = carve(&at, r->splits, sizeof *f->gain);
    f->word = carve(&at, r->words, sizeof *f->word);
    f->first = carve(&at, trees + 1, sizeof *f->first);
    f->trees = (int32_t)trees;
    return TG_OK;
}

static tg_status read_model(reader *r) {
    int64_t trees = 0;
    tg_status status = take_head(r);
    const reader first = *r;
    if (status == TG_OK) status = count_trees(r, &trees);
    if (status == TG_OK && trees == 0) status = tg_fail_field(r->err, "trees", "at least one tree", "none");
    if (status == TG_OK) status = make_room(r, trees);
    if (status != TG_OK) return status;
    *r = first;
    for (int32_t t = 0; status == TG_OK && t < trees; t++) {
        int more;
        status = find_tree(r, t, &more);
        if (status == TG_OK) status = take_tree(r);
        r->forest->first[t + 1] = (int32_t)r->splits;
    }
    return status;
}

tg_status tg_forest_read(tg_forest *forest, const char *text, size_t size, const int64_t *columns, int64_t n,
                         int32_t width, tg_error *err) {
    reader r = {.at = text, .end = text + size, .forest = forest, .columns = columns, .n = n, .err = err};
    *forest = (tg_forest){.width = width};
    for (int64_t i = 0; i < n; i++)
        if (columns[i] < 0 || columns[i] >= width || (i > 0 && columns[i] <= columns[i - 1]))
            return tg_fail_field(err, "columns", "ascending columns of the table", "%lld of %d",
                                 (long long)columns[i], width);
    r.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (r.plain == (locale_t)0) return tg_fail(err, TG_E_MEMORY, "no memory for reading numbers");
    const tg_status status = read_model(&r);
    freelocale(r.plain);
    return status;
}
