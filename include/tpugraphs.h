/* libtpugraphs: rankers inside a compiler, without Python. Scores are the bits that Ranker.predict gives on the same
   machine, for any number of threads; smaller = predicted faster.

       tg_ranker *ranker;
       tg_message message = TG_MESSAGE;
       if (tg_ranker_open("ranker.tgr", NULL, &ranker, &message) != TG_OK) return report(message.text);
       if (tg_ranker_score(ranker, &graph, &configs, scores, &message) != TG_OK) report(message.text);
       tg_ranker_close(ranker);

   C99 and C++. Nothing here prints, ends the process, or keeps state beyond its objects. Every function with a tg_message
   returns a status and, if that is not TG_OK, writes one line for people; the message may be NULL. Any number of threads
   may use one ranker; a session or builder belongs to one thread at a time. Structs begin with their size in bytes, as
   the caller was compiled: later versions append fields, and take 0 for those that an older caller does not have.
   docs/c-library.md has the promises. */
#ifndef TG_TPUGRAPHS_H
#define TG_TPUGRAPHS_H

#include <stddef.h>
#include <stdint.h>

#define TG_ABI_VERSION 1 /* of this header */

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
    TG_E_DATA,       /* an array or a number is not what it must be */
    TG_E_CONFIG,     /* options that do not go together */
    TG_E_RECIPE,     /* a model description that cannot be built */
    TG_E_SHAPE,      /* an array of another size */
    TG_E_CHECKPOINT, /* the file is damaged, or not a ranker that C can score with */
    TG_E_IO,         /* a file cannot be opened or read */
    TG_E_MEMORY,     /* no memory */
    TG_E_CANCELLED,  /* stopped on demand */
    TG_E_NOT_FINITE, /* scores that overflowed or are NaN */
    TG_E_BUSY        /* the object is in use by another thread */
} tg_status;
#endif

/* A constant English sentence; also for numbers that are no status. */
TG_API const char *tg_status_string(int status);

/* Of the library that runs: TG_ABI_VERSION when it was compiled. */
TG_API uint32_t tg_abi_version(void);

/* What went wrong, and what to do about it: one line, NUL-terminated, cut off at what `size` has room for. */
typedef struct tg_message {
    uint32_t size;
    int32_t status; /* a tg_status */
    char text[704];
} tg_message;
#define TG_MESSAGE {sizeof(tg_message), 0, {0}}

/* ---- rankers ---- */

/* How a ranker works. NULL or zeros: with malloc, on the calling thread alone. */
typedef struct tg_options {
    uint32_t size;
    int32_t threads; /* of one call, at most; 0: one */
    /* Memory of the ranker and of everything made from it, aligned as by malloc; both or neither. `allocate` may return
       NULL, which is reported as TG_E_MEMORY. They are called by the threads that call the library. */
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *block);
    void *memory_context;
    /* The host's threads instead of the library's, or NULL: call task(argument, i) once for each i in 0..count-1, in any
       order, on any threads, and return when all have returned. count <= threads. */
    void (*execute)(void *context, void (*task)(void *argument, int32_t i), void *argument, int32_t count);
    void *execute_context;
} tg_options;

typedef struct tg_ranker tg_ranker;

/* Open a file that Ranker.save wrote, or its bytes, which are not needed afterwards. `*ranker` is NULL after an error. */
TG_API tg_status tg_ranker_open(const char *path, const tg_options *options, tg_ranker **ranker,
                                tg_message *message);
TG_API tg_status tg_ranker_open_memory(const void *bytes, size_t size, const tg_options *options,
                                       tg_ranker **ranker, tg_message *message);

/* A ranker as static data, which `tpugraphs embed` writes: nothing is parsed, and a checksum says whether it is whole. Its
   fields are for that program alone. */
typedef struct tg_embedded_value {
    uint8_t kind, whole; /* a JSON value, and whether it is the number `integer` */
    uint16_t zero;
    uint32_t key, key_size, text, text_size; /* places in the texts */
    uint32_t count, first, next;             /* of values, or 0 */
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
    const tg_embedded_tensor *tensor; /* by name */
    const char *texts;
    const unsigned char *data;
    uint64_t data_size;
} tg_embedded;
#define TG_EMBEDDED 1 /* its version */
TG_API tg_status tg_ranker_open_embedded(const tg_embedded *embedded, const tg_options *options,
                                         tg_ranker **ranker, tg_message *message);

