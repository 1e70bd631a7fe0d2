// Products of rows with a packed weight, computed tile by tile; a function processes each tile's results.
#pragma once

#include "kernels/formats.h"
#include "kernels/function_ref.h"
#include "kernels/packed/packed_inputs.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

constexpr int kMaxTileRows = 12, kMaxTileGroups = 8;

// The format of weights in bf16 or in four bits, whose inputs are the same; the matrix has the type.
struct HalfFormat {
  using Input = Half;
};

// The number of groups in a block, the unit that is assigned to threads and stays in the cache between tiles of rows.
inline int groups_per_block(const Matrix& matrix, int num_rows, int num_threads) {
#if defined(SLUICE_SET_amx)
  constexpr size_t kNearBytes = 1280 * 1024;  // bytes of weights that fit a core's L2 cache together with the inputs
#else
  constexpr size_t kNearBytes = 384 * 1024;
#endif
  int block = kMaxTileGroups;
  while (block > 2 && num_rows > kMaxTileRows / 2 && block * matrix.group_bytes > kNearBytes) block /= 2;
  while (block > 2 && matrix.groups < block * 4 * num_threads) block /= 2;
  return block;
}

// The results of a tile: sums [num_rows][count][16] of the rows from `row` on for the groups from `group` on. A row's
// sums begin `stride` floats after those of the previous row.
struct TileSums {
  int row, num_rows, group, count;
  float* sums;
  size_t stride;

  // Call f(row, group, sums, count) with the sums [count][16] of each row.
  template <class F>
  SLUICE_INLINE void each_row(const F& f) const {
    for (int m = 0; m < num_rows; ++m) f(row + m, group, sums + m * stride, count);
  }
};
using Finish = FunctionRef<const TileSums&>;

// Multiply one block, the groups [from, to), and call `finish` for the results. A pair of groups that begins at an even
// group is never split. products.cpp defines it for all formats.
template <class Format>
void multiply_block(const Matrix& matrix, const void* x, size_t x_stride, int num_rows, int from, int to,
                    const Finish& finish);

// Unpack one row of a packed weight to floats.
void unpack_row(const Matrix& matrix, int row, float* out);

// Convert the Int8 sums [count][16] of one row to floats, in place. Inputs were stored with an offset of 128.
inline void scale_sums(const Matrix& matrix, int group, int count, float input_scale, float* sums) {
  for (int i = 0; i < count * 16; ++i) {
    int32_t sum;
    std::memcpy(&sum, sums + i, sizeof sum);
    const int row = group * 16 + i;
    sums[i] = static_cast<float>(sum - matrix.row_sums[row]) * (matrix.row_scales[row] * input_scale);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
