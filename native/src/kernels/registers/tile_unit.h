// Products on the CPU's tile unit (AMX), which multiplies 16 rows of inputs with 16 rows of weights, 64 bytes of each
// at once. A packed weight has the layout that the unit reads: 1,024 consecutive bytes are 16 rows of a group and 32
// columns of bf16, or 64 columns of int8.
//
// Each sum adds this number of columns at a time, in one order, so its bits don't depend on other rows and groups.
// Sums of bf16 differ from those of the dot products of other sets; sums of int8 are exact.
#pragma once

#include <immintrin.h>

#include "kernels/linear.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

template <class Format>
constexpr bool kIsOnUnit = std::is_same_v<Format, BFloat16Format> || std::is_same_v<Format, Int8Format>;

constexpr int kUnitRows = 16;
constexpr size_t kUnitBytes = 1024;

// The configuration of the eight tile registers, rows and bytes per row: 0 to 3 are sums, 4 and 7 inputs, 5 and 6
// weights. Registers 2, 3 and 7 have `second` rows if it is not 0.
struct alignas(64) UnitShape {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16];

  explicit UnitShape(int first, int second = 0) : rows{} {
    for (int i = 0; i < 8; ++i) rows[i] = static_cast<uint8_t>(first);
    rows[5] = rows[6] = kUnitRows;
    if (second > 0) rows[2] = rows[3] = rows[7] = static_cast<uint8_t>(second);
  }
};

// A row's sums [groups][16] begin `out_stride` floats after those of the previous row.
struct UnitTile {
  const uint8_t* x;
  size_t x_bytes;  // from row to row
  const uint8_t* w;
  size_t group_bytes;
  size_t w_bytes;  // bytes of each group's weights to process
  float* out;
  size_t out_stride;
  bool continues;  // add to the sums in `out`
};

// Macros, since GCC requires literal register numbers.
#define SLUICE_UNIT_ADD(sum, input, weight)           \
  do {                                                \
    if constexpr (std::is_same_v<Format, Int8Format>) \
      _tile_dpbusd(sum, input, weight);               \
    else                                              \
      _tile_dpbf16ps(sum, input, weight);             \
  } while (false)
#define SLUICE_UNIT_BEGIN(sum, at)                           \
  do {                                                       \
    if (tile.continues)                                      \
      _tile_loadd(sum, at, tile.out_stride * sizeof(float)); \
    else                                                     \
      _tile_zero(sum);                                       \
  } while (false)

// Multiply up to 16 rows with N groups: 1, 2 or 4. The weights after the next are prefetched.
template <class Format, int N>
void multiply_some(const UnitTile& tile) {
  const auto prefetch = [](const uint8_t* w) __attribute__((always_inline)) {
    unroll<16>([&](auto i) __attribute__((always_inline)) { __builtin_prefetch(w + 2 * kUnitBytes + i * 64, 0, 3); });
  };
  SLUICE_UNIT_BEGIN(0, tile.out);
  if constexpr (N > 1) SLUICE_UNIT_BEGIN(1, tile.out + 16);
  if constexpr (N > 2) SLUICE_UNIT_BEGIN(2, tile.out + 32);
  if constexpr (N > 2) SLUICE_UNIT_BEGIN(3, tile.out + 48);
  const uint8_t *x = tile.x, *w = tile.w, *end = w + tile.w_bytes;
  const size_t next = tile.group_bytes;
  for (; w < end; w += kUnitBytes, x += 64) {
    _tile_loadd(4, x, tile.x_bytes);
    prefetch(w);
    _tile_loadd(5, w, 64);
    SLUICE_UNIT_ADD(0, 4, 5);
    if constexpr (N > 1) {
      prefetch(w + next);
      _tile_loadd(6, w + next, 64);
      SLUICE_UNIT_ADD(1, 4, 6);
    }
    if constexpr (N > 2) {
      prefetch(w + 2 * next);
      _tile_loadd(5, w + 2 * next, 64);
      SLUICE_UNIT_ADD(2, 4, 5);
      prefetch(w + 3 * next);
      _tile_loadd(6, w + 3 * next, 64);
      SLUICE_UNIT_ADD(3, 4, 6);
    }
  }
  const size_t stride = tile.out_stride * sizeof(float);
  _tile_stored(0, tile.out, stride);
  if constexpr (N > 1) _tile_stored(1, tile.out + 16, stride);
  if constexpr (N > 2) _tile_stored(2, tile.out + 32, stride);
  if constexpr (N > 2) _tile_stored(3, tile.out + 48, stride);
}

