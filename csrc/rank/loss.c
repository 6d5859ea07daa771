#include "rank/loss_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"

const tg_loss *const tg_loss_table[] = {
#define TG_ENTRY(name) &tg_loss_##name,
    TG_LOSS_LIST(TG_ENTRY)
#undef TG_ENTRY
        NULL};

const char *const tg_reduction_names[TG_REDUCTIONS] = {
#define TG_REDUCTION(id, name) [TG_REDUCE_##id] = name,
    TG_REDUCTION_LIST(TG_REDUCTION)
#undef TG_REDUCTION
};

/* Names one after the other for a message: "a", "b". */
typedef struct names {
    char text[256];
    size_t used;
} names;

static void add_name(names *list, const char *name) {
    const int n = snprintf(list->text + list->used, sizeof list->text - list->used, "%s\"%s\"",
                           list->used > 0 ? ", " : "", name);
    list->used += (size_t)n;
    if (list->used >= sizeof list->text) list->used = sizeof list->text - 1;
}

tg_status tg_losses_add(tg_losses *losses, const char *name, tg_error *err) {
    if (losses->n == TG_MAX_LOSSES)
        return tg_fail(err, TG_E_CONFIG, "loss: a sum has at most %d terms", TG_MAX_LOSSES);
    const tg_loss *const *loss = tg_loss_table;
    while (*loss != NULL && strcmp((*loss)->name, name) != 0) loss++;
    if (*loss == NULL) {
        names known = {0};
        for (int i = 0; tg_loss_table[i] != NULL; i++) add_name(&known, tg_loss_table[i]->name);
        return tg_fail(err, TG_E_CONFIG, "loss must be one of %s, got \"%s\"", known.text, name);
    }
    tg_loss_term *term = &losses->term[losses->n++];
    *term = (tg_loss_term){.loss = *loss, .reduction = (*loss)->reduction, .weight = 1};
    for (int a = 0; (*loss)->attrs[a].name != NULL; a++) term->attr[a] = (*loss)->attrs[a].fallback;
    return TG_OK;
}

/* What stands in a term for a loss of the caller's own. */
static tg_reads own_reads(const double *attr) {
    (void)attr;
    return (tg_reads){.targets = TG_NEED_TIME};
}

static double own_carve(tg_scratch *c, int64_t length) {
    (void)c;
    return (double)length;
}

static const tg_loss own_loss = {
    .name = "a loss of your own", .doc = "of the caller's own", .reads = own_reads, .carve = own_carve};

tg_status tg_losses_add_own(tg_losses *losses, tg_own_loss own, void *context, tg_error *err) {
    if (losses->n == TG_MAX_LOSSES)
        return tg_fail(err, TG_E_CONFIG, "loss: a sum has at most %d terms", TG_MAX_LOSSES);
    losses->term[losses->n++] =
        (tg_loss_term){.loss = &own_loss, .own = own, .context = context, .weight = 1};
    return TG_OK;
}

/* Position of the attribute, or -1 with err naming those there are. */
static int find_attr(const tg_loss *loss, const char *key, tg_error *err) {
    names known = {0};
    for (int a = 0; loss->attrs[a].name != NULL; a++)
        if (strcmp(loss->attrs[a].name, key) == 0) return a;
    for (int a = 0; loss->attrs[a].name != NULL; a++) add_name(&known, loss->attrs[a].name);
    add_name(&known, "weight");
    add_name(&known, "reduction");
    add_name(&known, "over");
    tg_fail(err, TG_E_CONFIG, "%s has no \"%s\"; it takes %s", loss->name, key, known.text);
    return -1;
}

tg_status tg_loss_set_number(tg_loss_term *term, const char *key, double number, tg_error *err) {
    static const tg_loss_attr weight = {.name = "weight", .low = 0, .high = 1e30};
    const tg_loss_attr *attr = &weight;
    const int own = term->own != NULL && strcmp(key, "weight") != 0;
    if (own) return tg_fail(err, TG_E_CONFIG, "%s takes \"weight\", got \"%s\"", term->loss->name, key);
    double *to = &term->weight;
    if (strcmp(key, "reduction") == 0 || strcmp(key, "over") == 0)
        return tg_fail(err, TG_E_CONFIG, "%s: %s is a word, got %g", term->loss->name, key, number);
    if (strcmp(key, "weight") != 0) {
        const int a = find_attr(term->loss, key, err);
        if (a < 0) return TG_E_CONFIG;
        attr = &term->loss->attrs[a];
        to = &term->attr[a];
    }
    if (attr->choices != NULL)
        return tg_fail(err, TG_E_CONFIG, "%s: %s is one of the words %s, got %g", term->loss->name, key,
                       attr->choices, number);
    if (!(number >= attr->low && number <= attr->high) || (attr->whole && number != floor(number)))
        return tg_fail(err, TG_E_CONFIG, "%s: %s must be a %s from %g to %g, got %g", term->loss->name, key,
                       attr->whole ? "whole number" : "number", attr->low, attr->high, number);
    *to = number;
    return TG_OK;
}

static tg_status set_reduction(tg_loss_term *term, const char *word, tg_error *err) {
    names known = {0};
    for (int r = 0; r < TG_REDUCTIONS; r++)
        if (term->loss->reductions >> r & 1 && strcmp(word, tg_reduction_names[r]) == 0) {
            term->reduction = (tg_reduction)r;
            return TG_OK;
        }
    for (int r = 0; r < TG_REDUCTIONS; r++)
        if (term->loss->reductions >> r & 1) add_name(&known, tg_reduction_names[r]);
    return tg_fail(err, TG_E_CONFIG, "%s: reduction must be one of %s, got \"%s\"", term->loss->name,
                   known.text, word);
}

static tg_status set_choice(tg_loss_term *term, int a, const char *word, tg_error *err) {
    const tg_loss_attr *attr = &term->loss->attrs[a];
    names known = {0};
    char choice[64];
    for (int i = 0; tg_word(attr->choices, i, choice, sizeof choice); i++) {
        if (strcmp(choice, word) == 0) {
            term->attr[a] = i;
            return TG_OK;
        }
        add_name(&known, choice);
    }
    return tg_fail(err, TG_E_CONFIG, "%s: %s must be one of %s, got \"%s\"", term->loss->name, attr->name,
                   known.text, word);
}

tg_status tg_loss_set_word(tg_loss_term *term, const char *key, const char *word, tg_error *err) {
    if (term->own != NULL)
        return tg_fail(err, TG_E_CONFIG, "%s takes \"weight\", a number, got %s = \"%s\"", term->loss->name,
                       key, word);
    if (strcmp(key, "reduction") == 0) return set_reduction(term, word, err);
    if (strcmp(key, "over") == 0) {
        term->over_batch = strcmp(word, "batch") == 0;
        if (term->over_batch || strcmp(word, "list") == 0) return TG_OK;
        return tg_fail(err, TG_E_CONFIG, "%s: over must be \"list\" or \"batch\", got \"%s\"",
                       term->loss->name, word);
    }
    const int number = strcmp(key, "weight") == 0, a = number ? -1 : find_attr(term->loss, key, err);
    if (a >= 0 && term->loss->attrs[a].choices != NULL) return set_choice(term, a, word, err);
    if (a < 0 && !number) return TG_E_CONFIG;
    return tg_fail(err, TG_E_CONFIG, "%s: %s is a number, got \"%s\"", term->loss->name, key, word);
}

unsigned tg_losses_need(const tg_losses *losses) {
    unsigned need = 0;
    for (int i = 0; i < losses->n; i++) need |= losses->term[i].loss->reads(losses->term[i].attr).targets;
    return need;
}
