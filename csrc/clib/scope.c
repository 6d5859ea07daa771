#include "clib/clib.h"

#include <string.h>

static const char *const sentences[] = {
    [TG_OK] = "no error",
    [TG_E_DATA] = "an array or a number is not what it must be",
    [TG_E_CONFIG] = "options that do not go together",
    [TG_E_RECIPE] = "a model description that cannot be built",
    [TG_E_SHAPE] = "an array of another size than expected",
    [TG_E_CHECKPOINT] = "the file is damaged, or not a ranker that C can score with",
    [TG_E_IO] = "a file cannot be opened or read",
    [TG_E_MEMORY] = "no memory",
    [TG_E_CANCELLED] = "stopped on demand",
    [TG_E_NOT_FINITE] = "scores that are not finite",
    [TG_E_BUSY] = "in use by another thread",
};

const char *tg_status_string(int status) {
    const int known = status >= 0 && status < (int)(sizeof sentences / sizeof *sentences);
    return known ? sentences[status] : "an unknown status";
}

uint32_t tg_abi_version(void) { return TG_ABI_VERSION; }

static tg_status say(tg_message *message, tg_status status, const char *text) {
    const size_t head = offsetof(tg_message, text);
    if (message == NULL || message->size <= head) return status;
    message->status = status;
    const size_t room = message->size - head, length = strlen(text), kept = length < room ? length : room - 1;
    memcpy(message->text, text, kept);
    message->text[kept] = 0;
    return status;
}

tg_status tg_argument(tg_message *message, const char *name, const char *expected) {
    tg_error err;
    tg_fail_field(&err, name, expected, "NULL, or another size");
    return say(message, TG_E_DATA, err.message);
}

tg_status tg_no_memory(tg_message *message) {
    return say(message, TG_E_MEMORY, tg_status_string(TG_E_MEMORY));
}

void tg_scope_begin(tg_scope *scope, const tg_heap *heap, const tg_spread *spread, int threads) {
    scope->err.code = TG_OK;
    scope->err.message[0] = 0;
    scope->spread = *spread;
    scope->spread.threads = threads < 1 ? 1 : threads;
    scope->heap_before = tg_heap_enter(heap);
    scope->spread_before = tg_spread_work(&scope->spread);
}

tg_status tg_scope_end(tg_scope *scope, tg_status status, tg_message *message) {
    tg_heap_enter(scope->heap_before);
    tg_spread_work(scope->spread_before);
    const char *text = scope->err.message[0] != 0 ? scope->err.message : tg_status_string(status);
    return say(message, status, status == TG_OK ? "" : text);
}

int tg_take_struct(void *to, size_t size, const void *from, size_t least) {
    uint32_t given;
    memcpy(&given, from, sizeof given);
    if (given < least) return 0;
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return 1;
}