// Multiply 17 to 32 rows with N groups: 1 or 2. Weights bypass the L1 cache, which holds the inputs.
template <class Format, int N>
void multiply_many(const UnitTile& tile) {
  float* below = tile.out + kUnitRows * tile.out_stride;
  SLUICE_UNIT_BEGIN(0, tile.out);
  SLUICE_UNIT_BEGIN(2, below);
  if constexpr (N > 1) SLUICE_UNIT_BEGIN(1, tile.out + 16);
  if constexpr (N > 1) SLUICE_UNIT_BEGIN(3, below + 16);
  const uint8_t *x = tile.x, *second = x + kUnitRows * tile.x_bytes, *w = tile.w, *end = w + tile.w_bytes;
  for (; w < end; w += kUnitBytes, x += 64, second += 64) {
    _tile_loadd(4, x, tile.x_bytes);
    _tile_stream_loadd(5, w, 64);
    SLUICE_UNIT_ADD(0, 4, 5);
    _tile_loadd(7, second, tile.x_bytes);
    SLUICE_UNIT_ADD(2, 7, 5);
    if constexpr (N > 1) {
      _tile_stream_loadd(6, w + tile.group_bytes, 64);
      SLUICE_UNIT_ADD(1, 4, 6);
      SLUICE_UNIT_ADD(3, 7, 6);
    }
  }
  const size_t stride = tile.out_stride * sizeof(float);
  _tile_stored(0, tile.out, stride);
  _tile_stored(2, below, stride);
  if constexpr (N > 1) _tile_stored(1, tile.out + 16, stride);
  if constexpr (N > 1) _tile_stored(3, below + 16, stride);
}

// multiply_block of linear.h on the tile unit, for at most kMostGroups groups.
template <class Format, int kMostGroups>
void multiply_block_on_unit(const Matrix& matrix, const void* inputs, size_t stride, int num_rows, int from, int to,
                            const Finish& finish) {
  // Weight columns per pass, so that inputs stay in the L1 cache. The first rows read whole groups, which suits memory.
  constexpr size_t kColumnBytes = 10 * kUnitBytes;
  alignas(64) float out[2 * kUnitRows * kMostGroups * 16];
  const int count = to - from;
  const size_t x_bytes = stride * sizeof(typename Format::Input), out_stride = static_cast<size_t>(count) * 16;
  const uint8_t* weights = matrix.data + from * matrix.group_bytes;
  for (int row = 0; row < num_rows; row += 2 * kUnitRows) {
    const int rows = num_rows - row < 2 * kUnitRows ? num_rows - row : 2 * kUnitRows;
    const bool is_many = rows > kUnitRows;
    const UnitShape shape(is_many ? kUnitRows : rows, is_many ? rows - kUnitRows : 0);
    _tile_loadconfig(&shape);
    const auto* x = static_cast<const uint8_t*>(inputs) + static_cast<size_t>(row) * x_bytes;
    const size_t step = is_many && row > 0 ? kColumnBytes : matrix.group_bytes;
    for (size_t at = 0; at < matrix.group_bytes; at += step) {
      const size_t size = matrix.group_bytes - at < step ? matrix.group_bytes - at : step;
      for (int group = 0; group < count;) {
        const int left = count - group;
        const UnitTile tile{x + at / kUnitRows, x_bytes, weights + group * matrix.group_bytes + at,
                            matrix.group_bytes, size,    out + group * 16,
                            out_stride,         at > 0};
        if (is_many) {
          left > 1 ? multiply_many<Format, 2>(tile) : multiply_many<Format, 1>(tile);
          group += left > 1 ? 2 : 1;
        } else {
          left > 3   ? multiply_some<Format, 4>(tile)
          : left > 1 ? multiply_some<Format, 2>(tile)
                     : multiply_some<Format, 1>(tile);
          group += left > 3 ? 4 : left > 1 ? 2 : 1;
        }
      }
    }
    finish({row, rows, from, count, out, out_stride});
  }
}

// Widen 16 rows and 32 columns of four-bit weights to bf16, in the layout that the unit reads.
SLUICE_INLINE void widen_int4(const uint32_t* words, uint16_t* wide) {
  for (int word = 0; word < Int4Format::kSteps; ++word) {
    const IntLanes columns = load16_int(words + word * 16);
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      _mm512_store_si512(wide + (word * 4 + pair) * 32, Int4Format::pair<decltype(pair)::value>(columns));
    });
  }
}

