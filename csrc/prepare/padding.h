/* How lists in the published node features are padded. */
#ifndef TG_PADDING_H
#define TG_PADDING_H

#include <stdint.h>

/* -1 if any entry of the lists (columns 31-36, 95-98, 101-104) of node_feat (N,140), whose rows are ld apart, is negative, else 0: no list is as
   long as its columns in every node of a graph. */
int tg_list_padding(const float *node_feat, int64_t ld, int64_t N);

#endif
