#include "features/colnames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char tg_node_names[] =
    "is_root zero "
    "element_type_[invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 tuple opaque token] "
    "shape_dimension_[6 sum product] tuple_shapes parameter_number dimensions_[6] "
    "window_size_[6 sum product] window_stride_[6 sum product] "
    "window_padding_low_[6 sum product] window_padding_high_[6 sum product] "
    "window_window_dilation_[6 sum product] window_base_dilation_[6 sum product] "
    "window_reversal_[6 true_count false_count] "
    "conv_input_batch conv_input_feature conv_input_spatial_[4] "
    "conv_kernel_input_feature conv_kernel_output_feature conv_kernel_spatial_[4] "
    "conv_output_batch conv_output_feature feature_group_count batch_group_count "
    "slice_start_[2 sum product] slice_stride_[2 sum product] slice_limit_[2 sum product] "
    "dynamic_slice_size_[2 sum product] pad_low_[2 sum product] pad_high_[2 sum product] "
    "is_stable layout_minor_to_major_[6]";
const char tg_digit_names[] = "output_[6] input_[6] kernel_[6]";
const char tg_tile_names[] =
    "kernel_bounds_[6 sum product] output_bounds_[6 sum product] input_bounds_[6 sum product]";

/* A number of ends, which are 0, 1 ..., or one end. */
static int count_of(const char *end) { return *end >= '0' && *end <= '9' ? atoi(end) : 0; }

int tg_spell(tg_spelling *s, char *to, size_t size) {
    if (*s->at == 0) return 0;
    const int stem = (int)strcspn(s->at, "[ ");
    const char *end = s->at + stem;
    if (*end != '[') {
        snprintf(to, size, "%.*s", stem, s->at);
        s->at = end + strspn(end, " ");
        return 1;
    }
    int number = s->end++, last = 0;
    for (end++;; end += strcspn(end, " ]") + 1) {
        const int count = count_of(end), length = (int)strcspn(end, " ]");
        last = end[length] == ']' && number + 1 >= (count > 0 ? count : 1);
        if (count > number) snprintf(to, size, "%.*s%d", stem, s->at, number);
        else if (count == 0 && number == 0) snprintf(to, size, "%.*s%.*s", stem, s->at, length, end);
        if (count > number || (count == 0 && number == 0)) break;
        number -= count > 0 ? count : 1;
    }
    if (last) {
        s->at = strchr(end, ']') + 1;
        s->at += strspn(s->at, " ");
        s->end = 0;
    }
    return 1;
}
