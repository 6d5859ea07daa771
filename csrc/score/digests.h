/* The digests in a ranker file, as tpugraphs/system/tensorfile.py writes them: BLAKE2b of the metadata before
   the digests, and of every tensor with its name, dtype and shape. */
#ifndef TG_DIGESTS_H
#define TG_DIGESTS_H

#include "base/jsontree.h"
#include "io/safetensors.h"

/* TG_OK if all match the contents of the file, or if it has none, as in earlier versions. `root` is the
   parsed `text`; a TG_E_DATA names the tensor, or "metadata". */
tg_status tg_digests_check(const tg_safetensors *file, tg_text text, const tg_json_value *root,
                           tg_error *err);

#endif
