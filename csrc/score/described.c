#include "score/described.h"

tg_status tg_described_wrong(tg_error *err, const char *field, const char *expected, const char *remedy,
                             const tg_json_value *value) {
    if (remedy == NULL) remedy = "the file is damaged or was changed: write it again";
    if (value == NULL) return tg_bad_field(err, field, expected, remedy, "none");
    if (value->kind == TG_JSON_OBJECT || value->kind == TG_JSON_ARRAY)
        return tg_bad_field(err, field, expected, remedy, "%s of %d",
                            value->kind == TG_JSON_OBJECT ? "an object" : "a list", value->count);
    const char *quote = value->kind == TG_JSON_STRING ? "'" : "";
    return tg_bad_field(err, field, expected, remedy, "%s%.80s%s", quote, value->text, quote);
}
