// The products of one instruction set, with weights of all formats.
#include "kernels/packed/packed_multiply.h"
#include "kernels/tiles.h"

namespace sluice {
namespace SLUICE_SET {

template <class Format>
void multiply_block(const Matrix& matrix, const void* x, size_t x_stride, int num_rows, int from, int to,
                    const Finish& finish) {
  if (to > matrix.groups) to = matrix.groups;
  if constexpr (std::is_same_v<Format, PackedFormat>)
    multiply_packed<kMaxTileGroups>(matrix, static_cast<const float*>(x), x_stride, num_rows, from, to, finish);
  else if constexpr (!std::is_same_v<Format, HalfFormat>)
    multiply_tiles<Format>(matrix, x, x_stride, num_rows, from, to, finish);
  else if (matrix.type == Type::Int4)
    multiply_tiles<Int4Format>(matrix, x, x_stride, num_rows, from, to, finish);
  else
    multiply_tiles<BFloat16Format>(matrix, x, x_stride, num_rows, from, to, finish);
}

#define SLUICE_DEFINE_BLOCK(Format) \
  template void multiply_block<Format>(const Matrix&, const void*, size_t, int, int, int, const Finish&);
SLUICE_DEFINE_BLOCK(Float32Format)
SLUICE_DEFINE_BLOCK(BFloat16Format)
SLUICE_DEFINE_BLOCK(HalfFormat)
SLUICE_DEFINE_BLOCK(Int8Format)
SLUICE_DEFINE_BLOCK(PackedFormat)
#undef SLUICE_DEFINE_BLOCK

const char* product_name(const PackedKind& kind) {
  static_assert(kLanes == 16 || kLanes == 8 || kLanes == 4);
  if (kind.is_float()) return kLanes == 16 ? "float32 x 16" : kLanes == 8 ? "float32 x 8" : "float32 x 4";
  if (kInBytes) return "bytes x 16";
  return kLanes == 16 ? "pairs x 16" : kLanes == 8 ? "pairs x 8" : "pairs x 4";
}

void unpack_row(const Matrix& matrix, int row, float* out) {
  if (matrix.type == Type::Packed) return unpack_packed(matrix, row, out);
  const uint8_t* group = matrix.data + static_cast<size_t>(row / 16) * matrix.group_bytes;
  const int lane = row % 16;
  if (matrix.type == Type::Float32) {
    const auto* w = reinterpret_cast<const float*>(group);
    for (int i = 0; i < matrix.cols; ++i) out[i] = w[i * 16 + lane];
  } else if (matrix.type == Type::BFloat16) {
    const auto* w = reinterpret_cast<const uint16_t*>(group);
    for (int i = 0; i < matrix.cols; ++i) out[i] = bf16_to_float(w[(i / 2) * 32 + lane * 2 + i % 2]);
  } else {
    const auto* w = reinterpret_cast<const int8_t*>(group);
    const float scale = matrix.row_scales[row];
    for (int i = 0; i < matrix.cols; ++i) out[i] = scale * static_cast<float>(w[(i / 4) * 64 + lane * 4 + i % 4]);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
