// Keys and values that are bytes with scales: how they are written, and their products.
//
// A slot's key has a scale for each 32 dimensions, its value one for all. Queries become bytes with a scale for each 32
// dimensions as well, and the weights of 64 keys, after they are multiplied with the scales of the values, bytes with one
// scale. So sums of products are integers, which are exact, and all sets compute the same ones.
#pragma once

#include "kernels/attention/cached.h"

namespace sluice {
namespace SLUICE_SET {

template <class Format>
constexpr bool kIsBytes = std::is_same_v<Format, CachedBytes>;

constexpr int kMostByte = 127, kMostWeight = 255;

SLUICE_INLINE float* floats_of(uint8_t* bytes) { return reinterpret_cast<float*>(bytes); }
SLUICE_INLINE const float* floats_of(const uint8_t* bytes) { return reinterpret_cast<const float*>(bytes); }

inline constexpr int runs_of(int width) { return (width + kScaledKeys - 1) / kScaledKeys; }

// The scales of a part's keys, [runs][16 slots], and those of its values, [16 slots]; they follow the bytes.
template <class Byte>
SLUICE_INLINE auto* key_scales(Byte* keys, int width) {
  return floats_of(keys + key_codes(width));
}
template <class Byte>
SLUICE_INLINE auto* value_scales(Byte* values, int width) {
  return floats_of(values + value_codes(width));
}

// Convert numbers to signed bytes, call store(i, byte) for each, and return their scale, NaN if one is not finite.
template <class Store>
SLUICE_INLINE float store_bytes(const float* x, int count, const Store& store_byte) {
  Lanes largest = all16(0), broken = all16(0);
  for (int i = 0; i < count; i += 16) {
    const Lanes value = load_some(x + i, count - i);
    largest = max16(largest, max16(value, value * all16(-1)));
    broken = fma16(value, all16(0), broken);
  }
  const float highest = max_of(largest);
  const Lanes inverse = all16(highest > 1e-30f ? kMostByte / highest : 0), middle = all16(12582912.0f);
  for (int i = 0; i < count; i += 16) {
    alignas(64) int32_t whole[16];  // the integers lie in the lowest bits of floats
    const Lanes shifted = fma16(load_some(x + i, count - i), inverse, middle);
    unroll<kRegisters>(
        [&](auto r) __attribute__((always_inline)) { store_int(whole + r * kLanes, as_int(shifted.v[r])); });
    for (int j = 0; j < 16 && i + j < count; ++j) store_byte(i + j, static_cast<int8_t>(whole[j]));
  }
  return highest / kMostByte + sum_of(broken);
}

// Write one token's key and value [head_dim] of a head to its slot; with `clears`, zero the scales of the values of the
// following slots of the part, which must be finite. The bytes of keys are unsigned.
inline void write_bytes(const Head& head, int slot, const float* key, const float* value, int head_dim, bool clears) {
  const int width = padded_to_16(head_dim), lane = slot % 16;
  uint8_t *keys = head.keys(slot / 16), *values = head.values(slot / 16);
  for (int run = 0; run < runs_of(head_dim); ++run) {
    const int first = run * kScaledKeys, count = head_dim - first < kScaledKeys ? head_dim - first : kScaledKeys;
    uint8_t* to = keys + static_cast<size_t>(first) * kRows + lane * 4;
    key_scales(keys, width)[run * kRows + lane] = store_bytes(key + first, count, [&](int i, int8_t byte) {
      to[i / 4 * 64 + i % 4] = static_cast<uint8_t>(byte + KeyFormat::kZero);
    });
  }
  uint8_t* to = values + lane / 4 * 64 + lane % 4;
  float* scales = value_scales(values, width);
  scales[lane] = store_bytes(value, head_dim, [&](int i, int8_t byte) {
    to[i / 16 * 256 + i % 16 * 4] = static_cast<uint8_t>(byte);
  });
  for (int s = lane + 1; clears && s < 16; ++s) scales[s] = 0;
}

// A piece's queries, and their weights of 64 keys, as bytes.
struct ByteRows {
  int8_t* queries;      // [rows][runs][32]
  float* query_scales;  // [rows][runs]
  int32_t* offsets;     // [rows][runs], what the sums of products with keys begin with
  uint8_t* weights;     // [rows][64]
  float* weight_scales;  // [rows]
};

inline void quantize_queries(const float* queries, int num_rows, int width, const ByteRows& rows) {
  const int runs = runs_of(width);
  for (int row = 0; row < num_rows; ++row)
    for (int run = 0; run < runs; ++run) {
      const int at = row * runs + run, first = run * kScaledKeys;
      int8_t* to = rows.queries + static_cast<size_t>(at) * kScaledKeys;
      const float* from = queries + static_cast<size_t>(row) * width + first;
      alignas(64) float numbers[kScaledKeys];
      store16(numbers, load16(from));
      store16(numbers + 16, width - first > 16 ? load16(from + 16) : all16(0));
      int32_t sum = 0;
      rows.query_scales[at] = store_bytes(numbers, kScaledKeys, [&](int i, int8_t byte) {
        to[i] = byte;
        sum += byte;
      });
      rows.offsets[at] = -KeyFormat::kZero * sum;
    }
}

SLUICE_INLINE Lanes floats_of_ints(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return to_float(as_int(v)); });
}
SLUICE_INLINE Lanes all16_int(int32_t value) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = as_float(set1_int(value)); });
  return x;
}

