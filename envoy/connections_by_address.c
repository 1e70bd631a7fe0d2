// A network filter for Envoy that closes connections of an address that has too many of them: Envoy's own filter limits
// those of a listener only. For proxy-wasm's ABI 0.2.1, without a library; make envoy-filter puts it into envoy.yaml.
//
// Each of Envoy's threads has a machine of its own, whose one thread calls the exported functions.

#include <stdint.h>

enum { OK = 0, CONTINUE = 0, STOP = 1, DOWNSTREAM = 2, PLUGIN_CONFIGURATION = 7, NUM_CELLS = 1 << 16, MAX_BYTES = 1 << 12 };

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(proxy_get_property) uint32_t get_property(const char *path, uint32_t path_size, char **value, uint32_t *size);
IMPORT(proxy_get_buffer_bytes) uint32_t get_bytes(uint32_t of, uint32_t from, uint32_t most, char **value, uint32_t *size);
IMPORT(proxy_close_stream) uint32_t close_stream(uint32_t stream);

static uint32_t limit;
static uint32_t connections[NUM_CELLS];  // by a hash of the address: two addresses rarely share a cell, and its limit
static char handed_over[MAX_BYTES];      // Envoy's last answer

EXPORT(proxy_abi_version_0_2_1) void proxy_abi_version(void) {}

EXPORT(malloc) void *proxy_malloc(uint32_t size) {
    if (size > MAX_BYTES) __builtin_trap();
    return handed_over;
}

EXPORT(proxy_on_context_create) void on_context_create(uint32_t context, uint32_t parent) {}

EXPORT(proxy_on_vm_start) uint32_t on_vm_start(uint32_t context, uint32_t size) { return 1; }

EXPORT(proxy_on_configure) uint32_t on_configure(uint32_t context, uint32_t size) {  // the limit, in decimal digits
    char *text;
    uint32_t length;
    if (get_bytes(PLUGIN_CONFIGURATION, 0, size, &text, &length) != OK) return 0;
    for (uint32_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        limit = limit * 10 + (uint32_t)(text[i] - '0');
    }
    return limit > 0;
}

static uint32_t *cell(void) {  // of the connection's address, whatever its port
    static const char path[] = "source\0address";
    char *text;
    uint32_t size, hash = 2166136261u;
    if (get_property(path, sizeof path - 1, &text, &size) != OK) return 0;
    while (size > 0 && text[size - 1] != ':') size--;
    for (uint32_t i = 0; i < size; i++) hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return &connections[(hash ^ hash >> 16) % NUM_CELLS];
}

EXPORT(proxy_on_new_connection) uint32_t on_new_connection(uint32_t context) {
    uint32_t *count = cell();
    if (count == 0 || ++*count <= limit) return CONTINUE;
    close_stream(DOWNSTREAM);
    return STOP;
}

EXPORT(proxy_on_downstream_connection_close) void on_downstream_connection_close(uint32_t context, uint32_t by) {
    uint32_t *count = cell();
    if (count != 0 && *count > 0) --*count;
}
