/* The graph is scored in segments: model/segment.h cuts it when all steps are through. */
#include "prepare/program.h"

enum { NODES };

int64_t tg_program_segment(const tg_program *program) {
    for (int i = 0; i < program->n; i++)
        if (program->use[i].step == &tg_step_segments) return (int64_t)program->use[i].attr[NODES];
    return 0;
}

const tg_prepare_step tg_step_segments = {
    .name = "segments",
    .doc = "Cut the graph into ranges of nodes: a model scores each by itself, and the scores add up.",
    .attrs = TG_ATTRS(TG_ROW("nodes", TG_ATTR_INT, 1, 0, 1, 1 << 30, NULL, "of a segment, at most")),
    .flags = TG_STEP_CUTS,
};
