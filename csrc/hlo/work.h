/* The work of an optimised program in numbers. Which options of a compiler matter depends on what they can
   change: products that a library computes, sums in a fused loop, copies between them. So elements are counted per kind
   of work: within library calls, within fused loops and outside of both, times how often loops run them. */
#ifndef TG_WORK_H
#define TG_WORK_H

#include "hlo/hlo.h"

enum { TG_WORK_COUNTS = 14, TG_WORK_KINDS = 14, TG_WORK_COLUMNS = TG_WORK_COUNTS + 3 * TG_WORK_KINDS };

/* Write the name of a column, such as "kernels" or "fused reduce". */
void tg_hlo_work_name(int column, char *name, size_t size);

/* Bytes of memory that counting takes, apart from some multiple of the largest computation. */
int64_t tg_hlo_work_bytes(const tg_hlo_graph *graph);

/* work(TG_WORK_COLUMNS) of a program that was measured: finite and at least 0. Of a conditional all branches count; a
   loop of an unknown number of runs counts as ten. Computations stand before those that call them, as XLA writes them. */
tg_status tg_hlo_work(tg_hlo *hlo, const tg_hlo_graph *graph, float *work);

#endif
