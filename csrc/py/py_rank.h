/* Names of losses and reductions, for every entry that takes them. */
#ifndef TG_PY_RANK_H
#define TG_PY_RANK_H

#include "rank/loss.h"

/* Sets kind and reduction; 1, or 0 with ConfigError naming what is known. */
int tg_py_loss_names(const char *kind, const char *reduction, tg_loss_spec *spec);

#endif
