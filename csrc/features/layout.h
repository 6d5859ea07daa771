/* The layout digits of node features. Errors name node and column. */
#ifndef TG_LAYOUT_H
#define TG_LAYOUT_H

#include <stdint.h>

#include "base/status.h"

/* digits (N,6) from columns 134-139 of node_feat (N,140), whose rows are ld apart. With padding -1, positions at or past
   the rank (number of non-zero shape dimensions, columns 21-26) become -1; with padding 0 every column stays as it is. Of
   these, digits below `least` become -1, too. */
tg_status tg_layout_digits(int8_t *digits, const float *node_feat, int64_t ld, int64_t N, int padding,
                           int least, tg_error *err);

#endif
