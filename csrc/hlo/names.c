#include "hlo/hlo.h"

/* Name of an instruction and, in its metadata, of the operation that it comes from. */
static tg_status read_names(tg_hlo_reader *r, tg_wire w, tg_wire names[2]) {
    static const tg_fields known = {[1] = TG_CONTENT, [7] = TG_CONTENT}, of_metadata = {[2] = TG_CONTENT};
    tg_wire_field f, inner;
    int more, within = 0;
    names[0] = names[1] = (tg_wire){w.at, w.at};
    while (within == 0 && (more = tg_hlo_next(r, &w, known, &f)) > 0) {
        if (f.number == 1) names[0] = f.bytes;
        if (f.number != 7) continue;
        r->part = "metadata";
        while ((within = tg_hlo_next(r, &f.bytes, of_metadata, &inner)) > 0) names[1] = inner.bytes;
        if (within == 0) r->part = NULL;
    }
    return within < 0 || more < 0 ? TG_E_DATA : TG_OK;
}

tg_status tg_hlo_names(tg_hlo *hlo, const tg_hlo_graph *graph, tg_wire (*names)[2]) {
    static const tg_fields instructions = {[2] = TG_CONTENT};
    tg_hlo_reader *r = &hlo->reader;
    tg_status status = TG_OK;
    for (int64_t place = 0; place < graph->computations && status == TG_OK; place++) {
        const tg_computation *c = &graph->list[place];
        tg_wire w = c->message;
        tg_wire_field f;
        r->computation = place;
        for (r->instruction = 0; status == TG_OK && tg_hlo_next(r, &w, instructions, &f) > 0;) {
            if (r->instruction == c->count) return tg_hlo_changed(r, f.tag);
            status = read_names(r, f.bytes, names[c->first + r->instruction]);
            if (status == TG_OK) r->instruction++, status = tg_hlo_progress(r, w.at);
        }
        if (status == TG_OK && r->instruction < c->count) status = tg_hlo_changed(r, w.at);
    }
    if (status == TG_OK) r->computation = r->instruction = -1;
    return status;
}
