/* Errors about the metadata of a ranker's file: what was found, and what was expected. */
#ifndef TG_DESCRIBED_H
#define TG_DESCRIBED_H

#include "base/jsontree.h"

/* A TG_E_DATA: `value` (NULL: nothing) was found in place of `expected`. `remedy` NULL: the file is bad. */
tg_status tg_described_wrong(tg_error *err, const char *field, const char *expected, const char *remedy,
                             const tg_json_value *value);

#endif