// Compute the scores [rows][kKeys] of M rows with N parts' keys, and prefetch those of `next`, which may be null.
template <int M, int N>
void score_bytes(const ByteRows& rows, int row, int width, const Slots& slots, int part, const Slots* next,
                 float* scores) {
  constexpr size_t kRunBytes = static_cast<size_t>(kScaledKeys) * kRows;
  const int runs = runs_of(width);
  Lanes total[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { total[m][n] = all16(0); });
  });
  for (int run = 0; run < runs; ++run) {
    const int8_t* x[M];
    const uint8_t* w[N];
    Lanes sums[M][N];
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      w[n] = slots.keys[part + n] + run * kRunBytes;
      if (next != nullptr) __builtin_prefetch(key_scales(next->keys[part + n], width) + run * kRows, 0, 2);
    });
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      const int at = (row + m) * runs + run;
      x[m] = rows.queries + static_cast<size_t>(at) * kScaledKeys;
      unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = all16_int(rows.offsets[at]); });
    });
    multiply_prefetching<KeyFormat>(sums, x, w, kScaledKeys / KeyFormat::kColumns,
                                    [&](int n, const uint8_t* at, int) __attribute__((always_inline)) {
                                      if (next != nullptr)
                                        __builtin_prefetch(next->keys[part + n] + (at - slots.keys[part + n]), 0, 2);
                                    });
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      const Lanes scale = load16(key_scales(slots.keys[part + n], width) + run * kRows);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        const Lanes product = floats_of_ints(sums[m][n]) * all16(rows.query_scales[(row + m) * runs + run]);
        total[m][n] = fma16(product, scale, total[m][n]);
      });
    });
  }
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      store16(scores + static_cast<size_t>(row + m) * kKeys + (part + n) * 16, total[m][n]);
    });
  });
}

// Multiply each row's weights [rows][kKeys] with the scales of the values, and convert them to unsigned bytes.
inline void quantize_weights(const float* weights, int num_rows, int width, const Slots& slots, const ByteRows& rows) {
  Lanes scales[kParts], broken = all16(0);
  unroll<kParts>([&](auto i) __attribute__((always_inline)) {
    scales[i] = load16(value_scales(slots.values[i], width));
    broken = fma16(scales[i], all16(0), broken);
  });
  const float any_broken = sum_of(broken);
  const Lanes middle = all16(12582912.0f);
  for (int row = 0; row < num_rows; ++row) {
    const float* from = weights + static_cast<size_t>(row) * kKeys;
    uint8_t* to = rows.weights + static_cast<size_t>(row) * kKeys;
    Lanes scaled[kParts];
    unroll<kParts>([&](auto i) __attribute__((always_inline)) { scaled[i] = load16(from + i * 16) * scales[i]; });
    const float highest = largest_of(max16(max16(scaled[0], scaled[1]), max16(scaled[2], scaled[3])));
    const Lanes inverse = all16(highest > 1e-30f ? kMostWeight / highest : 0);
    unroll<kParts>([&](auto i) __attribute__((always_inline)) {
      store_low_bytes(to + i * 16, fma16(scaled[i], inverse, middle));
    });
    rows.weight_scales[row] = highest * (1.0f / kMostWeight) + any_broken;
  }
}

// Compute sums [rows][width] = sums * rescale [rows] + weights · values for M rows and N groups of 16 dimensions, and
// prefetch the values of `next`, which may be null.
template <int M, int N>
void value_bytes_tile(const ByteRows& rows, const float* rescale, int row, int width, const Slots& slots, int group,
                      const Slots* next, float* sums) {
  Lanes ints[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { ints[m][n] = all16_int(0); });
  });
  for (int part = slots.begin; part < slots.end; ++part) {
    const uint8_t* x[M];
    const int8_t* w[N];
    for (int m = 0; m < M; ++m) x[m] = rows.weights + static_cast<size_t>(row + m) * kKeys + part * 16;
    for (int n = 0; n < N; ++n) w[n] = reinterpret_cast<const int8_t*>(slots.values[part]) + (group + n) * 256;
    multiply_prefetching<Int8Format>(ints, x, w, 16 / Int8Format::kColumns,
                                     [&](int, const uint8_t* at, int) __attribute__((always_inline)) {
                                       if (next != nullptr)
                                         __builtin_prefetch(next->values[part] + (at - slots.values[part]), 0, 2);
                                     });
  }
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    float* to = sums + static_cast<size_t>(row + m) * width + group * 16;
    const Lanes scale = all16(rows.weight_scales[row + m]), factor = all16(rescale[row + m]);
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      store16(to + n * 16, fma16(floats_of_ints(ints[m][n]), scale, load16(to + n * 16) * factor));
    });
  });
}

}  // namespace SLUICE_SET
}  // namespace sluice
