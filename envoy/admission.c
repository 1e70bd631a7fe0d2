// An HTTP filter for Envoy that rejects what the service would have to reject, at a small fraction of the cost.
//
// The service sends with its answers how many requests may be in flight, as `x-sluice-limit:
// ID;SUSTAINED;BURST;IS_OVERLOADED;INTERVAL_MS`, the last one the time between the ends of two answers. Above BURST,
// or if the service says so, the filter detects an overload, which lasts until two seconds after the last rejection;
// meanwhile only SUSTAINED requests may be in flight. A caller that uses less than half of the mean of all callers,
// and has no more than its share of SUSTAINED in flight, is admitted up to BURST. While there are at most SUSTAINED
// callers, each may always have one request in flight. Callers are distinguished by credential, or else by address;
// only those that were once served count.
// A request is in flight from the end of its body to the end of its answer, though the client may not have read it.
// It is decided upon when its headers have arrived and, if its body ends later, once more then. A caller that is
// rejected more often in a second than all callers are admitted, and more than twenty times, ignores `retry-after`:
// it gets all further rejections a second late, until it had none for ten seconds. `retry-after` is the time after
// which, at the measured interval, fewer than SUSTAINED requests are in flight. docs/security/fairness.md describes
// the rules.
//
// Each of Envoy's threads has a machine of its own, whose one thread calls the exported functions. For proxy-wasm's ABI
// 0.2.1, without a library; make envoy-filters puts it into envoy.yaml.

#include "proxy_wasm.h"

// google.rpc.Status {8, "the server is overloaded"}: ErrorInfo {QUEUE_FULL, sluice, for_all: true}, RetryInfo {1 s}: the last
// two characters have the seconds
#define STATUS_DETAILS \
    "CAgSGHRoZSBzZXJ2ZXIgaXMgb3ZlcmxvYWRlZBpRCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuRXJyb3JJbmZv" \
    "EiUKClFVRVVFX0ZVTEwSBnNsdWljZRoPCgdmb3JfYWxsEgR0cnVlGjAKKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJw" \
    "Yy5SZXRyeUluZm8SBAoCCAE"

enum {
    NUM_CALLERS = 1 << 12,   // by a hash: two callers rarely share a cell
    NUM_STREAMS = 1 << 14,   // admitted at a time; a power of two
    NUM_SOURCES = 64,        // of limits: one for each model of each replica
    HALF_LIFE_MS = 2048,     // of what a caller has used
    REFRESH_MS = 250,
    TICK_MS = 20,
    MAX_DELAYED_PER_TICK = 24,  // Envoy sends the responses of one call of the machine recursively
    MIN_RESERVE = 2,         // requests above BURST, for callers below their share
    MAX_REJECTED = 20,       // of a caller in a period, or as many as are admitted, before its rejections are delayed
    NUM_PERIODS = 10,        // without a rejection, after which they no longer are
    USED_PERIODS = 3,        // whose requests `used` has, if it is steady: HALF_LIFE_MS / ln 2
    NUM_DELAYED = 1 << 12,   // at a time
    MAX_RETRY_S = 30,        // the service's own limit
};

struct Caller {
    uint64_t used_at, rejected_since, rejected_at;
    float used;
    uint32_t in_flight, is_known, rejected, is_impatient;
};
struct Source { uint64_t received_at; uint32_t id, sustained, burst, interval_ms; };
struct Stream { uint32_t context, caller, is_delayed, is_in_flight; };
struct Delayed { uint64_t due; uint32_t context; };

static struct Caller callers[NUM_CALLERS];
static struct Source sources[NUM_SOURCES];
static struct Stream streams[NUM_STREAMS];  // open addressing; a context of 0 is a free cell
// Envoy's threads; in milliseconds how long a limit holds, how long an overload lasts after the last rejection, and for
// how long a caller's rejections are counted and then delayed
static uint32_t num_threads, limit_ms, overload_ms, delay_ms;
static uint64_t overload_until, refreshed_at;
static uint32_t num_admitted, num_in_flight, num_active, sustained, burst, is_limited, rejections_metric;
static struct Delayed delayed[NUM_DELAYED];  // a ring, oldest first
static uint32_t first_delayed, num_delayed;
static float total_used, used_by_known, ends_per_ms;  // the last one of all answers; 0 if unknown

static uint64_t now_ms(void) {  // by a clock that is never set
    uint64_t now_ns = 0;
    get_time(MONOTONIC, 1000, &now_ns);
    return now_ns / 1000000;
}

