#include "hlo/fusions.h"

#include <stdlib.h>
#include <string.h>

static tg_status no_memory(const tg_hlo *hlo) {
    return tg_fail(hlo->reader.err, TG_E_MEMORY, "no memory for the fusions of a module");
}

/* Add the ids of what an instruction calls; whether it is a fusion. */
static tg_status read_calls(const tg_hlo_reader *r, tg_wire w, tg_ids *calls, int *is_fusion) {
    static const tg_fields known = {[2] = TG_CONTENT, [38] = TG_NUMBERS};
    static const char name[] = {'f', 'u', 's', 'i', 'o', 'n'};
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    *is_fusion = 0;
    while (status == TG_OK && (more = tg_hlo_next(r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        if (f.number == 38) status = tg_hlo_collect(r, calls, &f);
        else
            *is_fusion =
                f.bytes.end - f.bytes.at == sizeof name && memcmp(f.bytes.at, name, sizeof name) == 0;
    }
    return status;
}

/* Add the places of what a computation calls, and of its fusions. */
static tg_status find_calls(tg_hlo_reader *r, const tg_computation *c, const tg_id_map *places,
                            tg_hlo_fusions *fusions) {
    static const tg_fields instructions = {[2] = TG_CONTENT};
    tg_ids *calls = &fusions->calls;
    tg_wire w = c->message;
    tg_wire_field f;
    tg_status status = TG_OK;
    int is_fusion;
    for (r->instruction = 0; status == TG_OK && tg_hlo_next(r, &w, instructions, &f) > 0; r->instruction++) {
        const int64_t before = calls->count;
        status = read_calls(r, f.bytes, calls, &is_fusion);
        for (int64_t i = before; i < calls->count && status == TG_OK; i++) {
            const int64_t id = calls->items[i];
            calls->items[i] = tg_id_map_find(places, id);
            if (calls->items[i] < 0)
                status = tg_hlo_bad(r, f.tag, "calls of computations of this module", TG_HLO_DAMAGED,
                                    "computation id %lld in the instruction", (long long)id);
        }
        if (status == TG_OK && is_fusion && calls->count > before)
            status = tg_ids_add(&fusions->fused, calls->items[before], r->err);
        if (status == TG_OK) status = tg_hlo_progress(r, w.at);
    }
    if (status == TG_OK) r->instruction = -1;
    return status;
}

tg_status tg_hlo_find_fusions(tg_hlo *hlo, const tg_hlo_graph *graph, tg_hlo_fusions *fusions) {
    tg_hlo_reader *r = &hlo->reader;
    tg_id_map places = {0};
    *fusions = (tg_hlo_fusions){.first = malloc(((size_t)graph->computations + 1) * sizeof *fusions->first),
                                .seen = calloc((size_t)graph->computations, sizeof *fusions->seen)};
    if (fusions->first == NULL || fusions->seen == NULL) return no_memory(hlo);
    tg_status status = tg_hlo_find_places(r, graph, &places);
    for (int64_t place = 0; place < graph->computations && status == TG_OK; place++) {
        r->computation = place;
        fusions->first[place] = fusions->calls.count;
        status = find_calls(r, &graph->list[place], &places, fusions);
    }
    fusions->first[graph->computations] = fusions->calls.count;
    if (status == TG_OK) r->computation = -1;
    tg_id_map_free(&places);
    return status;
}

/* Add the place of a computation to those of the fusion that is looked at, unless it is there. */
static tg_status add_place(const tg_hlo *hlo, tg_hlo_fusions *fusions, tg_ids *places, int64_t place) {
    if (fusions->seen[place] == fusions->next) return TG_OK;
    fusions->seen[place] = fusions->next;
    return tg_ids_add(places, place, hlo->reader.err);
}

tg_status tg_hlo_next_fusion(tg_hlo *hlo, const tg_hlo_graph *graph, tg_hlo_fusions *fusions,
                             tg_hlo_graph *fusion, int *more) {
    *fusion = (tg_hlo_graph){.module = graph->module, .S = 2, .most_edges = INT64_MAX};
    *more = fusions->next < fusions->fused.count;
    if (!*more) return TG_OK;
    const int64_t entry = fusions->fused.items[fusions->next++];
    tg_ids places = {NULL, 0, 0};
    tg_status status = add_place(hlo, fusions, &places, entry);
    for (int64_t i = 0; i < places.count && status == TG_OK; i++) {
        const int64_t end = fusions->first[places.items[i] + 1];
        for (int64_t j = fusions->first[places.items[i]]; j < end && status == TG_OK; j++)
            status = add_place(hlo, fusions, &places, fusions->calls.items[j]);
    }
    if (status == TG_OK) fusion->list = malloc((size_t)places.count * sizeof *fusion->list);
    if (status == TG_OK && fusion->list == NULL) status = no_memory(hlo);
    places.count = tg_ids_unique(places.items, places.count); /* in the order of the module */
    for (int64_t i = 0; i < places.count && status == TG_OK; i++) {
        tg_computation *c = &fusion->list[fusion->computations++];
        *c = graph->list[places.items[i]];
        c->first = fusion->N;
        fusion->N += c->count, fusion->S += c->splits;
    }
    fusion->name = graph->list[entry].name;
    fusion->entry_id = graph->list[entry].id;
    tg_ids_free(&places);
    return status;
}

void tg_hlo_free_fusions(tg_hlo_fusions *fusions) {
    tg_ids_free(&fusions->calls), tg_ids_free(&fusions->fused);
    free(fusions->first), free(fusions->seen);
}
