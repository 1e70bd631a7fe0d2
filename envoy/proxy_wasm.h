// The part of proxy-wasm's ABI 0.2.1 that Envoy's filters here use, without a library.

#include <stdint.h>

enum { OK = 0, CONTINUE = 0, STOP_ITERATION = 1, DOWNSTREAM = 2, PLUGIN_CONFIGURATION = 7, MAX_BYTES = 1 << 18 };
enum { CAS_MISMATCH = 8 };  // another thread has changed the shared value
enum { REQUEST_HEADERS = 0, RESPONSE_HEADERS = 2, COUNTER = 0, MONOTONIC = 1 };

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))
#define UNUSED __attribute__((unused))

IMPORT(proxy_get_property) uint32_t get_property(const char *path, uint32_t path_size, char **value, uint32_t *size);
IMPORT(proxy_get_buffer_bytes) uint32_t get_bytes(uint32_t of, uint32_t from, uint32_t most, char **value, uint32_t *size);
IMPORT(proxy_get_header_map_value)
uint32_t get_header(uint32_t map, const char *name, uint32_t name_size, char **value, uint32_t *size);
IMPORT(proxy_remove_header_map_value) uint32_t remove_header(uint32_t map, const char *name, uint32_t name_size);
IMPORT(proxy_send_local_response)
uint32_t send_response(uint32_t status, const char *details, uint32_t details_size, const char *body, uint32_t body_size,
                       const char *headers, uint32_t headers_size, uint32_t grpc_status);
__attribute__((import_module("wasi_snapshot_preview1"), import_name("clock_time_get")))
uint32_t get_time(uint32_t clock, uint64_t precision_ns, uint64_t *now_ns);
IMPORT(proxy_set_tick_period_milliseconds) uint32_t set_tick_period(uint32_t ms);
IMPORT(proxy_define_metric) uint32_t define_metric(uint32_t type, const char *name, uint32_t size, uint32_t *metric);
IMPORT(proxy_increment_metric) uint32_t increment_metric(uint32_t metric, int64_t by);
IMPORT(proxy_set_effective_context) uint32_t set_context(uint32_t context);
IMPORT(proxy_get_shared_data)
uint32_t get_shared(const char *key, uint32_t key_size, char **value, uint32_t *size, uint32_t *version);
IMPORT(proxy_set_shared_data)
uint32_t set_shared(const char *key, uint32_t key_size, const char *value, uint32_t size, uint32_t version);
IMPORT(proxy_close_stream) uint32_t close_stream(uint32_t stream);

static char handed_over[MAX_BYTES];  // Envoy's last answer
static char serialized[1024];        // headers of a response

EXPORT(proxy_abi_version_0_2_1) void proxy_abi_version(void) {}

EXPORT(malloc) void *proxy_malloc(uint32_t size) {
    if (size > MAX_BYTES) __builtin_trap();
    return handed_over;
}

EXPORT(proxy_on_context_create) void on_context_create(uint32_t context, uint32_t parent) {}

EXPORT(proxy_on_vm_start) uint32_t on_vm_start(uint32_t context, uint32_t size) { return 1; }

UNUSED static uint32_t length(const char *text) {
    uint32_t size = 0;
    while (text[size] != 0) size++;
    return size;
}

UNUSED static uint32_t number(char **text, const char *end) {  // up to the next character that is no decimal digit
    uint32_t value = 0;
    while (*text < end && **text >= '0' && **text <= '9') value = value * 10 + (uint32_t)(*(*text)++ - '0');
    if (*text < end) ++*text;
    return value;
}

UNUSED static uint32_t hash_of(const char *text, uint32_t size) {  // FNV-1a
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < size; i++) hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash ^ hash >> 16;
}

UNUSED static uint32_t put(char *to, uint32_t at, uint32_t value) {
    for (uint32_t i = 0; i < 4; i++) to[at + i] = (char)(value >> 8 * i);
    return at + 4;
}

UNUSED static uint32_t get(const char *from) {  // what `put` has written
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) value |= (uint32_t)(uint8_t)from[i] << 8 * i;
    return value;
}

UNUSED static uint32_t serialize(const char *const *pairs) {  // names and values, and a null pointer; returns the size
    uint32_t count = 0, at = 0;
    while (pairs[count] != 0) count++;
    at = put(serialized, at, count / 2);
    for (uint32_t i = 0; i < count; i++) at = put(serialized, at, length(pairs[i]));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; pairs[i][j] != 0; j++) serialized[at++] = pairs[i][j];
        serialized[at++] = 0;
    }
    return at;
}
