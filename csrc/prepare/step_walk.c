/* Random-walk encodings as further node features. */
#include "prepare/step.h"

#include "graph/walk.h"

enum { GRAPH, FIRST, STEPS, LOOPS, FORM };

static int added(const tg_use *use) { return (int)(use->attr[STEPS] - use->attr[FIRST]) + 1; }

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    (void)before;
    return added(use) >= 1 ? TG_OK : tg_step_wrong(use, err, "first to be at most steps");
}

static void outline(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->changed[TG_TABLE_NODE] = 1;
    if (outline->cols[TG_TABLE_NODE] >= 0) outline->cols[TG_TABLE_NODE] += added(use);
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    tg_status status = tg_draft_whole(d, err); /* walks leave the part of the graph that pruning keeps */
    if (status != TG_OK) return status;
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const int64_t cols = x->cols + added(use);
    const tg_walk walk = {d->whole_N,
                          d->whole_E,
                          d->copied,
                          use->attr[GRAPH] == 1,
                          use->attr[LOOPS] != 0,
                          (int)use->attr[FIRST],
                          (int)use->attr[STEPS],
                          use->attr[FORM] == 1};
    float *y = tg_draft_room(d->N, cols, err);
    if (y == NULL) return err->code;
    tg_features_copy(x, y, cols);
    status = tg_walk_encode(y + x->cols, cols, &walk, d->nodes, d->N, err);
    return tg_draft_replace(d, TG_TABLE_NODE, status, y, (int)cols, x->finite);
}

const tg_prepare_step tg_step_walk_encoding = {
    .name = "walk-encoding",
    .doc =
        "Append for each node chances of random walks over the whole graph, after k = first .. steps steps.",
    .attrs =
        TG_ATTRS(TG_ROW("graph", TG_ATTR_CHOICE, 0, 0, 0, 0, "undirected|directed",
                        "along edges both ways, or from a node to those that consume its output"),
                 TG_ROW("first", TG_ATTR_INT, 0, 1, 1, 1024, NULL, "least number of steps"),
                 TG_ROW("steps", TG_ATTR_INT, 1, 0, 1, 1024, NULL, "largest number of steps"),
                 TG_ROW("loops", TG_ATTR_FLAG, 0, 0, 0, 1, NULL, "every node also has an edge to itself"),
                 TG_ROW("form", TG_ATTR_CHOICE, 0, 0, 0, 0, "return|arriving",
                        "the chance to be back where the walk began; or, for k >= 2, the chance mass that "
                        "arrives from all "
                        "other nodes (third place of the Kaggle competition)")),
    .flags = TG_STEP_CHANGES,
    .plan = plan,
    .outline = outline,
    .apply = apply,
};
