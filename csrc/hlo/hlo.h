/* HLO programs out of protocol buffers, with their measurements if they have any: features, opcodes, edges and configs
   as the extractor of TpuGraphs makes them, bit for bit. A file is an xla.HloModuleProto, an xla.HloProto, a
   tpu_graphs.ModuleTuningData or a tpu_graphs.TuningData (several programs, "modules" below). It is read where it is
   mapped; only the result takes memory. */
#ifndef TG_HLO_H
#define TG_HLO_H

#include "hlo/instruction.h"
#include "io/source.h"

typedef enum tg_hlo_kind { TG_HLO_MODULE, TG_HLO_PROTO, TG_HLO_MODULE_TUNING, TG_HLO_TUNING } tg_hlo_kind;

/* "HloModuleProto" and so on. */
const char *tg_hlo_kind_name(tg_hlo_kind kind);

/* Which of the four the file is, by what is in it; a TG_E_DATA says what was found if it is none. */
tg_status tg_hlo_recognise(tg_wire file, tg_hlo_kind *kind, tg_error *err);

typedef struct tg_hlo {
    tg_hlo_reader reader;
    tg_featurizer featurizer;
    tg_hlo_kind kind;
    tg_wire rest; /* of the file, behind the modules that were found */
} tg_hlo;

/* The header of a computation. */
typedef struct tg_computation {
    tg_wire message, name; /* the name is not checked to be UTF-8 */
    int64_t id, root_id;
    int64_t first, count; /* nodes */
    int64_t root;         /* node, once they are read */
    int splits;           /* whether node_splits has its end */
} tg_computation;

/* One module: where it is, its sizes, and the arrays that the caller makes by these. */
typedef struct tg_hlo_graph {
    tg_wire module, tuning;  /* messages; `tuning` is empty if there is none */
    tg_wire name;            /* of the module, not checked to be UTF-8 */
    int64_t N, computations; /* at least 1 */
    tg_computation *list;    /* (computations) */
    int64_t entry_id;        /* of a computation */
    int is_dynamic;
    int64_t S;            /* entries of node_splits */
    int64_t K, C;         /* configurable nodes; runs that are kept */
    int64_t runs;         /* in the file */
    int tile;             /* whether runs have tile sizes, not layouts */
    const char *unusable; /* why no run is kept though there are some, or NULL */

    float *node_feat;             /* (N,140) */
    uint8_t *node_opcode;         /* (N) */
    float *extra;                 /* (N,TG_EXTRA_FEATURES), or NULL: not wanted */
    int64_t *instruction_ids;     /* (N) */
    int64_t *computation_sizes;   /* (computations): nodes */
    int64_t *node_splits;         /* (S) */
    int64_t *node_config_ids;     /* (K) */
    int8_t *node_config_feat;     /* (C,K,18), if not `tile` */
    float *config_feat;           /* (C,24), if `tile` */
    int64_t *config_runtime;      /* (C): ns */
    int64_t *runtime_normalizers; /* (C): ns of the default config */

    tg_ids edges;       /* made by the reader: u, v of every edge; u uses v */
    int64_t most_edges; /* more are refused; at first there is no limit */
} tg_hlo_graph;

/* Over a file in memory, which must stay there. Of a mapped one (or else NULL) memory is given back as it is read.
   `padding`: see tg_featurizer_fill. */
tg_status tg_hlo_open(tg_hlo *hlo, tg_wire file, const tg_source *mapped, int padding, tg_cancel *cancel,
                      tg_error *err);

/* Find and measure the next module; *more = 0 behind the last one. `graph` is to be freed, also after an error. */
tg_status tg_hlo_next_graph(tg_hlo *hlo, tg_hlo_graph *graph, int *more);

/* Fill the arrays and `edges`. These are in the extractor's order: by u; operands of u by their id, then the roots of
   what it calls. */
tg_status tg_hlo_read(tg_hlo *hlo, tg_hlo_graph *graph);

/* names(N,2): of every instruction, and of the operation of the source that it comes from (op_name of its metadata), not
   checked to be UTF-8; empty where there is none. They lie in the file. */
tg_status tg_hlo_names(tg_hlo *hlo, const tg_hlo_graph *graph, tg_wire (*names)[2]);

/* Free what the reader has made, not the caller's arrays. */
void tg_hlo_free_graph(tg_hlo_graph *graph);

/* Sort edges by (u,v), and drop all but one of equal ones: a computation that is called twice. */
void tg_hlo_sort_edges(tg_ids *edges);

/* Parts of the above: sizes, then contents, of programs and of their runs. */
tg_status tg_hlo_measure_module(tg_hlo_reader *r, tg_hlo_graph *graph);
tg_status tg_hlo_read_module(tg_hlo_reader *r, const tg_featurizer *featurizer, tg_hlo_graph *graph);
/* The places of computations in the list by their ids, of which no two are equal. */
tg_status tg_hlo_find_places(tg_hlo_reader *r, const tg_hlo_graph *graph, tg_id_map *places);
tg_status tg_hlo_measure_runs(tg_hlo_reader *r, tg_hlo_graph *graph);
tg_status tg_hlo_read_runs(tg_hlo_reader *r, tg_hlo_graph *graph);

#endif
