/* The op table: one line per op, one file per op. */
#ifndef TG_OP_TABLE_H
#define TG_OP_TABLE_H

#define TG_ALL_OPS(OP)                                                                                       \
    OP(embedding)                                                                                            \
    OP(config_columns)                                                                                       \
    OP(config_linear)                                                                                        \
    OP(layout_columns)                                                                                       \
    OP(linear)                                                                                               \
    OP(sage)                                                                                                 \
    OP(instance_norm)                                                                                        \
    OP(mix)                                                                                                  \
    OP(noise)                                                                                                \
    OP(pool)                                                                                                 \
    OP(add)                                                                                                  \
    OP(concat)                                                                                               \
    OP(take_columns)                                                                                         \
    OP(gate)                                                                                                 \
    OP(affine)                                                                                               \
    OP(dropout)                                                                                              \
    OP(activation)                                                                                           \
    OP(layer_norm)                                                                                           \
    OP(graph_norm)                                                                                           \
    OP(config_norm)                                                                                          \
    OP(l2_normalise)                                                                                         \
    OP(linear_attention)                                                                                     \
    OP(attention)                                                                                            \
    OP(linformer)                                                                                            \
    OP(cell_columns)                                                                                         \
    OP(dimension_tokens)                                                                                     \
    OP(encoder_layer)                                                                                        \
    OP(pool_tokens)                                                                                          \
    OP(gather_unique)                                                                                        \
    OP(take_config_nodes)                                                                                    \
    OP(put_config_nodes)                                                                                     \
    OP(gatv2)                                                                                                \
    OP(drop_edge)                                                                                            \
    OP(edge_mean)                                                                                            \
    OP(propagate)                                                                                            \
    OP(edge_attention)                                                                                       \
    OP(head_dots)                                                                                            \
    OP(edge_ends)                                                                                            \
    OP(edge_pool)                                                                                            \
    OP(outer_pool)
#ifndef TG_OP_LIST /* a library may be compiled with some of them */
#define TG_OP_LIST TG_ALL_OPS
#endif

#endif
