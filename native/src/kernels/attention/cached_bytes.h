// Keys and values that are bytes with scales: how they are written, and their products.
//
// A number is (byte - 128) * scale. A slot's key has a scale for each 32 dimensions, its value one for all. Queries and
// weights are integers of 16 bits with a scale for each 32, as inputs of packed weights are, so sums of 32 products are
// exact and all sets compute the same ones.
#pragma once

#include "kernels/attention/cached.h"
#include "kernels/packed/packed_multiply.h"
#include "kernels/rows.h"

namespace sluice {
namespace SLUICE_SET {

template <class Format>
constexpr bool kIsBytes = std::is_same_v<Format, CachedBytes>;

SLUICE_INLINE float* floats_of(uint8_t* bytes) { return reinterpret_cast<float*>(bytes); }
SLUICE_INLINE const float* floats_of(const uint8_t* bytes) { return reinterpret_cast<const float*>(bytes); }

constexpr float kByteZero = 128;  // the byte that means 0
static_assert(kScaledKeys == kCodeRun);

// The scales of a part's keys, [runs][16 slots], and those of its values, [16 slots]; they follow the bytes.
template <class Byte>
SLUICE_INLINE auto* key_scales(Byte* keys, int width) {
  return floats_of(keys + key_codes(width));
}
template <class Byte>
SLUICE_INLINE auto* value_scales(Byte* values, int width) {
  return floats_of(values + value_codes(width));
}

// Convert numbers to bytes, call store(i, byte) for each, and return their scale, which is NaN if one is not finite.
template <class Store>
SLUICE_INLINE float store_bytes(const float* x, int count, const Store& store_byte) {
  Lanes largest = all16(0), broken = all16(0);
  for (int i = 0; i < count; i += 16) {
    const Lanes value = load_some(x + i, count - i);
    largest = max16(largest, max16(value, value * all16(-1)));
    broken = fma16(value, all16(0), broken);
  }
  const float highest = max_of(largest);
  const Lanes inverse = all16(highest > 1e-30f ? 127 / highest : 0), middle = all16(12582912.0f);
  for (int i = 0; i < count; i += 16) {
    alignas(64) int32_t whole[16];  // the integers lie in the lowest bits of floats
    const Lanes shifted = fma16(load_some(x + i, count - i), inverse, middle);
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      store_int(whole + r * kLanes, as_int(shifted.v[r]));
    });
    for (int j = 0; j < 16 && i + j < count; ++j) store_byte(i + j, static_cast<uint8_t>(whole[j] + 128));
  }
  return highest / 127 + sum_of(broken);
}

// Write one token's key and value [head_dim] of a head to its slot; with `clears`, zero the scales of the values of the
// following slots of the part, which must be finite.
inline void write_bytes(const Head& head, int slot, const float* key, const float* value, int head_dim, bool clears) {
  const int width = padded_to_16(head_dim), lane = slot % 16;
  uint8_t *keys = head.keys(slot / 16), *values = head.values(slot / 16);
  for (int first = 0; first < head_dim; first += kCodeRun) {
    const int count = head_dim - first < kCodeRun ? head_dim - first : kCodeRun;
    uint8_t* to = keys + static_cast<size_t>(first) * kRows + lane * 4;
    key_scales(keys, width)[first / kCodeRun * kRows + lane] =
        store_bytes(key + first, count, [&](int i, uint8_t byte) { to[i / 4 * 64 + i % 4] = byte; });
  }
  uint8_t* to = values + lane / 4 * 64 + lane % 4;
  float* scales = value_scales(values, width);
  scales[lane] =
      store_bytes(value, head_dim, [&](int i, uint8_t byte) { to[i / 16 * 256 + i % 16 * 4] = byte; });
  for (int s = lane + 1; clears && s < 16; ++s) scales[s] = 0;
}

// The queries of rows, and their weights of 64 keys, as integers.
struct ByteRows {
  PackedInputs* queries;  // [rows][spans]
  PackedInputs* weights;  // [rows]
};

inline void quantize_queries(const float* queries, int num_rows, int width, const ByteRows& rows) {
  const int spans = spans_of(width);
  for (int row = 0; row < num_rows; ++row)
    for (int first = 0; first < width; first += kCodeRun) {
      const float* from = queries + static_cast<size_t>(row) * width + first;
      alignas(64) float run[kCodeRun];
      store16(run, load16(from));
      store16(run + 16, load_some(from + 16, width - first - 16));
      quantize_run(run, rows.queries + row * spans + first / kSpan, first % kSpan / kCodeRun);
    }
}

// As many parts, or groups of 16 dimensions, as are multiplied at a time.
constexpr int kByteGroups = kInBytes ? 2 : 1;

// Prefetch a run of 32 columns of 16 rows.
SLUICE_INLINE void prefetch_run(const uint8_t* run) {
  for (int line = 0; line < kCodeRun * kRows; line += 64) __builtin_prefetch(run + line, 0, 2);
}

