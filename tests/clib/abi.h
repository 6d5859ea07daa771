/* include/tpugraphs.h as programs were compiled with that must go on: version 1. Add to its end what is added there; change nothing. */
#ifndef TG_TPUGRAPHS_H
#define TG_TPUGRAPHS_H
#include <stddef.h>
#include <stdint.h>
#define TG_ABI_VERSION 1
#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif
#ifdef __cplusplus
extern "C" {
#endif
#ifndef TG_STATUS_CODES
#define TG_STATUS_CODES
typedef enum tg_status {
    TG_OK = 0,
    TG_E_DATA,
    TG_E_CONFIG,
    TG_E_RECIPE,
    TG_E_SHAPE,
    TG_E_CHECKPOINT,
    TG_E_IO,
    TG_E_MEMORY,
    TG_E_CANCELLED,
    TG_E_NOT_FINITE,
    TG_E_BUSY
} tg_status;
#endif
TG_API const char *tg_status_string(int status);
TG_API uint32_t tg_abi_version(void);
typedef struct tg_message {
    uint32_t size;
    int32_t status;
    char text[704];
} tg_message;
#define TG_MESSAGE {sizeof(tg_message), 0, {0}}
typedef struct tg_options {
    uint32_t size;
    int32_t threads;
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *block);
    void *memory_context;
    void (*execute)(void *context, void (*task)(void *argument, int32_t i), void *argument, int32_t count);
    void *execute_context;
} tg_options;
typedef struct tg_ranker tg_ranker;
TG_API tg_status tg_ranker_open(const char *path, const tg_options *options, tg_ranker **ranker,
                                tg_message *message);
TG_API tg_status tg_ranker_open_memory(const void *bytes, size_t size, const tg_options *options,
                                       tg_ranker **ranker, tg_message *message);
typedef struct tg_embedded_value {
    uint8_t kind, whole;
    uint16_t zero;
    uint32_t key, key_size, text, text_size;
    uint32_t count, first, next;
    double number;
    int64_t integer;
} tg_embedded_value;
typedef struct tg_embedded_tensor {
    uint32_t name, name_size, kind, dimensions;
    uint64_t rows, columns, offset;
} tg_embedded_tensor;
typedef struct tg_embedded {
    uint32_t size, version, checksum, values, tensors, texts_size;
    const tg_embedded_value *value;
    const tg_embedded_tensor *tensor;
    const char *texts;
    const unsigned char *data;
    uint64_t data_size;
} tg_embedded;
#define TG_EMBEDDED 1
TG_API tg_status tg_ranker_open_embedded(const tg_embedded *embedded, const tg_options *options,
                                         tg_ranker **ranker, tg_message *message);
TG_API void tg_ranker_close(tg_ranker *ranker);
TG_API void tg_ranker_set_threads(tg_ranker *ranker, int32_t threads);
typedef struct tg_graph_arrays {
    uint32_t size;
    int64_t nodes, node_columns, edges, config_nodes, graph_columns;
    const float *node_feat;
    const uint8_t *node_opcode;
    const int64_t *edge_index;
    const int64_t *node_config_ids;
    const float *graph_feat;
} tg_graph_arrays;
typedef struct tg_config_arrays {
    uint32_t size;
    int64_t count, columns;
    const int8_t *digits;
    const float *features;
    int64_t feature_columns;
} tg_config_arrays;
TG_API tg_status tg_ranker_score(tg_ranker *ranker, const tg_graph_arrays *graph,
                                 const tg_config_arrays *configs, float *scores, tg_message *message);
typedef enum tg_group { TG_NODE, TG_GRAPH_WIDE, TG_CONFIG, TG_DIGIT } tg_group;
TG_API int32_t tg_feature_count(const tg_ranker *ranker, tg_group group);
TG_API const char *tg_feature_name(const tg_ranker *ranker, tg_group group, int32_t index);
TG_API int32_t tg_feature_index(const tg_ranker *ranker, tg_group group, const char *name);
TG_API float tg_feature_fill(const tg_ranker *ranker, tg_group group, int32_t index);
TG_API int32_t tg_feature_value(const tg_ranker *ranker, tg_group group, int32_t index, const char *value);
TG_API int32_t tg_opcode_index(const char *name);
typedef struct tg_session tg_session;
TG_API tg_status tg_session_open(tg_ranker *ranker, const tg_graph_arrays *graph, int64_t most,
                                 tg_session **session, tg_message *message);
TG_API tg_status tg_session_score(tg_session *session, const tg_config_arrays *configs, float *scores,
                                  tg_message *message);
TG_API void tg_session_close(tg_session *session);
typedef struct tg_graph_builder tg_graph_builder;
TG_API tg_status tg_builder_open(tg_ranker *ranker, tg_graph_builder **builder, tg_message *message);
TG_API void tg_builder_close(tg_graph_builder *builder);
TG_API void tg_builder_clear(tg_graph_builder *builder);
TG_API tg_status tg_builder_read(tg_graph_builder *builder, const char *path, tg_message *message);
TG_API tg_status tg_builder_read_memory(tg_graph_builder *builder, const void *bytes, size_t size,
                                        tg_message *message);
TG_API tg_status tg_builder_node(tg_graph_builder *builder, int32_t opcode, int configurable, int64_t *node,
                                 tg_message *message);
TG_API tg_status tg_builder_edge(tg_graph_builder *builder, int64_t consumer, int64_t operand,
                                 tg_message *message);
TG_API tg_status tg_builder_config(tg_graph_builder *builder, int64_t like, int64_t *config,
                                   tg_message *message);
TG_API tg_status tg_builder_remove(tg_graph_builder *builder, int64_t config, tg_message *message);
TG_API int64_t tg_builder_count(const tg_graph_builder *builder);
TG_API tg_status tg_builder_set(tg_graph_builder *builder, tg_group group, int64_t row, int32_t feature,
                                double value, tg_message *message);
TG_API tg_status tg_builder_digit(tg_graph_builder *builder, int64_t config, int64_t node, int32_t digit,
                                  int32_t value, tg_message *message);
TG_API float *tg_builder_row(tg_graph_builder *builder, tg_group group, int64_t row);
TG_API tg_status tg_builder_score(tg_graph_builder *builder, float *scores, tg_message *message);
TG_API tg_status tg_builder_arrays(const tg_graph_builder *builder, tg_graph_arrays *graph,
                                   tg_config_arrays *configs, tg_message *message);
TG_API tg_status tg_best(const float *scores, int64_t count, int64_t k, int64_t *best, tg_message *message);
TG_API tg_status tg_ranker_choose(tg_ranker *ranker, const tg_graph_arrays *graph,
                                  const tg_config_arrays *configs, int64_t k, int64_t *best,
                                  tg_message *message);
TG_API int64_t tg_decide(const float *scores, int64_t count, int64_t standard, double margin);
#define TG_DEVIATIONS 6
typedef struct tg_report {
    uint32_t size;
    int32_t columns;
    int32_t outside;
    int32_t group, column;
    double farthest;
    double distance;
} tg_report;
TG_API tg_status tg_ranker_report(const tg_ranker *ranker, const tg_graph_arrays *graph,
                                  const tg_config_arrays *configs, tg_report *report, tg_message *message);
#ifdef __cplusplus
}
#endif
#endif