/* NULL is fine. Sessions and builders keep what they need of it. */
TG_API void tg_ranker_close(tg_ranker *ranker);

/* Threads of one call that starts from now on, at most; below 1: one. Sessions keep what they began with. */
TG_API void tg_ranker_set_threads(tg_ranker *ranker, int32_t threads);

/* ---- graphs as arrays ---- */

/* A graph: borrowed arrays, row-major. */
typedef struct tg_graph_arrays {
    uint32_t size;
    int64_t nodes, node_columns, edges, config_nodes, graph_columns;
    const float *node_feat;         /* (nodes, node_columns) */
    const uint8_t *node_opcode;     /* (nodes), or NULL */
    const int64_t *edge_index;      /* (edges, 2): consumer, operand */
    const int64_t *node_config_ids; /* (config_nodes): nodes that can be configured */
    const float *graph_feat;        /* (graph_columns), or NULL without */
} tg_graph_arrays;

/* Configs of a graph: digits of its configurable nodes, features of whole configs, or both. Absent arrays are NULL. */
typedef struct tg_config_arrays {
    uint32_t size;
    int64_t count, columns;
    const int8_t *digits;    /* (count, config_nodes, columns) */
    const float *features;   /* (count, columns); with digits (count, feature_columns) */
    int64_t feature_columns; /* if there are digits, too */
} tg_config_arrays;

/* scores (configs->count). Every index and number that the ranker reads is checked. With attention across configs, or
   trees that compare configs, a score depends on the other configs of the call, as in Ranker.predict. */
TG_API tg_status tg_ranker_score(tg_ranker *ranker, const tg_graph_arrays *graph,
                                 const tg_config_arrays *configs, float *scores, tg_message *message);

/* ---- features by name ---- */

/* Columns of nodes, of the graph, of whole configs, and digits of the configurable nodes. */
typedef enum tg_group { TG_NODE, TG_GRAPH_WIDE, TG_CONFIG, TG_DIGIT } tg_group;

/* How many the ranker learnt from; the name of one, which lives as long as the ranker, or NULL. */
TG_API int32_t tg_feature_count(const tg_ranker *ranker, tg_group group);
TG_API const char *tg_feature_name(const tg_ranker *ranker, tg_group group, int32_t index);

/* The index of a name, to be asked for once; -1 if this ranker does not know it, which every function of a builder takes
   and ignores, so that an old ranker serves a newer compiler. */
TG_API int32_t tg_feature_index(const tg_ranker *ranker, tg_group group, const char *name);

/* What stands for the feature where none is set: its mean over the training graphs, the commonest value of a category, -1 of
   a digit; 0 where the file does not keep it. */
TG_API float tg_feature_fill(const tg_ranker *ranker, tg_group group, int32_t index);

/* The number that a value of a category is stored as; -1 if this ranker does not know it. */
TG_API int32_t tg_feature_value(const tg_ranker *ranker, tg_group group, int32_t index, const char *value);

/* The number of an opcode of HLO ("add", "dot" ...) in published graphs; 0 for every other name. */
TG_API int32_t tg_opcode_index(const char *name);

/* ---- sessions: one graph, many configs ---- */

typedef struct tg_session tg_session;

/* Prepare a graph, copy what is needed of it, and take all memory that scoring of up to `most` configs at a time needs:
   tg_session_score allocates nothing. `*session` is NULL after an error. */
TG_API tg_status tg_session_open(tg_ranker *ranker, const tg_graph_arrays *graph, int64_t most,
                                 tg_session **session, tg_message *message);
TG_API tg_status tg_session_score(tg_session *session, const tg_config_arrays *configs, float *scores,
                                  tg_message *message);
TG_API void tg_session_close(tg_session *session); /* NULL is fine */

/* ---- graphs, node by node ---- */

/* A graph with configs that grows, and is scored again after every change. Features that are not set are filled, see
   tg_feature_fill; a feature of index -1 is ignored. Nodes come before configs. */
typedef struct tg_graph_builder tg_graph_builder;

TG_API tg_status tg_builder_open(tg_ranker *ranker, tg_graph_builder **builder, tg_message *message);
TG_API void tg_builder_close(tg_graph_builder *builder); /* NULL is fine */

/* Without nodes and configs; memory is kept. */
TG_API void tg_builder_clear(tg_graph_builder *builder);