static float used_by(struct Caller *caller, uint64_t now) {  // 2 to the power of -time / HALF_LIFE_MS, by line segments
    uint64_t elapsed = now - caller->used_at, halves = elapsed / HALF_LIFE_MS;
    caller->used_at = now;
    float rest = 1.0f - 0.5f * (float)(elapsed % HALF_LIFE_MS) / (float)HALF_LIFE_MS;
    caller->used *= halves > 30 ? 0.0f : rest / (float)(1u << halves);
    return caller->used;
}

static void refresh(uint64_t now) {  // what holds for all callers
    refreshed_at = now;
    total_used = used_by_known = 0;
    num_active = 0;
    for (uint32_t i = 0; i < NUM_CALLERS; i++) {
        if (callers[i].used < 0.05f) continue;
        total_used += used_by(&callers[i], now);
        if (!callers[i].is_known) continue;  // its key may be invented
        used_by_known += callers[i].used;
        num_active++;
    }
    sustained = burst = is_limited = 0;
    ends_per_ms = 0;
    for (uint32_t i = 0; i < NUM_SOURCES; i++) {
        if (sources[i].id == 0 || now - sources[i].received_at > limit_ms) continue;
        sustained += sources[i].sustained;
        burst += sources[i].burst;
        if (sources[i].interval_ms > 0) ends_per_ms += 1.0f / (float)sources[i].interval_ms;
        is_limited = 1;
    }
    sustained = (sustained + num_threads - 1) / num_threads;
    burst = (burst + num_threads - 1) / num_threads;
    ends_per_ms /= (float)num_threads;
}

static uint32_t retry_s(void) {  // until fewer than SUSTAINED requests are in flight, rounded up
    uint32_t excess = num_in_flight < sustained ? 1 : num_in_flight - sustained + 1;
    float seconds = ends_per_ms > 0 ? (float)excess / ends_per_ms / 1000.0f : 1.0f;
    if (seconds >= MAX_RETRY_S) return MAX_RETRY_S;
    uint32_t whole = (uint32_t)seconds;
    whole += (float)whole < seconds;
    return whole > 0 ? whole : 1;
}

static uint32_t may_pass(struct Caller *caller, uint64_t now) {
    if (!is_limited) return 1;
    if (num_in_flight < (overload_until > now ? sustained : burst)) return 1;
    uint32_t others = num_active + (caller->used < 0.05f), reserve = burst / 8 > MIN_RESERVE ? burst / 8 : MIN_RESERVE;
    uint32_t is_below = used_by(caller, now) * 2 * (float)others < used_by_known;
    is_below &= caller->in_flight * others < sustained + others && num_in_flight < burst + reserve;
    uint32_t is_idle = caller->in_flight == 0 && others <= sustained;
    if (caller->is_known && (is_below || is_idle)) return 1;
    overload_until = now + overload_ms;
    return 0;
}

static uint32_t is_blank(char text) { return text == ' ' || text == '\t'; }

static uint32_t skip_bearer(char **text, uint32_t *size) {
    static const char bearer[] = "bearer ";
    if (*size < sizeof bearer - 1) return 0;
    for (uint32_t i = 0; i < sizeof bearer - 1; i++) {
        if (((*text)[i] | 32) != bearer[i]) return 0;
    }
    *text += sizeof bearer - 1;
    *size -= sizeof bearer - 1;
    return 1;
}

static uint32_t find_caller(void) {  // by what the service reads as a credential, so that each key is one caller
    static const char *const names[] = {"authorization", "api-key", "x-api-key"};
    char *text;
    uint32_t size;
    for (uint32_t i = 0; i < 3; i++) {
        if (get_header(REQUEST_HEADERS, names[i], length(names[i]), &text, &size) != OK) continue;
        if (i == 0 && !skip_bearer(&text, &size)) continue;
        for (; size > 0 && is_blank(*text); size--) text++;
        uint32_t end = 0;  // of the first one; Envoy joins headers that are repeated
        while (end < size && text[end] != ',') end++;
        while (end > 0 && is_blank(text[end - 1])) end--;
        if (end > 0) return hash_of(text, end) % NUM_CALLERS;
    }
    static const char path[] = "source\0address";
    if (get_property(path, sizeof path - 1, &text, &size) != OK) return 0;
    while (size > 0 && text[size - 1] != ':') size--;
    return hash_of(text, size) % NUM_CALLERS;
}

static struct Stream *find_stream(uint32_t context) {  // its cell, or the free cell in which it belongs
    uint32_t i = context * 2654435769u % NUM_STREAMS;
    while (streams[i].context != 0 && streams[i].context != context) i = (i + 1) % NUM_STREAMS;
    return &streams[i];
}

