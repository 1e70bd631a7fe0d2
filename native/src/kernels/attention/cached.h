// Addresses of cached keys and values, and functions that write new ones.
#pragma once

#include "kernels/formats.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

constexpr int kKeys = 64, kParts = kKeys / 16;

// The keys and values of one head of one sequence, whose blocks `table` lists.
struct Head {
  const Cache* cache;
  const int32_t* table;
  size_t offset;  // of this layer and kv head in a block
  size_t key_bytes, value_bytes;  // of a part

  uint8_t* at(int part, size_t first, size_t part_bytes) const {
    const int slot = part * 16, block = table[slot / cache->block_size];
    return cache->data + offset + first + static_cast<size_t>(block) * cache->block_bytes +
           static_cast<size_t>(slot % cache->block_size / 16) * part_bytes;
  }
  uint8_t* keys(int part) const { return at(part, 0, key_bytes); }
  uint8_t* values(int part) const {
    return at(part, static_cast<size_t>(cache->block_size / 16) * key_bytes, value_bytes);
  }
};

inline Head head_of(const Step& step, int layer, int sequence, int kv_head) {
  const CachePart& cache = step.weights->layers[layer].cache;
  const size_t table = static_cast<size_t>(cache.group) * step.batch.num_sequences + sequence;
  return {step.cache, step.batch.block_tables + table * step.batch.max_blocks,
          cache.offset + kv_head * cache.head_bytes, cache.key_bytes, cache.value_bytes};
}

// Store 16 numbers, or the first `count` of them, as floats or in the type of a product's inputs.
template <class Number>
SLUICE_INLINE void store_some(Number* p, const Lanes& x, int count) {
  if (count >= 16) return store_input(p, x);
  alignas(64) float some[16];
  store16(some, x);
  for (int i = 0; i < count; ++i) store_input(p + i, some[i]);
}

template <class Format>
SLUICE_INLINE void store_cached(typename Format::Weight* p, const Lanes& x) {
  if constexpr (std::is_same_v<Format, Float16Format>)
    store16_half(p, x);
  else
    store_input(p, x);
}

// Write one token's key and value [head_dim] of a head to its slot; with `clears`, zero the values of the following
// slots of the part. An unused slot must have finite values, since they are multiplied by a weight of zero.
template <class Format>
void write_slot(const Head& head, int slot, const float* key, const float* value, int head_dim, bool clears) {
  constexpr int pair = Format::kColumns;
  using Number = typename Format::Weight;
  auto* keys = reinterpret_cast<Number*>(head.keys(slot / 16));
  auto* values = reinterpret_cast<Number*>(head.values(slot / 16));
  const int lane = slot % 16, end = clears ? 16 : lane + 1;
  for (int d = 0; d < head_dim; d += 16) {
    const int count = head_dim - d < 16 ? head_dim - d : 16;
    alignas(64) Number numbers[16];
    store_cached<Format>(numbers, load_some(key + d, count));
    for (int i = 0; i < count; ++i) keys[(d + i) / pair * 16 * pair + lane * pair + (d + i) % pair] = numbers[i];
    store_cached<Format>(numbers, load_some(value + d, count));
    for (int s = lane; s < end; ++s)
      for (int i = 0; i < count; ++i)
        values[d / 16 * 256 + s / pair * 16 * pair + i * pair + s % pair] = s == lane ? numbers[i] : Number{0};
  }
}

// Write one token's key [head_dim] of a head that has no values, since its keys are used as values; with `clears`, zero
// the following slots of the part.
template <class Format>
void write_key(const Head& head, int slot, const float* key, int head_dim, bool clears) {
  constexpr int pair = Format::kColumns;
  using Number = typename Format::Weight;
  auto* keys = reinterpret_cast<Number*>(head.keys(slot / 16));
  const int lane = slot % 16, end = clears ? 16 : lane + 1;
  for (int d = 0; d < head_dim; d += 16) {
    const int count = head_dim - d < 16 ? head_dim - d : 16;
    alignas(64) Number numbers[16];
    store_cached<Format>(numbers, load_some(key + d, count));
    for (int i = 0; i < count; ++i) {
      Number* to = keys + (d + i) / pair * 16 * pair + (d + i) % pair;
      to[lane * pair] = numbers[i];
      for (int s = lane + 1; s < end; ++s) to[s * pair] = Number{0};
    }
  }
}

// Call body(format) with the format of keys and values that aren't bytes. Latents never are.
template <class Body>
void with_cached_numbers(const Cache& cache, const Body& body) {
  switch (cache.type) {
    case Stored::Float32:
      return body(Float32Format{});
    case Stored::BFloat16:
      return body(BFloat16Format{});
    case Stored::Float16:
      return body(Float16Format{});
    case Stored::Int8:
      return;
  }
}

// Call body(format) with the format of keys and values.
template <class Body>
void with_cached(const Cache& cache, const Body& body) {
  if (cache.type == Stored::Int8) return body(CachedBytes{});
  with_cached_numbers(cache, body);
}

// Keys and values of 64 slots of a head, in parts of 16.
struct Slots {
  const uint8_t *keys[kParts], *values[kParts];
  int begin, end;  // the parts with visible slots
};

// Return the 64 slots from `base` on, of which [earliest, last] are visible. Parts outside of this range are replaced
// by one inside it, and their scores are masked.
inline Slots slots_of(const Head& head, int base, int earliest, int last) {
  Slots slots;
  slots.begin = earliest > base ? (earliest - base) / 16 : 0;
  slots.end = last - base >= kKeys ? kParts : (last - base) / 16 + 1;
  for (int part = 0; part < kParts; ++part) {
    const int used = part < slots.begin ? slots.begin : part < slots.end ? part : slots.end - 1;
    slots.keys[part] = head.keys(base / 16 + used);
    slots.values[part] = head.values(base / 16 + used);
  }
  return slots;
}

}  // namespace SLUICE_SET
}  // namespace sluice
