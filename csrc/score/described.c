#include "score/described.h"

tg_status tg_described_wrong(tg_error *err, const char *field, const char *expected, const char *remedy,
                             const tg_json_value *value) {
    char found[96];
    tg_json_words(value, found, sizeof found);
    return tg_bad_field(err, field, expected,
                        remedy == NULL ? "the file is damaged or was changed: write it again" : remedy, "%s",
                        found);
}
