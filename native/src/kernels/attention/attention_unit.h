// Attention's products with bf16 keys and values on the tile unit: up to 16 rows with 16 keys or 16 dimensions at once.
#pragma once

#include "kernels/attention/cached.h"
#include "kernels/registers/tile_unit.h"

namespace sluice {
namespace SLUICE_SET {

// Registers 0 to 3 hold sums. Registers 4 and 6 hold inputs of 32 and of 16 columns, 5 and 7 keys or values of the same
// sizes. Rows are always computed 16 at a time, past the last one too, since to reconfigure the registers takes longer.
struct alignas(64) AttentionShape {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 32, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 8};
};

inline void begin_attention_on_unit() {
  const AttentionShape shape;
  _tile_loadconfig(&shape);
}

SLUICE_INLINE void prefetch_lines(const uint8_t* at, int count) {
  for (int line = 0; line < count; ++line) __builtin_prefetch(at + line * 64, 0, 2);
}

// Add the products of queries at column `d` with four parts' keys. GCC requires literal register numbers, so a macro.
#define SLUICE_UNIT_MEET(query, key)              \
  do {                                            \
    _tile_loadd(query, x + d, query_bytes);       \
    _tile_loadd(key, slots.keys[0] + d * 32, 64); \
    _tile_dpbf16ps(0, query, key);                \
    _tile_loadd(key, slots.keys[1] + d * 32, 64); \
    _tile_dpbf16ps(1, query, key);                \
    _tile_loadd(key, slots.keys[2] + d * 32, 64); \
    _tile_dpbf16ps(2, query, key);                \
    _tile_loadd(key, slots.keys[3] + d * 32, 64); \
    _tile_dpbf16ps(3, query, key);                \
  } while (false)

// Compute the scores [rows][kKeys] of queries [rows][width] with 64 keys, and prefetch the keys of `next`, which may be
// null.
inline void meet_keys_on_unit(const uint16_t* queries, int num_rows, int width, const Slots& slots, const Slots* next,
                              float* scores) {
  constexpr size_t kStride = kKeys * sizeof(float);
  const size_t query_bytes = static_cast<size_t>(width) * sizeof(uint16_t);
  for (int row = 0; row < num_rows; row += kUnitRows) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const uint16_t* x = queries + static_cast<size_t>(row) * width;
    int d = 0;
    for (; d + 32 <= width; d += 32) SLUICE_UNIT_MEET(4, 5);
    if (d < width) SLUICE_UNIT_MEET(6, 7);
    if (row == 0 && next != nullptr)
      for (const uint8_t* keys : next->keys) prefetch_lines(keys, width / 2);
    float* to = scores + static_cast<size_t>(row) * kKeys;
    _tile_stored(0, to, kStride);
    _tile_stored(1, to + 16, kStride);
    _tile_stored(2, to + 32, kStride);
    _tile_stored(3, to + 48, kStride);
  }
}

#undef SLUICE_UNIT_MEET

// Compute sums [rows][width] = sums * rescale [rows] + weights [rows][kKeys] · 64 values, and prefetch the values of
// `next`, which may be null.
inline void take_values_on_unit(const uint16_t* weights, const float* rescale, int num_rows, int width,
                                const Slots& slots, const Slots* next, float* sums) {
  constexpr size_t kStride = kKeys * sizeof(uint16_t);
  const size_t sum_bytes = static_cast<size_t>(width) * sizeof(float);
  for (int row = 0; row < num_rows; ++row) {
    const Lanes factor = all16(rescale[row]);
    float* to = sums + static_cast<size_t>(row) * width;
    for (int d = 0; d < width; d += 16) store16(to + d, load16(to + d) * factor);
  }
  if (next != nullptr)
    for (int part = slots.begin; part < slots.end; ++part) prefetch_lines(next->values[part], width / 2);
  for (int row = 0; row < num_rows; row += kUnitRows) {
    const uint16_t* x = weights + static_cast<size_t>(row) * kKeys;
    float* to = sums + static_cast<size_t>(row) * width;
    int d = 0;
    for (; d + 64 <= width; d += 64) {
      _tile_loadd(0, to + d, sum_bytes);
      _tile_loadd(1, to + d + 16, sum_bytes);
      _tile_loadd(2, to + d + 32, sum_bytes);
      _tile_loadd(3, to + d + 48, sum_bytes);
      for (int part = slots.begin; part < slots.end; ++part) {
        const uint8_t* values = slots.values[part] + d * 32;
        _tile_loadd(6, x + part * 16, kStride);
        _tile_loadd(7, values, 64);
        _tile_dpbf16ps(0, 6, 7);
        _tile_loadd(7, values + 512, 64);
        _tile_dpbf16ps(1, 6, 7);
        _tile_loadd(7, values + 1024, 64);
        _tile_dpbf16ps(2, 6, 7);
        _tile_loadd(7, values + 1536, 64);
        _tile_dpbf16ps(3, 6, 7);
      }
      _tile_stored(0, to + d, sum_bytes);
      _tile_stored(1, to + d + 16, sum_bytes);
      _tile_stored(2, to + d + 32, sum_bytes);
      _tile_stored(3, to + d + 48, sum_bytes);
    }
    for (; d < width; d += 16) {
      _tile_loadd(0, to + d, sum_bytes);
      for (int part = slots.begin; part < slots.end; ++part) {
        _tile_loadd(6, x + part * 16, kStride);
        _tile_loadd(7, slots.values[part] + d * 32, 64);
        _tile_dpbf16ps(0, 6, 7);
      }
      _tile_stored(0, to + d, sum_bytes);
    }
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
