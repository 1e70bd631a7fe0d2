// The tiles of a product: how many rows and groups are computed at once.
#pragma once

#include "kernels/linear.h"
#if defined(SLUICE_SET_amx)
#include "kernels/registers/tile_unit.h"
#endif

namespace sluice {
namespace SLUICE_SET {

// The arguments of a tile; results are written to out[row][group][16].
struct Tile {
  const void* x;
  size_t x_stride;  // in elements
  int num_rows;     // if fewer than the tile's rows, the last row is computed repeatedly and the copies are ignored
  const uint8_t* w;
  size_t group_bytes;
  int padded_cols;
  float* out;
  const uint16_t* group_scales;  // of Int4
  size_t ahead;                  // distance in bytes at which weights are prefetched, or 0
};

template <class Format, int M, int N>
void compute_tile(const Tile& tile) {
  const typename Format::Input* x[M];
  const typename Format::Weight* w[N];
  for (int m = 0; m < M; ++m)
    x[m] = static_cast<const typename Format::Input*>(tile.x) +
           static_cast<size_t>(m < tile.num_rows ? m : tile.num_rows - 1) * tile.x_stride;
  for (int n = 0; n < N; ++n)
    w[n] = reinterpret_cast<const typename Format::Weight*>(tile.w + static_cast<size_t>(n) * tile.group_bytes);
  Lanes sums[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = all16(0); });
  });
  if constexpr (std::is_same_v<Format, Int4Format>) {
    const uint16_t* scales[N];
    for (int n = 0; n < N; ++n) scales[n] = tile.group_scales + static_cast<size_t>(n) * (tile.padded_cols / 32) * 16;
    multiply_int4<M, N>(sums, x, w, scales, tile.padded_cols, tile.ahead);
  } else {
    multiply<Format, M, N>(sums, x, w, tile.padded_cols / Format::kColumns, tile.ahead);
  }
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { store16(tile.out + (m * N + n) * 16, sums[m][n]); });
  });
}

using TileFunction = void (*)(const Tile&);

// The tiles for up to `rows` rows, by number of groups: 1, 2, 4, 8; null if there are too few registers. Every entry
// has a tile of two groups, since gate and up are computed in pairs.
struct TileRow {
  int rows;
  TileFunction by_groups[4];
};

template <class Format, int M, int N>
constexpr TileFunction kTile = compute_tile<Format, M, N>;

#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
template <class F>
constexpr TileRow kTiles[] = {
    {1, {kTile<F, 1, 1>, kTile<F, 1, 2>, kTile<F, 1, 4>, kTile<F, 1, 8>}},
    {2, {kTile<F, 2, 1>, kTile<F, 2, 2>, kTile<F, 2, 4>, kTile<F, 2, 8>}},
    {4, {kTile<F, 4, 1>, kTile<F, 4, 2>, kTile<F, 4, 4>, nullptr}},
    {6, {kTile<F, 6, 1>, kTile<F, 6, 2>, kTile<F, 6, 4>, nullptr}},
    {8, {kTile<F, 8, 1>, kTile<F, 8, 2>, nullptr, nullptr}},
    {12, {kTile<F, 12, 1>, kTile<F, 12, 2>, nullptr, nullptr}},
};
#elif defined(SLUICE_SET_avx2)
template <class F>
constexpr TileRow kTiles[] = {
    {1, {kTile<F, 1, 1>, kTile<F, 1, 2>, kTile<F, 1, 4>, nullptr}},
    {2, {kTile<F, 2, 1>, kTile<F, 2, 2>, nullptr, nullptr}},
};
#else
template <class F>
constexpr TileRow kTiles[] = {
    {1, {kTile<F, 1, 1>, kTile<F, 1, 2>, nullptr, nullptr}},
};
#endif

template <class Format>
SLUICE_INLINE const TileRow& tiles_for(int rows) {
  constexpr int count = sizeof(kTiles<Format>) / sizeof(TileRow);
  int index = 0;
  while (index + 1 < count && kTiles<Format>[index].rows < rows) ++index;
  return kTiles<Format>[index];
}

// The distance at which a tile prefetches. A tile of many rows computes long enough to leave memory idle, so it
// prefetches the next tile's weights. Few rows keep memory busy anyway, except if four-bit weights must be unpacked.
SLUICE_INLINE size_t ahead_of(int rows, int count, const Matrix& matrix) {
  return rows > 4 || matrix.group_scales != nullptr ? count * matrix.group_bytes : 0;
}

// multiply_block for formats that have tiles.
template <class Format>
void multiply_tiles(const Matrix& matrix, const void* x, size_t x_stride, int num_rows, int from, int to,
                    const Finish& finish) {
#if defined(SLUICE_SET_amx)
  constexpr bool is_exact = std::is_same_v<Format, Int8Format>;  // so one or two rows can use the faster kernel
  if constexpr (kIsOnUnit<Format>)
    if (!is_exact || num_rows > 2)
      return multiply_block_on_unit<Format, kMaxTileGroups>(matrix, x, x_stride, num_rows, from, to, finish);
  if constexpr (std::is_same_v<Format, Int4Format>)
    return multiply_int4_on_unit<kMaxTileGroups>(matrix, static_cast<const Half*>(x), x_stride, num_rows, from, to,
                                                 finish);
#endif
  alignas(64) float out[kMaxTileRows * kMaxTileGroups * 16];
  const auto* input = static_cast<const typename Format::Input*>(x);
  for (int row = 0; row < num_rows;) {
    const TileRow& tiles = tiles_for<Format>(num_rows - row);
    const int rows = num_rows - row < tiles.rows ? num_rows - row : tiles.rows;
    for (int group = from; group < to;) {
      int size = 3;
      while (tiles.by_groups[size] == nullptr || group + (1 << size) > to) --size;
      const int count = 1 << size;
      tiles.by_groups[size]({input + static_cast<size_t>(row) * x_stride, x_stride, rows,
                             matrix.data + group * matrix.group_bytes, matrix.group_bytes, matrix.padded_cols, out,
                             matrix.group_scales + static_cast<size_t>(group) * (matrix.padded_cols / 32) * 16,
                             row == 0 ? ahead_of(rows, count, matrix) : 0});
      finish({row, rows, group, count, out, static_cast<size_t>(count) * 16});
      group += count;
    }
    row += rows;
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
