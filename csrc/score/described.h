/* What ranker files describe in JSON, made real: the steps of preprocessing as a program, the steps of a model as a
   model. Py/ makes the same two of Python values. All errors are of TG_E_DATA, TG_E_CONFIG or TG_E_RECIPE. */
#ifndef TG_DESCRIBED_H
#define TG_DESCRIBED_H

#include "base/jsontree.h"

struct tg_model;
struct tg_program;

/* Fill an empty program with [{"step": name, attribute: value, ...}, ...] and close it. */
tg_status tg_described_program(struct tg_program *program, const tg_json_value *list, tg_error *err);

/* Add steps [{"op", "name", "in", "out", "attrs", "share"}, ...] and the output "scores" to a new model, and finish
   it: all but the weights. */
tg_status tg_described_model(struct tg_model *model, const tg_json_value *list, tg_error *err);

/* A TG_E_DATA: `value` (NULL: nothing) stands where `expected` should; `remedy` NULL: the file is damaged. */
tg_status tg_described_wrong(tg_error *err, const char *field, const char *expected, const char *remedy,
                             const tg_json_value *value);

#endif
