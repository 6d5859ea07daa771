/* Tensors out of a .safetensors file: 8 bytes with the length of the header, the header in JSON, then the tensors
   one after another without gaps. Opening reads the header only and trusts nothing in it: every tensor must
   have exactly the bytes of its shape, and all together must fill the file. No number decides the size of an
   allocation before it is compared with the size of the file. */
#ifndef TG_SAFETENSORS_H
#define TG_SAFETENSORS_H

#include "io/source.h"

#define TG_TENSOR_DIMS        8
#define TG_TENSOR_SHAPE       (TG_TENSOR_DIMS * 21 + 3) /* bytes of a shape as text */
#define TG_SAFETENSORS_HEADER (100 << 20)               /* bytes, the limit of the format's own library */

typedef enum tg_dtype {
    TG_DTYPE_F16,
    TG_DTYPE_BF16,
    TG_DTYPE_F32,
    TG_DTYPE_F64,
    TG_DTYPE_I8,
    TG_DTYPE_I16,
    TG_DTYPE_I32,
    TG_DTYPE_I64,
    TG_DTYPE_U8,
    TG_DTYPE_BOOL,
    TG_DTYPES
} tg_dtype;

/* Text in UTF-8 with a NUL behind it, which it may also contain. */
typedef struct tg_text {
    const char *bytes;
    size_t size;
} tg_text;

typedef struct tg_tensor {
    tg_text name;
    tg_dtype dtype;
    int ndim;
    int64_t shape[TG_TENSOR_DIMS];
    int64_t count, memory; /* elements, and bytes when read: bfloat16 is widened to float32 */
    int64_t offset, size;  /* bytes in the file */
} tg_tensor;

typedef struct tg_note {
    tg_text key, value;
} tg_note;

typedef struct tg_safetensors {
    tg_source source;
    int count, notes;
    tg_tensor *tensors; /* in the order of their names */
    tg_note *note;      /* the texts under "__metadata__", in the order of their keys */
    char *pool;
    const char *before; /* of every name that is looked up, or NULL: a part of the file */
} tg_safetensors;

/* Read the header of `source`, which must outlive `file`. Close also after an error. */
tg_status tg_safetensors_open(tg_safetensors *file, tg_source source, tg_error *err);
void tg_safetensors_close(tg_safetensors *file);

/* The tensor of that name, or NULL. */
const tg_tensor *tg_safetensors_find(const tg_safetensors *file, const char *name);

/* to(tensor->memory) = the values, row-major, in this machine's form; to is aligned for them. */
tg_status tg_safetensors_read(const tg_safetensors *file, const tg_tensor *tensor, void *to, tg_error *err);

/* to(TG_TENSOR_SHAPE) = the shape as Python writes it: "(16, 134)", "(3,)", "()". */
void tg_tensor_shape(const tg_tensor *tensor, char *to);

/* "F32" for TG_DTYPE_F32 ...; bytes of one element in a file. */
const char *tg_dtype_name(tg_dtype dtype);
int tg_dtype_size(tg_dtype dtype);

#endif
