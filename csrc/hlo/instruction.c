#include "hlo/instruction.h"

#include <string.h>

/* Columns of node_feat, by what begins there. */
enum {
    ELEMENT_TYPE = 2, /* 19 flags */
    SHAPE = TG_SHAPE_COLUMN,
    TUPLE_SIZE = SHAPE + TG_SHAPE_COLUMNS,
    PARAMETER_NUMBER,
    DIMENSIONS,
    WINDOW = DIMENSIONS + 6, /* seven lists, the last of flags */
    CONVOLUTION = WINDOW + 7 * 8,
    INPUT_SPATIAL = CONVOLUTION + 2,
    KERNEL_INPUT = INPUT_SPATIAL + 4,
    KERNEL_SPATIAL = KERNEL_INPUT + 2,
    OUTPUT_BATCH = KERNEL_SPATIAL + 4,
    FEATURE_GROUPS = OUTPUT_BATCH + 2,
    BATCH_GROUPS,
    SLICE_START,
    SLICE_STRIDE = SLICE_START + 4,
    SLICE_LIMIT = SLICE_STRIDE + 4,
    DYNAMIC_SIZES = SLICE_LIMIT + 4,
    PAD_LOW = DYNAMIC_SIZES + 4,
    PAD_HIGH = PAD_LOW + 4,
    IS_STABLE = PAD_HIGH + 4,
    LAYOUT = TG_SCALED_FEATURES
};
_Static_assert(IS_STABLE + 1 == LAYOUT && LAYOUT + TG_LAYOUT_DIGITS == TG_NODE_FEATURES, "a column too many");

/* Lists of an instruction. In the first ones sum and product of all items follow the columns. */
enum {
    OF_SHAPE,
    OF_WINDOW, /* and the next six, in the order of the fields of a WindowDimension */
    OF_REVERSAL = OF_WINDOW + 6,
    OF_START,
    OF_LIMIT,
    OF_STRIDE,
    OF_SIZES,
    OF_LOW,
    OF_HIGH,
    SUMMED,
    OF_DIMENSIONS = SUMMED,
    OF_INPUT_SPATIAL,
    OF_KERNEL_SPATIAL,
    OF_LAYOUT,
    LISTS,
    /* of the extra columns */
    OF_GATHER_SIZES = LISTS,
    OF_GATHER,              /* and the next two, in the order of the fields of GatherDimensionNumbers */
    OF_DOT = OF_GATHER + 3, /* and the next three, in the order of the fields of DotDimensionNumbers */
    ALL_LISTS = OF_DOT + 4
};

static const struct {
    uint8_t column, most; /* the first, and how many items have one */
} list_of[ALL_LISTS] = {
    [OF_SHAPE] = {SHAPE, 6},
    [OF_WINDOW] = {WINDOW, 6},
    [OF_WINDOW + 1] = {WINDOW + 8, 6},
    [OF_WINDOW + 2] = {WINDOW + 2 * 8, 6},
    [OF_WINDOW + 3] = {WINDOW + 3 * 8, 6},
    [OF_WINDOW + 4] = {WINDOW + 4 * 8, 6},
    [OF_WINDOW + 5] = {WINDOW + 5 * 8, 6},
    [OF_REVERSAL] = {WINDOW + 6 * 8, 6},
    [OF_START] = {SLICE_START, 2},
    [OF_LIMIT] = {SLICE_LIMIT, 2},
    [OF_STRIDE] = {SLICE_STRIDE, 2},
    [OF_SIZES] = {DYNAMIC_SIZES, 2},
    [OF_LOW] = {PAD_LOW, 2},
    [OF_HIGH] = {PAD_HIGH, 2},
    [OF_DIMENSIONS] = {DIMENSIONS, 6},
    [OF_INPUT_SPATIAL] = {INPUT_SPATIAL, 4},
    [OF_KERNEL_SPATIAL] = {KERNEL_SPATIAL, 4},
    [OF_LAYOUT] = {LAYOUT, TG_LAYOUT_DIGITS},
    [OF_GATHER_SIZES] = {TG_GATHER_SLICE_SIZES, 5},
    [OF_GATHER] = {TG_OFFSET_DIMS, 3},
    [OF_GATHER + 1] = {TG_COLLAPSED_SLICE_DIMS, 3},
    [OF_GATHER + 2] = {TG_START_INDEX_MAP, 3},
    [OF_DOT] = {TG_LHS_CONTRACTING, 3},
    [OF_DOT + 1] = {TG_RHS_CONTRACTING, 3},
    [OF_DOT + 2] = {TG_LHS_BATCH, 3},
    [OF_DOT + 3] = {TG_RHS_BATCH, 3},
};

