/* Steps that read the published node features: the layout in the last columns, and how lists are padded. */
#include "features/schema.h"
#include "prepare/step.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "features/layout.h"
#include "prepare/padding.h"

tg_status tg_step_published(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    if (graph->F == use->node_features || !(tables & 1u << TG_TABLE_NODE)) return TG_OK;
    const char *expected =
        use->node_features == TG_NODE_FEATURES
            ? "the 140 published columns"
            : "the 186 columns that tpugraphs.load(path, extra=True) gives, as in training";
    return tg_fail_field(err, "node_feat", expected, "%lld", (long long)graph->F);
}

/* ---- layout-digits ---- */

static tg_status plan_digits(tg_use *use, const tg_outline *before, tg_error *err) {
    if (before->changed[TG_TABLE_NODE])
        return tg_step_wrong(use, err, "to come before every step that changes the node features");
    return TG_OK;
}

static void outline_digits(const tg_use *use, tg_outline *outline, int fitted) {
    (void)use, (void)fitted;
    outline->has_layout = 1;
    if (outline->cols[TG_TABLE_NODE] < 0) outline->cols[TG_TABLE_NODE] = TG_NODE_FEATURES;
}

static tg_status apply_digits(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_features *x = &d->table[TG_TABLE_NODE]; /* as stored, and was inspected */
    free(d->layout);
    if ((d->layout = malloc((size_t)d->N * TG_LAYOUT_DIGITS + 1)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for the layouts of %lld nodes", (long long)d->N);
    return tg_layout_digits(d->layout, x->x, x->ld, d->N, (int)use->attr[0], (int)use->attr[1], err);
}

const tg_prepare_step tg_step_layout_digits = {
    .name = "layout-digits",
    .doc = "The layout of each node's output (columns 134-139) as digits.",
    .attrs = TG_ATTRS(
        TG_ROW("padding", TG_ATTR_INT, 0, -1, -1, 0, NULL,
               "-1: digits past the rank of a node become -1; 0: the columns stay as they are"),
        TG_ROW("least", TG_ATTR_INT, 0, -1, -1, TG_LAYOUT_DIGITS, NULL,
               "smaller digits become -1; 1: a 0 counts as none, 6: no node has a layout (fifth place of the "
               "Kaggle competition)")),
    .plan = plan_digits,
    .outline = outline_digits,
    .inspect = tg_step_published,
    .apply = apply_digits,
};

/* ---- node-padding ---- */

int tg_list_padding(const float *node_feat, int64_t ld, int64_t N) {
    static const struct {
        int from, to;
    } lists[] = {{31, 37}, {95, 99}, {101, 105}};
    for (int64_t n = 0; n < N; n++)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            for (int f = lists[i].from; f < lists[i].to; f++)
                if (node_feat[n * ld + f] < 0) return -1;
    return 0;
}

static tg_status inspect_padding(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    tg_status status = tg_step_published(use, graph, tables, err);
    if (status != TG_OK || !(tables & 1u << TG_TABLE_NODE)) return status;
    const int expected = (int)use->attr[0], found = tg_list_padding(graph->node_feat, graph->F, graph->N);
    if (found == expected) return TG_OK;
    tg_fail_field(err, "node_feat", expected ? "padding -1" : "padding 0", "padding %d", found);
    snprintf(
        err->message, sizeof err->message,
        "node_feat: this ranker's weights were trained on features padded with %d (columns 31-36, 95-98, "
        "101-104), these are padded with %d; %s (docs/weights-from-outside.md)",
        expected, found,
        expected ? "give features written from the .pb files with padding -1, as the authors of the weights "
                   "did, or train on this data"
                 : "give the published files as they are");
    return err->code;
}

const tg_prepare_step tg_step_node_padding = {
    .name = "node-padding",
    .doc = "Refuse graphs whose lists in the node features are padded with another number.",
    .attrs = TG_ATTRS(TG_ROW("value", TG_ATTR_INT, 1, 0, -1, 0, NULL, "with what they must be padded")),
    .inspect = inspect_padding,
};