static void remove_stream(struct Stream *stream) {  // and move those behind it, which were displaced, forward
    uint32_t hole = (uint32_t)(stream - streams);
    for (uint32_t i = (hole + 1) % NUM_STREAMS; streams[i].context != 0; i = (i + 1) % NUM_STREAMS) {
        uint32_t home = streams[i].context * 2654435769u % NUM_STREAMS;
        if ((i - home) % NUM_STREAMS < (i - hole) % NUM_STREAMS) continue;
        streams[hole] = streams[i];
        hole = i;
    }
    streams[hole].context = 0;
}

static void reject(void) {
    static const char grpc[] = "application/grpc", details[] = "sluice_overloaded";
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char seconds[] = "00", milliseconds[] = "00000", status[] = STATUS_DETAILS;
    static const char *const for_all[] = {"x-sluice-reason", "QUEUE_FULL", "retry-after", seconds, 0};
    static const char text[] = "the server is overloaded";
    // Whole, since Envoy's filter of gRPC-Web would make UNAVAILABLE of 429.
    static const char *const for_grpc[] = {"content-type", "application/grpc", "grpc-status", "8", "grpc-message", text,
                                           "x-sluice-reason", "QUEUE_FULL", "grpc-retry-pushback-ms", milliseconds,
                                           "grpc-status-details-bin", status, 0};
    char *type;
    uint32_t size, has_type = get_header(REQUEST_HEADERS, "content-type", 12, &type, &size) == OK;
    uint32_t is_grpc = has_type && size >= sizeof grpc - 1;
    for (uint32_t i = 0; is_grpc && i < sizeof grpc - 1; i++) is_grpc = type[i] == grpc[i];
    uint32_t retry = retry_s(), is_long = retry >= 10;
    seconds[0] = milliseconds[0] = (char)('0' + (is_long ? retry / 10 : retry));
    seconds[1] = is_long ? (char)('0' + retry % 10) : 0;
    milliseconds[1] = is_long ? seconds[1] : '0';
    milliseconds[4] = is_long ? '0' : 0;
    status[sizeof status - 3] = base64[retry >> 4];
    status[sizeof status - 2] = base64[(retry & 15) << 2];
    increment_metric(rejections_metric, 1);
    size = serialize(is_grpc ? for_grpc : for_all);
    uint32_t text_size = is_grpc ? 0 : sizeof text - 1;
    send_response(is_grpc ? 200 : 429, details, sizeof details - 1, text, text_size, serialized, size, 8);
}

EXPORT(proxy_on_configure) uint32_t on_configure(uint32_t context, uint32_t size) {  // decimal numbers and semicolons
    static const char name[] = "sluice.admission.rejected";
    char *text;
    uint32_t count;
    if (get_bytes(PLUGIN_CONFIGURATION, 0, size, &text, &count) != OK) return 0;
    char *end = text + count;
    num_threads = number(&text, end);
    limit_ms = number(&text, end);
    overload_ms = number(&text, end);
    delay_ms = number(&text, end);
    define_metric(COUNTER, name, sizeof name - 1, &rejections_metric);
    set_tick_period(TICK_MS);
    return num_threads > 0;
}

static uint32_t must_wait(struct Caller *caller, uint64_t now) {
    if (now - caller->rejected_at > (uint64_t)NUM_PERIODS * delay_ms) caller->is_impatient = 0;
    caller->rejected_at = now;
    if (now - caller->rejected_since >= delay_ms) {
        caller->rejected_since = now;
        caller->rejected = 0;
    }
    uint32_t rejected = ++caller->rejected;
    if (rejected > MAX_REJECTED && (float)(rejected * USED_PERIODS) > total_used) caller->is_impatient = 1;
    return caller->is_impatient && num_delayed < NUM_DELAYED;
}

EXPORT(proxy_on_tick) void on_tick(uint32_t context) {
    uint64_t now = now_ms();
    if (now - refreshed_at >= REFRESH_MS) refresh(now);
    for (uint32_t i = 0; i < MAX_DELAYED_PER_TICK && num_delayed > 0; i++, num_delayed--) {
        if (delayed[first_delayed].due > now) break;
        uint32_t late = delayed[first_delayed].context;
        first_delayed = (first_delayed + 1) % NUM_DELAYED;
        if (find_stream(late)->context == 0) continue;  // its client has left
        set_context(late);
        reject();
    }
}