/* The flag of an element type, by its number in the protobuf: the flags have an order of their own. */
enum { FLAG_BF16 = 13, FLAG_C64, FLAG_C128, FLAG_TUPLE, FLAG_OPAQUE, FLAG_TOKEN };
static const uint8_t flag_of[] = {0,           1,        2,         3,          4,        5,  6,
                                  7,           8,        9,         10,         11,       12, FLAG_TUPLE,
                                  FLAG_OPAQUE, FLAG_C64, FLAG_BF16, FLAG_TOKEN, FLAG_C128};

/* The items of a list so far; sum and product wrap around. */
typedef struct tally {
    int64_t count;
    uint64_t sum, product;
} tally;

/* A row that is being written. */
typedef struct draft {
    float *row, *extra;
    uint64_t element_type;
    int64_t tuple_size;
    uint32_t begun; /* lists that have items, by bit; of these only there is a */
    tally list[ALL_LISTS];
} draft;

static inline tally *tally_of(draft *d, int list) {
    if ((d->begun >> list & 1) == 0) d->list[list] = (tally){0, 0, 1};
    d->begun |= (uint32_t)1 << list;
    return &d->list[list];
}

static inline void add(tally *t, float *columns, int most, uint64_t item) {
    if (t->count < most) columns[t->count] = (float)(int64_t)item;
    t->count++;
    t->sum += item;
    t->product *= item;
}

/* Add all items of a field of numbers to a list. */
static tg_status add_all(const tg_hlo_reader *r, draft *d, int list, const tg_wire_field *f) {
    tally *known = tally_of(d, list), t = *known;
    float *columns = (list < LISTS ? d->row : d->extra) + list_of[list].column;
    tg_wire w = f->bytes;
    uint64_t x;
    int more;
    while ((more = tg_wire_number(&w, &x)) > 0) add(&t, columns, list_of[list].most, x);
    *known = t;
    return more < 0 ? tg_hlo_fault(r, &w, more) : TG_OK;
}

tg_status tg_hlo_collect(const tg_hlo_reader *r, tg_ids *ids, const tg_wire_field *f) {
    tg_wire w = f->bytes;
    uint64_t x;
    int more;
    while ((more = tg_wire_number(&w, &x)) > 0) {
        const tg_status status = tg_ids_add(ids, (int64_t)x, r->err);
        if (status != TG_OK) return status;
    }
    return more < 0 ? tg_hlo_fault(r, &w, more) : TG_OK;
}

static tg_status read_layout(tg_hlo_reader *r, tg_wire w, draft *d) {
    static const tg_fields known = {[1] = TG_NUMBERS};
    tg_wire_field f;
    int more;
    r->part = "layout";
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        const tg_status status = add_all(r, d, OF_LAYOUT, &f);
        if (status != TG_OK) return status;
    }
    r->part = "shape";
    return more < 0 ? TG_E_DATA : TG_OK;
}

