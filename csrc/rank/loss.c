#include "rank/loss_table.h"

#include <stdio.h>
#include <string.h>

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

tg_loss_term tg_loss_default(const tg_loss *loss) {
    tg_loss_term term = {.loss = loss, .reduction = loss->reduction, .weight = 1};
    for (int a = 0; a < tg_attrs_count(loss->attrs, TG_MAX_LOSS_ATTRS); a++)
        term.attr[a] = loss->attrs[a].fallback;
    return term;
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

/* ---- a sum as a text describes it ---- */

enum { WEIGHT, REDUCTION, OVER, COMMON }; /* what every term may have, before the loss's own */

/* Appends a name to "a|b". */
static void add_word(char *words, size_t size, const char *name) {
    const size_t used = strlen(words);
    snprintf(words + used, size - used, "%s%s", used > 0 ? "|" : "", name);
}

static const tg_loss *find_loss(const tg_json_value *name, tg_error *err) {
    char known[512] = "one of ";
    for (int i = 0; tg_loss_table[i] != NULL; i++) {
        if (tg_json_is(name, tg_loss_table[i]->name)) return tg_loss_table[i];
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", tg_loss_table[i]->name);
    }
    tg_attr_wrong(err, TG_E_CONFIG, "", "loss", known, name);
    return NULL;
}

/* Fields of a term: those that all have, and its loss's attributes. */
static tg_status read_fields(tg_loss_term *term, const tg_json_value *given, tg_error *err) {
    const tg_loss *loss = term->loss;
    const int n = tg_attrs_count(loss->attrs, TG_MAX_LOSS_ATTRS);
    char words[128] = "";
    int reduction[TG_REDUCTIONS], n_reductions = 0;
    for (int r = 0; r < TG_REDUCTIONS; r++)
        if (loss->reductions >> r & 1) {
            reduction[n_reductions++] = r;
            add_word(words, sizeof words, tg_reduction_names[r]);
        }
    tg_attr attrs[COMMON + TG_MAX_LOSS_ATTRS] = {
        [WEIGHT] = {.name = "weight", .fallback = 1, .high = 1e30},
        [REDUCTION] = {.name = "reduction", .kind = TG_ATTR_CHOICE, .choices = words},
        [OVER] = {.name = "over", .kind = TG_ATTR_CHOICE, .choices = "list|batch"}};
    if (n > 0) memcpy(&attrs[COMMON], loss->attrs, (size_t)n * sizeof *attrs);
    tg_attr_value values[COMMON + TG_MAX_LOSS_ATTRS];
    const int known = term->own != NULL ? REDUCTION : COMMON + n;
    const tg_status status = tg_attrs_read(attrs, known, given, "loss", loss->name, TG_E_CONFIG, values, err);
    if (status != TG_OK) return status;
    term->weight = values[WEIGHT].number;
    if (term->own != NULL) return TG_OK;
    term->over_batch = values[OVER].number == 1;
    if (tg_json_find(given, "reduction") != NULL)
        term->reduction = (tg_reduction)reduction[(int)values[REDUCTION].number];
    for (int a = 0; a < n; a++) term->attr[a] = values[COMMON + a].number;
    return TG_OK;
}

static tg_status read_term(tg_loss_term *term, const tg_json_value *given, tg_own_loss own, tg_error *err) {
    const tg_json_value *name = tg_json_find(given, "loss");
    if (name == NULL)
        return tg_attr_wrong(err, TG_E_CONFIG, "", "loss",
                             "for every term an object with its name: {'loss': 'pairwise_hinge'}", given);
    const int is_own = own != NULL && name->kind == TG_JSON_LITERAL && name->text[0] == 'n';
    const tg_loss *loss = is_own ? &own_loss : find_loss(name, err);
    if (loss == NULL) return TG_E_CONFIG;
    *term = tg_loss_default(loss);
    if (is_own) term->own = own;
    return read_fields(term, given, err);
}

tg_status tg_losses_read(tg_losses *losses, const tg_json_value *list, tg_own_loss own, tg_error *err) {
    char expected[64];
    *losses = (tg_losses){0};
    snprintf(expected, sizeof expected, "a list of 1..%d terms", TG_MAX_LOSSES);
    if (list == NULL || list->kind != TG_JSON_ARRAY || list->count < 1 || list->count > TG_MAX_LOSSES)
        return tg_attr_wrong(err, TG_E_CONFIG, "", "loss", expected, list);
    tg_status status = TG_OK;
    for (const tg_json_value *v = list->first; status == TG_OK && v != NULL; v = v->next)
        status = read_term(&losses->term[losses->n++], v, own, err);
    return status;
}

unsigned tg_losses_need(const tg_losses *losses) {
    unsigned need = 0;
    for (int i = 0; i < losses->n; i++) need |= losses->term[i].loss->reads(losses->term[i].attr).targets;
    return need;
}
