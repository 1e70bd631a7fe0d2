// A network filter for Envoy that closes connections of an address that has too many of them: Envoy's own filter limits
// those of a listener only. For proxy-wasm's ABI 0.2.1, without a library; make envoy-filters puts it into envoy.yaml.
//
// Each of Envoy's threads has a machine of its own, whose one thread calls the exported functions.

#include "proxy_wasm.h"

enum { NUM_CELLS = 1 << 16 };

static uint32_t limit;
static uint32_t connections[NUM_CELLS];  // by a hash of the address: two addresses rarely share a cell, and its limit

EXPORT(proxy_on_configure) uint32_t on_configure(uint32_t context, uint32_t size) {  // the limit, in decimal digits
    char *text;
    uint32_t count;
    if (get_bytes(PLUGIN_CONFIGURATION, 0, size, &text, &count) != OK) return 0;
    limit = number(&text, text + count);
    return limit > 0;
}

static uint32_t *cell(void) {  // of the connection's address, whatever its port
    static const char path[] = "source\0address";
    char *text;
    uint32_t size;
    if (get_property(path, sizeof path - 1, &text, &size) != OK) return 0;
    while (size > 0 && text[size - 1] != ':') size--;
    return &connections[hash_of(text, size) % NUM_CELLS];
}

EXPORT(proxy_on_new_connection) uint32_t on_new_connection(uint32_t context) {
    uint32_t *count = cell();
    if (count == 0 || ++*count <= limit) return CONTINUE;
    close_stream(DOWNSTREAM);
    return STOP_ITERATION;
}

EXPORT(proxy_on_downstream_connection_close) void on_downstream_connection_close(uint32_t context, uint32_t by) {
    uint32_t *count = cell();
    if (count != 0 && *count > 0) --*count;
}
