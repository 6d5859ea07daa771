#include "hlo/hlo.h"

#include <stdlib.h>

tg_status tg_hlo_open(tg_hlo *hlo, tg_wire file, const tg_source *mapped, int padding, tg_cancel *cancel,
                      tg_error *err) {
    hlo->reader = tg_hlo_reader_of(file, err);
    hlo->reader.mapped = mapped;
    hlo->reader.cancel = cancel;
    hlo->rest = file;
    tg_featurizer_fill(&hlo->featurizer, padding);
    return tg_hlo_recognise(file, &hlo->kind, err);
}

/* The one module of a message that has it in field 1. */
static tg_status find_module(const tg_hlo_reader *r, tg_wire message, tg_wire *module) {
    const uint8_t *start = message.at;
    tg_wire_field f;
    int more;
    module->at = NULL;
    while ((more = tg_hlo_next(r, &message, tg_content_of_1, &f)) > 0) {
        if (module->at != NULL)
            return tg_hlo_bad(r, f.tag, "one module in field 1", TG_HLO_DAMAGED, "a second one");
        *module = f.bytes;
    }
    if (more < 0) return TG_E_DATA;
    if (module->at == NULL) return tg_hlo_bad(r, start, "a module in field 1", TG_HLO_DAMAGED, "none");
    return TG_OK;
}

tg_status tg_hlo_next_graph(tg_hlo *hlo, tg_hlo_graph *graph, int *more) {
    tg_hlo_reader *r = &hlo->reader;
    tg_status status = TG_OK;
    *graph = (tg_hlo_graph){.most_edges = INT64_MAX};
    tg_wire message = hlo->rest;
    *more = message.at != message.end;
    if (hlo->kind == TG_HLO_TUNING) {
        tg_wire_field f;
        *more = tg_hlo_next(r, &hlo->rest, tg_content_of_1, &f);
        if (*more < 0) return TG_E_DATA;
        message = f.bytes;
        r->module++;
    } else {
        hlo->rest.at = hlo->rest.end;
    }
    if (!*more) return TG_OK;
    if (hlo->kind == TG_HLO_MODULE) graph->module = message;
    else status = find_module(r, message, &graph->module);
    if (hlo->kind == TG_HLO_MODULE_TUNING || hlo->kind == TG_HLO_TUNING) graph->tuning = message;
    if (status == TG_OK) status = tg_hlo_measure_module(r, graph);
    return status == TG_OK ? tg_hlo_measure_runs(r, graph) : status;
}

tg_status tg_hlo_read(tg_hlo *hlo, tg_hlo_graph *graph) {
    const tg_status status = tg_hlo_read_module(&hlo->reader, &hlo->featurizer, graph);
    return status == TG_OK ? tg_hlo_read_runs(&hlo->reader, graph) : status;
}

void tg_hlo_free_graph(tg_hlo_graph *graph) {
    free(graph->list);
    tg_ids_free(&graph->edges);
    graph->list = NULL;
}
