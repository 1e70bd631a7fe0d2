// A network filter for Envoy that closes connections of an address that has too many of them: Envoy's own filter limits
// those of a listener only. For proxy-wasm's ABI 0.2.1, without a library; make envoy-filters puts it into envoy.yaml.
//
// Each of Envoy's threads has a machine of its own, whose one thread calls the exported functions. They share the counts,
// which a thread changes only if no other one has changed them since it read them.

#include "proxy_wasm.h"

enum { NUM_CELLS = 1 << 16 };  // an address' cell is its hash: two addresses rarely share one, and its limit

static const uint32_t never_used = 0xffffffff;  // a version that no value has, so that a first value replaces no other's
static uint32_t limit;

EXPORT(proxy_on_configure) uint32_t on_configure(uint32_t context, uint32_t size) {  // the limit, in decimal digits
    char *text;
    uint32_t count;
    if (get_bytes(PLUGIN_CONFIGURATION, 0, size, &text, &count) != OK) return 0;
    limit = number(&text, text + count);
    return limit > 0;
}

static uint32_t add(int32_t difference) {  // to the connections of the address, whatever its port; returns their number
    static const char path[] = "source\0address";
    char key[] = "connections ....", *text;
    uint32_t size, result;
    if (get_property(path, sizeof path - 1, &text, &size) != OK) return 0;
    while (size > 0 && text[size - 1] != ':') size--;
    put(key, sizeof key - 5, hash_of(text, size) % NUM_CELLS);
    int32_t value;
    do {
        uint32_t version = never_used;
        value = 0;
        if (get_shared(key, sizeof key - 1, &text, &size, &version) == OK && size == sizeof value)
            value = (int32_t)get(text);
        else
            version = never_used;
        value += difference;
        if (value < 0) value = 0;
        char content[sizeof value];
        put(content, 0, (uint32_t)value);
        result = set_shared(key, sizeof key - 1, content, sizeof content, version);
    } while (result == CAS_MISMATCH);
    return (uint32_t)value;
}

EXPORT(proxy_on_new_connection) uint32_t on_new_connection(uint32_t context) {
    if (add(1) <= limit) return CONTINUE;
    close_stream(DOWNSTREAM);
    return STOP_ITERATION;
}

EXPORT(proxy_on_downstream_connection_close) void on_downstream_connection_close(uint32_t context, uint32_t by) {
    add(-1);
}
