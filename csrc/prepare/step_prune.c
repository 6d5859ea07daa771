/* Steps that choose: nodes (prune), and configs (dedup, which whoever holds the runtimes carries out). */
#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

enum { METHOD, HOPS, NEIGHBOURS };

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    if (before->changed[TG_TABLE_NODE] || before->has_layout || before->has_loops)
        return tg_step_wrong(use, err, "to come before every step that reads the nodes or adds edges");
    return TG_OK;
}

static tg_status inspect(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    if (use->attr[METHOD] == 0 || graph->K > 0 || !(tables & 1u << TG_TABLE_NODE)) return TG_OK;
    return tg_fail_field(err, "node_config_ids", "at least one configurable node, to prune around", "none");
}

static tg_status gather(tg_draft *d, const tg_pruned *kept, tg_error *err) {
    const tg_stored *s = d->from;
    float *feat = tg_draft_room(kept->N, s->F, err);
    if (feat == NULL) return err->code;
    for (int64_t n = 0; n < kept->N; n++) {
        const int64_t from = kept->nodes[n];
        const int made = from < 0 || from >= s->N;
        if (made) memset(feat + n * s->F, 0, (size_t)s->F * sizeof *feat);
        else memcpy(feat + n * s->F, s->node_feat + from * s->F, (size_t)s->F * sizeof *feat);
        if (d->opcode != NULL) d->opcode[n] = made ? 0 : s->opcode[from];
    }
    d->table[TG_TABLE_NODE].rows = d->N = kept->N;
    d->E = kept->E;
    d->nodes = kept->nodes;
    d->edges = kept->edge_index;
    d->config_nodes = kept->config_nodes;
    return tg_draft_replace(d, TG_TABLE_NODE, TG_OK, feat, (int)s->F, 0);
}

/* Prunes the whole graph; config_nodes is nobody else's to change. */
static tg_status prune(const tg_use *use, const tg_draft *d, const int64_t *edges,
                       const int64_t *config_nodes, tg_pruned *pruned, tg_error *err) {
    char method[32];
    tg_attr_word(use->step->attrs[METHOD].choices, (int)use->attr[METHOD], method, sizeof method);
    const tg_prune_input in = {d->whole_N,
                               d->whole_E,
                               d->K,
                               edges,
                               config_nodes,
                               (int64_t)use->attr[HOPS],
                               use->attr[NEIGHBOURS] == 1};
    return tg_prune(pruned, method, &in, err);
}

/* Prunes the stored graph, unless an earlier call did. */
static tg_status prune_stored(const tg_use *use, tg_draft *d, tg_error *err) {
    const tg_stored *s = d->from;
    if (d->kept->made) return TG_OK;
    int64_t *nodes = malloc((size_t)(s->K + 1) * sizeof *nodes);
    if (nodes == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to prune %lld nodes", (long long)s->K);
    memcpy(nodes, s->config_nodes, (size_t)s->K * sizeof *nodes);
    const tg_status status = prune(use, d, s->edges, nodes, &d->kept->pruned, err);
    free(nodes);
    if (status != TG_OK) return status;
    d->kept->made = 1;
    d->kept->of = tg_structure_of(s);
    d->checks++;
    d->prunes++;
    return TG_OK;
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    if (use->attr[METHOD] == 0 || !tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const int stored = d->whole_N == d->from->N;
    tg_status status =
        stored ? prune_stored(use, d, err) : prune(use, d, d->edges, d->config_nodes, &d->pruned, err);
    d->prunes += !stored;
    return status == TG_OK ? gather(d, stored ? &d->kept->pruned : &d->pruned, err) : status;
}

const tg_prepare_step tg_step_prune = {
    .name = "prune",
    .doc = "Keep the part of the graph around its configurable nodes.",
    .attrs =
        TG_ATTRS(TG_ROW("method", TG_ATTR_CHOICE, 1, 0, 0, 0,
                        "none|config-1hop|config-only|k-hop|consumers|shortest-path|meta|merge",
                        "what stays, see tpugraphs.prune"),
                 TG_ROW("hops", TG_ATTR_INT, 0, 2, 1, 1e9, NULL, "of k-hop and consumers"),
                 TG_ROW("neighbours", TG_ATTR_CHOICE, 0, 0, 0, 0, "kept|dummies",
                        "merge: nodes next to a configurable one keep their features, or are new nodes too")),
    .flags = TG_STEP_SELECTS,
    .plan = plan,
    .inspect = inspect,
    .apply = apply,
};

const tg_prepare_step tg_step_dedup = {
    .name = "dedup",
    .doc = "Keep one copy of each config.",
    .attrs = TG_ATTRS(TG_ROW("keep", TG_ATTR_CHOICE, 1, 0, 0, 0, "none|first|min|mean",
                             "which runtime a config gets, see tpugraphs.dedup")),
    .flags = TG_STEP_TRAINING,
};