/* In place of what the builder holds: the graph of a file, and its configs if the ranker has such columns. The file is an
   .npz or a pack, as tg.load and tg.Graph.save know them, or HLO as a protocol buffer (an HloModuleProto or HloProto,
   or a ModuleTuningData), whose nodes have the published features. */
TG_API tg_status tg_builder_read(tg_graph_builder *builder, const char *path, tg_message *message);
TG_API tg_status tg_builder_read_memory(tg_graph_builder *builder, const void *bytes, size_t size,
                                        tg_message *message);

/* Add a node, 0, 1 ...; `node` may be NULL. `configurable` counts for rankers with digits alone. */
TG_API tg_status tg_builder_node(tg_graph_builder *builder, int32_t opcode, int configurable, int64_t *node,
                                 tg_message *message);
TG_API tg_status tg_builder_edge(tg_graph_builder *builder, int64_t consumer, int64_t operand,
                                 tg_message *message);

/* Add a config, numbered as it is scored, like another or, with -1, with nothing set; `config` may be NULL. */
TG_API tg_status tg_builder_config(tg_graph_builder *builder, int64_t like, int64_t *config,
                                   tg_message *message);
/* Remove a config: the last one takes its number. */
TG_API tg_status tg_builder_remove(tg_graph_builder *builder, int64_t config, tg_message *message);
TG_API int64_t tg_builder_count(const tg_graph_builder *builder); /* configs */

/* Set a feature of node, graph (`row` is 0) or config number `row`. */
TG_API tg_status tg_builder_set(tg_graph_builder *builder, tg_group group, int64_t row, int32_t feature,
                                double value, tg_message *message);
/* Set a digit of a configurable node. */
TG_API tg_status tg_builder_digit(tg_graph_builder *builder, int64_t config, int64_t node, int32_t digit,
                                  int32_t value, tg_message *message);

/* All features of node, graph or config number `row`, to be written in place; until the next call that adds, or NULL. What
   is written to nodes and graph counts from the next tg_builder_row, tg_builder_set or added node on. */
TG_API float *tg_builder_row(tg_graph_builder *builder, tg_group group, int64_t row);

/* scores (tg_builder_count), as of tg_ranker_score. The graph is prepared again only if it has changed; if no more configs
   than before are scored then, nothing is allocated. */
TG_API tg_status tg_builder_score(tg_graph_builder *builder, float *scores, tg_message *message);

/* The graph and configs as arrays, valid until the next change; give both structs their size. */
TG_API tg_status tg_builder_arrays(const tg_graph_builder *builder, tg_graph_arrays *graph,
                                   tg_config_arrays *configs, tg_message *message);

/* ---- choices ---- */

/* best (k): the numbers of the k configs of least score, best first; equal ones in their order. k <= count. */
TG_API tg_status tg_best(const float *scores, int64_t count, int64_t k, int64_t *best, tg_message *message);

/* Of configs that are scored now, those to measure if only the fastest will be kept: the same, but for Gaussian processes
   those that do best together, as the best alone are often alike. */
TG_API tg_status tg_ranker_choose(tg_ranker *ranker, const tg_graph_arrays *graph,
                                  const tg_config_arrays *configs, int64_t k, int64_t *best,
                                  tg_message *message);

/* The config of least score if it is more than `margin` better than `standard`, in units of the scores; else `standard`, as
   also for scores that are not numbers, and if `standard` is not one of the configs. */
TG_API int64_t tg_decide(const float *scores, int64_t count, int64_t standard, double margin);

/* How far a graph and its configs lie outside of what the ranker has learnt from. A column is outside if one of its values
   is more than TG_DEVIATIONS standard deviations from the mean in training, if it was constant there and differs, or
   if it is a category that did not occur. */
#define TG_DEVIATIONS 6
typedef struct tg_report {
    uint32_t size;
    int32_t columns;       /* that were looked at; 0: the file keeps nothing about training */
    int32_t outside;       /* of them */
    int32_t group, column; /* of the farthest value: a tg_group, or -1 */
    double farthest;       /* its standard deviations from the mean; infinite for a constant or a category */
    double distance;       /* root mean square of the deviations in columns that vary: about 1 in training */
} tg_report;

/* Fills the report, whose size is set. configs NULL: of the graph alone. */
TG_API tg_status tg_ranker_report(const tg_ranker *ranker, const tg_graph_arrays *graph,
                                  const tg_config_arrays *configs, tg_report *report, tg_message *message);

#ifdef __cplusplus
}
#endif

#endif