// Compute the scores [rows][kKeys] of queries with 64 keys, and prefetch the keys of `next`, which may be null.
inline void meet_bytes(const ByteRows& rows, int num_rows, int width, const Slots& slots, const Slots* next,
                       float* scores) {
  constexpr int kGroups = kByteGroups;
  const int spans = spans_of(width);
  std::memset(scores, 0, static_cast<size_t>(num_rows) * kKeys * sizeof(float));
  for (int part = 0; part < kParts; part += kGroups)
    for (int first = 0; first < width; first += kSpan) {
      const int columns = width - first < kSpan ? width - first : kSpan, num_runs = (columns + kCodeRun - 1) / kCodeRun;
      SpanScales scales[kGroups];
      SpanProduct<kGroups> span{
          {}, {}, num_runs, rows.queries + first / kSpan, static_cast<size_t>(spans), num_rows, scores + part * 16, kKeys};
      for (int n = 0; n < kGroups; ++n) {
        const float* from = key_scales(slots.keys[part + n], width) + first / kCodeRun * kRows;
        for (int run = 0; run < num_runs; ++run) {
          const Lanes scale = load16(from + run * kRows);
          store16(scales[n].scales + run * kRows, scale);
          store16(scales[n].addends + run * kRows, scale * all16(-kByteZero));
        }
        span.scales[n] = &scales[n];
        span.codes[n] = slots.keys[part + n] + static_cast<size_t>(first) * kRows;
      }
      for (int run = 0; run < num_runs; ++run) {
        const size_t at = static_cast<size_t>(run) * kCodeRun * kRows;
        for (int n = 0; next != nullptr && n < kGroups; ++n) {
          prefetch_run(next->keys[part + n] + static_cast<size_t>(first) * kRows + at);
          __builtin_prefetch(key_scales(next->keys[part + n], width) + (first / kCodeRun + run) * kRows, 0, 2);
        }
        multiply_run<kCodeRun>(span, run, [&](int n, int lane, VI(&quads)[8]) __attribute__((always_inline)) {
          unroll<8>([&](auto i) __attribute__((always_inline)) {
            quads[i] = load_int(span.codes[n] + at + i * 64 + lane);
          });
        });
      }
    }
}

// Multiply each row's weights [rows][kKeys] with the scales of its values, and quantize them.
inline void quantize_weights(const float* weights, int num_rows, int width, const Slots& slots, const ByteRows& rows) {
  for (int run = slots.begin / 2; run * 2 < slots.end; ++run) {
    Lanes scales[2];
    for (int half = 0; half < 2; ++half)
      scales[half] = load16(value_scales(slots.values[run * 2 + half], width));
    for (int row = 0; row < num_rows; ++row) {
      const float* from = weights + static_cast<size_t>(row) * kKeys + run * kCodeRun;
      alignas(64) float scaled[kCodeRun];
      for (int half = 0; half < 2; ++half) store16(scaled + half * 16, load16(from + half * 16) * scales[half]);
      quantize_run(scaled, rows.weights + row, run);
    }
  }
}

// Compute sums [rows][width] = sums * rescale [rows] + weights · 64 values, and prefetch the values of `next`, which may
// be null.
inline void take_bytes(const ByteRows& rows, const float* rescale, int num_rows, int width, const Slots& slots,
                       const Slots* next, float* sums) {
  for (int row = 0; row < num_rows; ++row) {
    const Lanes factor = all16(rescale[row]);
    float* to = sums + static_cast<size_t>(row) * width;
    for (int d = 0; d < width; d += 16) store16(to + d, load16(to + d) * factor);
  }
  SpanScales scales;  // the weights have those of the values
  for (int run = 0; run < kKeys / kCodeRun; ++run) {
    store16(scales.scales + run * kRows, all16(1));
    store16(scales.addends + run * kRows, all16(-kByteZero));
  }
  const auto multiply = [&](int group, auto count) __attribute__((always_inline)) {
    constexpr int N = decltype(count)::value;
    SpanProduct<N> span{{}, {}, kKeys / kCodeRun, rows.weights, 1, num_rows, sums + group * 16, static_cast<size_t>(width)};
    for (int n = 0; n < N; ++n) span.scales[n] = &scales;
    for (int run = slots.begin / 2; run * 2 < slots.end; ++run) {
      const size_t at = static_cast<size_t>(group) * 256;
      for (int part = run * 2; next != nullptr && part < run * 2 + 2; ++part)
        for (int line = 0; line < N * 256; line += 64) __builtin_prefetch(next->values[part] + at + line, 0, 2);
      multiply_run<kCodeRun>(span, run, [&](int n, int lane, VI(&quads)[8]) __attribute__((always_inline)) {
        unroll<8>([&](auto i) __attribute__((always_inline)) {
          quads[i] = load_int(slots.values[run * 2 + i / 4] + at + n * 256 + i % 4 * 64 + lane);
        });
      });
    }
  };
  int group = 0;
  for (; group + kByteGroups <= width / 16; group += kByteGroups)
    multiply(group, std::integral_constant<int, kByteGroups>{});
  if (group < width / 16) multiply(group, std::integral_constant<int, 1>{});
}

}  // namespace SLUICE_SET
}  // namespace sluice