static tg_status read_shape(tg_hlo_reader *r, tg_wire w, draft *d) {
    static const tg_fields known = {[2] = TG_NUMBER, [3] = TG_NUMBERS, [4] = TG_CONTENT, [5] = TG_CONTENT};
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    r->part = "shape";
    while (status == TG_OK && (more = tg_hlo_next(r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        if (f.number == 2) d->element_type = f.value;
        else if (f.number == 3) status = add_all(r, d, OF_SHAPE, &f);
        else if (f.number == 4) d->tuple_size++;
        else status = read_layout(r, f.bytes, d);
    }
    if (status == TG_OK) r->part = NULL;
    return status;
}

/* A message of `fields` numbers, which are the next items of as many lists, the first of which is `list`. */
static tg_status read_items(tg_hlo_reader *r, tg_wire w, draft *d, int list, int fields) {
    int64_t items[8] = {0};
    tg_wire_field f;
    int more;
    while ((more = tg_wire_next(&w, &f)) > 0) {
        if (f.number > (uint32_t)fields) continue;
        if (f.type != TG_VARINT) return tg_hlo_wrong_type(r, &f, TG_NUMBER);
        items[f.number] = (int64_t)f.value;
    }
    if (more < 0) return tg_hlo_fault(r, &w, more);
    for (int i = 0; i < fields; i++) {
        const int64_t item = items[i + 1];
        add(tally_of(d, list + i), d->row + list_of[list + i].column, list_of[list + i].most,
            (uint64_t)(list + i == OF_REVERSAL ? item != 0 : item));
    }
    r->part = NULL;
    return TG_OK;
}

/* A Window or a PaddingConfig: messages of numbers in field 1. */
static tg_status read_dimensions(tg_hlo_reader *r, tg_wire w, draft *d, int list, int fields,
                                 const char *part) {
    static const tg_fields known = {[1] = TG_CONTENT};
    tg_wire_field f;
    int more;
    r->part = part;
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        const tg_status status = read_items(r, f.bytes, d, list, fields);
        if (status != TG_OK) return status;
        r->part = part;
    }
    r->part = NULL;
    return more < 0 ? TG_E_DATA : TG_OK;
}

static tg_status read_convolution(tg_hlo_reader *r, tg_wire w, draft *d) {
    static const tg_fields known = {[3] = TG_NUMBER, [4] = TG_NUMBER, [6] = TG_NUMBERS, [7] = TG_NUMBER,
                                    [8] = TG_NUMBER, [9] = TG_NUMBER, [10] = TG_NUMBER, [11] = TG_NUMBERS};
    static const uint8_t column[] = {[3] = KERNEL_INPUT,    [4] = KERNEL_INPUT + 1, [7] = CONVOLUTION,
                                     [8] = CONVOLUTION + 1, [9] = OUTPUT_BATCH,     [10] = OUTPUT_BATCH + 1};
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    r->part = "convolution_dimension_numbers";
    while (status == TG_OK && (more = tg_hlo_next(r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        if (f.number == 11) status = add_all(r, d, OF_INPUT_SPATIAL, &f);
        else if (f.number == 6) status = add_all(r, d, OF_KERNEL_SPATIAL, &f);
        else d->row[column[f.number]] = (float)(int64_t)f.value;
    }
    if (status == TG_OK) r->part = NULL;
    return status;
}

/* DotDimensionNumbers or GatherDimensionNumbers: `lists` lists, the first of which is `list`; and index_vector_dim. */
static tg_status read_numbers(tg_hlo_reader *r, tg_wire w, draft *d, int list, uint32_t lists,
                              const char *part) {
    static const tg_fields known = {[1] = TG_NUMBERS, [2] = TG_NUMBERS, [3] = TG_NUMBERS, [4] = TG_NUMBERS};
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    r->part = part;
    while (status == TG_OK && (more = tg_hlo_next(r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        if (f.number <= lists) status = add_all(r, d, list + (int)f.number - 1, &f);
        else if (f.type != TG_VARINT) status = tg_hlo_wrong_type(r, &f, TG_NUMBER);
        else d->extra[TG_INDEX_VECTOR_DIM] = (float)(int64_t)f.value;
    }
    if (status == TG_OK) r->part = NULL;
    return status;
}

/* Fields that only the extra columns need. */
static tg_status read_extra(tg_hlo_reader *r, const tg_wire_field *f, draft *d) {
    if (f->number == 30) return read_numbers(r, f->bytes, d, OF_DOT, 4, "dot_dimension_numbers");
    if (f->number == 33) return read_numbers(r, f->bytes, d, OF_GATHER, 3, "gather_dimension_numbers");
    if (f->number == 34) return add_all(r, d, OF_GATHER_SIZES, f);
    d->extra[TG_INDICES_ARE_SORTED] = f->value != 0; /* 67 */
    return TG_OK;
}

static tg_status read_field(tg_hlo_reader *r, const tg_wire_field *f, const tg_featurizer *featurizer,
                            draft *d, tg_instruction *instruction) {
    float *row = d->row;
    switch (f->number) {
    case 2:
        instruction->opcode =
            tg_opcode_of(&featurizer->opcodes, f->bytes.at, (size_t)(f->bytes.end - f->bytes.at));
        return TG_OK;
    case 3: return read_shape(r, f->bytes, d);
    case 9: row[PARAMETER_NUMBER] = (float)(int64_t)f->value; return TG_OK;
    case 14: return add_all(r, d, OF_DIMENSIONS, f);
    case 15: return read_dimensions(r, f->bytes, d, OF_WINDOW, 7, "window");
    case 16: return read_convolution(r, f->bytes, d);
    case 17: r->part = "slice_dimensions"; return read_items(r, f->bytes, d, OF_START, 3);
    case 20: return add_all(r, d, OF_SIZES, f);
    case 21: return read_dimensions(r, f->bytes, d, OF_LOW, 2, "padding_config");
    case 35: instruction->id = (int64_t)f->value; return TG_OK;
    case 36: return tg_hlo_collect(r, &instruction->operands, f);
    case 38: return tg_hlo_collect(r, &instruction->called, f);
    case 50: row[FEATURE_GROUPS] = (float)(int64_t)f->value; return TG_OK;
    case 58: row[BATCH_GROUPS] = (float)(int64_t)f->value; return TG_OK;
    case 60: row[IS_STABLE] = f->value != 0; return TG_OK;
    default: return d->extra == NULL ? TG_OK : read_extra(r, f, d);
    }
}

void tg_featurizer_fill(tg_featurizer *featurizer, int padding) {
    memset(featurizer, 0, sizeof *featurizer);
    tg_opcode_table_fill(&featurizer->opcodes);
    for (int list = 0; list < LISTS; list++) {
        float *column = featurizer->empty + list_of[list].column;
        const int most = list_of[list].most;
        if (list < SUMMED && list != OF_REVERSAL) column[most + 1] = 1; /* a product of nothing */
        for (int i = 0; i < most && list >= SUMMED; i++) column[i] = (float)padding;
    }
    for (int list = LISTS; list < ALL_LISTS; list++)
        for (int i = 0; i < list_of[list].most; i++) featurizer->empty_extra[list_of[list].column + i] = -1;
    for (int i = TG_OPERAND_SHAPES; i < TG_EXTRA_FEATURES; i++) featurizer->empty_extra[i] = -2;
}

tg_status tg_hlo_instruction(tg_hlo_reader *r, tg_wire w, const tg_featurizer *featurizer, float *row,
                             float *extra, tg_instruction *instruction) {
    static const tg_fields known = {
        [2] = TG_CONTENT,  [3] = TG_CONTENT,  [9] = TG_NUMBER,   [14] = TG_NUMBERS, [15] = TG_CONTENT,
        [16] = TG_CONTENT, [17] = TG_CONTENT, [20] = TG_NUMBERS, [21] = TG_CONTENT, [30] = TG_CONTENT,
        [33] = TG_CONTENT, [34] = TG_NUMBERS, [35] = TG_NUMBER,  [36] = TG_NUMBERS, [38] = TG_NUMBERS,
        [50] = TG_NUMBER,  [58] = TG_NUMBER,  [60] = TG_NUMBER,  [67] = TG_NUMBER};
    draft d;
    d.row = row, d.extra = extra, d.element_type = 0, d.tuple_size = 0, d.begun = 0;
    /* In pieces, as compilers make one large copy of known size a slow one. */
    enum { PIECE = 20 };
    for (int i = 0; i < TG_NODE_FEATURES; i += PIECE)
        memcpy(row + i, featurizer->empty + i, PIECE * sizeof *row);
    if (extra != NULL) memcpy(extra, featurizer->empty_extra, sizeof featurizer->empty_extra);
    instruction->id = 0;
    instruction->opcode = 0;
    instruction->operands.count = instruction->called.count = 0;
    tg_wire_field f;
    int more;
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        const tg_status status = read_field(r, &f, featurizer, &d, instruction);
        if (status != TG_OK) return status;
    }
    if (more < 0) return TG_E_DATA;
    if (d.element_type < sizeof flag_of) row[ELEMENT_TYPE + flag_of[d.element_type]] = 1;
    row[TUPLE_SIZE] = (float)d.tuple_size;
    for (uint32_t lists = d.begun & ((1u << SUMMED) - 1); lists != 0; lists &= lists - 1) {
        const int list = __builtin_ctz(lists);
        const tally *t = &d.list[list];
        float *end = row + list_of[list].column + list_of[list].most;
        end[0] = (float)(int64_t)t->sum;
        end[1] = list == OF_REVERSAL ? (float)(t->count - (int64_t)t->sum) : (float)(int64_t)t->product;
    }
    return TG_OK;
}