// Multiply up to 16 rows of x with each of `blocks` blocks of 32 columns of widened weights, into parts [4][16][16].
SLUICE_INLINE void multiply_widened(const uint8_t* x, size_t x_bytes, const uint16_t* wide, int blocks, float* parts) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, x, x_bytes);
  _tile_loadd(5, wide, 64);
  _tile_dpbf16ps(0, 4, 5);
  if (blocks > 1) {
    _tile_loadd(4, x + 64, x_bytes);
    _tile_loadd(6, wide + 512, 64);
    _tile_dpbf16ps(1, 4, 6);
  }
  if (blocks > 2) {
    _tile_loadd(4, x + 128, x_bytes);
    _tile_loadd(5, wide + 1024, 64);
    _tile_dpbf16ps(2, 4, 5);
  }
  if (blocks > 3) {
    _tile_loadd(4, x + 192, x_bytes);
    _tile_loadd(6, wide + 1536, 64);
    _tile_dpbf16ps(3, 4, 6);
  }
  _tile_stored(0, parts, 64);
  _tile_stored(1, parts + 256, 64);
  _tile_stored(2, parts + 512, 64);
  _tile_stored(3, parts + 768, 64);
}

// multiply_block of linear.h on the tile unit for four-bit weights: sums of 32 columns are scaled and then added.
template <int kMostGroups>
void multiply_int4_on_unit(const Matrix& matrix, const Half* inputs, size_t stride, int num_rows, int from, int to,
                           const Finish& finish) {
  constexpr int kRowsAtOnce = 64, kBlocksAtOnce = 4;
  alignas(64) float out[kRowsAtOnce * kMostGroups * 16], parts[kBlocksAtOnce * kUnitRows * 16];
  alignas(64) uint16_t wide[kBlocksAtOnce * kUnitBytes / 2];
  const int count = to - from, num_blocks = matrix.padded_cols / 32;
  const size_t out_stride = static_cast<size_t>(count) * 16, x_bytes = stride * sizeof(Half);
  for (int row = 0; row < num_rows; row += kRowsAtOnce) {
    const int rows = num_rows - row < kRowsAtOnce ? num_rows - row : kRowsAtOnce;
    const int tile_rows = rows < kUnitRows ? rows : kUnitRows;
    const UnitShape shape(tile_rows);
    _tile_loadconfig(&shape);
    const auto* x = reinterpret_cast<const uint8_t*>(inputs + static_cast<size_t>(row) * stride);
    std::memset(out, 0, static_cast<size_t>(rows) * out_stride * sizeof(float));
    for (int group = 0; group < count; ++group) {
      const auto* words = reinterpret_cast<const uint32_t*>(matrix.data + (from + group) * matrix.group_bytes);
      const uint16_t* scales = matrix.group_scales + static_cast<size_t>(from + group) * num_blocks * 16;
      for (int block = 0; block < num_blocks; block += kBlocksAtOnce) {
        const int blocks = num_blocks - block < kBlocksAtOnce ? num_blocks - block : kBlocksAtOnce;
        Lanes scale[kBlocksAtOnce];
        for (int b = 0; b < blocks; ++b) {
          widen_int4(words + (block + b) * 64, wide + b * 512);
          scale[b] = Int4Format::scales(scales + (block + b) * 16);
        }
        for (int top = 0; top < rows; top += kUnitRows) {
          // The last tile begins early and recomputes rows, since to reconfigure the registers takes longer.
          const int begin = top + tile_rows > rows ? rows - tile_rows : top;
          multiply_widened(x + begin * x_bytes + block * 64, x_bytes, wide, blocks, parts);
          for (int m = top - begin; m < tile_rows; ++m) {
            float* at = out + (begin + m) * out_stride + group * 16;
            Lanes sum = load16(at);
            for (int b = 0; b < blocks; ++b) sum = fma16(load16(parts + b * 256 + m * 16), scale[b], sum);
            store16(at, sum);
          }
        }
      }
    }
    finish({row, rows, from, count, out, out_stride});
  }
}

// Add products of `numbers` with themselves to four sums, 4 * rounds times, and store one of the sums.
template <class Format>
void multiply_on_unit(const uint8_t* numbers, int rounds, float* out) {
  const UnitShape shape(kUnitRows);
  _tile_loadconfig(&shape);
  _tile_loadd(4, numbers, 64);
  _tile_loadd(5, numbers, 64);
  for (int round = 0; round < rounds; ++round) {
    SLUICE_UNIT_ADD(0, 4, 5);
    SLUICE_UNIT_ADD(1, 4, 5);
    SLUICE_UNIT_ADD(2, 4, 5);
    SLUICE_UNIT_ADD(3, 4, 5);
  }
  _tile_stored(0, out, 64);
  _tile_release();
}

#undef SLUICE_UNIT_ADD
#undef SLUICE_UNIT_BEGIN

}  // namespace SLUICE_SET
}  // namespace sluice
