/* The fused computations of an optimised program, each as a module: it is the entry, next to what it calls. */
#ifndef TG_FUSIONS_H
#define TG_FUSIONS_H

#include "hlo/hlo.h"

typedef struct tg_hlo_fusions {
    tg_ids calls;   /* places of what each computation calls, one computation after the other */
    int64_t *first; /* (computations + 1): where those of a computation begin */
    tg_ids fused;   /* places, in the order of the instructions that they are the content of */
    int64_t *seen;  /* (computations): the last fusion that has it, from 1 on */
    int64_t next;   /* in `fused` */
} tg_hlo_fusions;

/* Look for them in a program that was measured. To be freed, also after an error. */
tg_status tg_hlo_find_fusions(tg_hlo *hlo, const tg_hlo_graph *graph, tg_hlo_fusions *fusions);

/* Measure the next one, named as its computation; *more = 0 behind the last one. `fusion` is to be freed, also after an
   error. */
tg_status tg_hlo_next_fusion(tg_hlo *hlo, const tg_hlo_graph *graph, tg_hlo_fusions *fusions,
                             tg_hlo_graph *fusion, int *more);

void tg_hlo_free_fusions(tg_hlo_fusions *fusions);

#endif