static void add_in_flight(struct Stream *stream, uint64_t now) {
    if (stream->context == 0 || stream->is_delayed || stream->is_in_flight) return;
    stream->is_in_flight = 1;
    used_by(&callers[stream->caller], now);
    callers[stream->caller].used += 1;
    callers[stream->caller].in_flight++;
    num_in_flight++;
}

static uint32_t reject_or_delay(struct Stream *stream, uint32_t context, uint32_t index, uint64_t now) {
    if (must_wait(&callers[index], now)) {
        *stream = (struct Stream){context, index, .is_delayed = 1};
        delayed[(first_delayed + num_delayed++) % NUM_DELAYED] = (struct Delayed){now + delay_ms, context};
    } else {
        reject();
    }
    return STOP_ITERATION;
}

EXPORT(proxy_on_request_headers) uint32_t on_request_headers(uint32_t context, uint32_t count, uint32_t is_end) {
    uint64_t now = now_ms();
    uint32_t index = find_caller();
    struct Stream *stream = find_stream(context);
    if (num_admitted >= NUM_STREAMS / 2 || !may_pass(&callers[index], now))
        return reject_or_delay(stream, context, index, now);
    *stream = (struct Stream){context, index};
    num_admitted++;
    if (is_end) add_in_flight(stream, now);
    return CONTINUE;
}

static uint32_t on_request_end(uint32_t context) {
    struct Stream *stream = find_stream(context);
    if (stream->context == 0 || stream->is_delayed || stream->is_in_flight) return CONTINUE;
    uint64_t now = now_ms();
    if (!may_pass(&callers[stream->caller], now)) {  // others' bodies were complete before this one
        num_admitted--;
        uint32_t index = stream->caller;
        remove_stream(stream);
        return reject_or_delay(find_stream(context), context, index, now);
    }
    add_in_flight(stream, now);
    return CONTINUE;
}

EXPORT(proxy_on_request_body) uint32_t on_request_body(uint32_t context, uint32_t size, uint32_t is_end) {
    return is_end ? on_request_end(context) : CONTINUE;
}

EXPORT(proxy_on_request_trailers) uint32_t on_request_trailers(uint32_t context, uint32_t count) {
    return on_request_end(context);
}

static void take_limit(struct Stream *stream) {
    char *text;
    uint32_t size;
    uint64_t now = now_ms();
    add_in_flight(stream, now);
    uint32_t is_success = get_header(RESPONSE_HEADERS, ":status", 7, &text, &size) == OK && size > 0 && text[0] == '2';
    if (is_success && get_header(RESPONSE_HEADERS, "grpc-status", 11, &text, &size) == OK && size > 0)
        is_success = text[0] == '0';
    if (is_success) callers[stream->caller].is_known = 1;
    if (get_header(RESPONSE_HEADERS, "x-sluice-limit", 14, &text, &size) != OK) return;
    char *end = text + size;
    uint32_t id = number(&text, end), new_sustained = number(&text, end), new_burst = number(&text, end);
    if (number(&text, end)) overload_until = now + overload_ms;
    uint32_t interval_ms = number(&text, end);
    remove_header(RESPONSE_HEADERS, "x-sluice-limit", 14);
    struct Source *oldest = &sources[0];
    for (uint32_t i = 0; i < NUM_SOURCES && oldest->id != id; i++) {
        if (sources[i].id == id || now - sources[i].received_at > now - oldest->received_at) oldest = &sources[i];
    }
    *oldest = (struct Source){now, id, new_sustained, new_burst, interval_ms};
    refresh(now);
}

static uint32_t end_if(uint32_t is_end, uint32_t context) {
    struct Stream *stream = find_stream(context);
    if (!is_end || stream->context == 0) return CONTINUE;
    num_admitted -= !stream->is_delayed;
    if (stream->is_in_flight) {
        callers[stream->caller].in_flight--;
        num_in_flight--;
    }
    remove_stream(stream);
    return CONTINUE;
}

EXPORT(proxy_on_response_headers) uint32_t on_response_headers(uint32_t context, uint32_t count, uint32_t is_end) {
    struct Stream *stream = find_stream(context);
    if (stream->context != 0 && !stream->is_delayed) take_limit(stream);
    return end_if(is_end, context);
}

EXPORT(proxy_on_response_body) uint32_t on_response_body(uint32_t context, uint32_t size, uint32_t is_end) {
    return end_if(is_end, context);
}

EXPORT(proxy_on_response_trailers) uint32_t on_response_trailers(uint32_t context, uint32_t count) {
    return end_if(1, context);
}

EXPORT(proxy_on_delete) void on_delete(uint32_t context) { end_if(1, context); }  // of one without a whole answer
