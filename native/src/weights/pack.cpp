#include "weights/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "weights/packed.h"

namespace sluice {

namespace {

float half_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

int columns_multiple(Type type) {
  switch (type) {
    case Type::Float32:
      return 1;
    case Type::BFloat16:
      return 32;
    case Type::Int8:
      return 64;
    case Type::Int4:
    case Type::Packed:
      return 32;
  }
  return 1;
}

// The nearest integer level. A NaN becomes the lowest level; its scale is NaN in this case.
int level_of(float value, int lowest, int highest) {
  const float least = static_cast<float>(lowest), most = static_cast<float>(highest);
  const float above = value > least ? value : least;
  return static_cast<int>(std::lrint(above < most ? above : most));
}

// NaN if a value is not finite, so that results computed from the values are NaN as well; otherwise 0.
float brokenness(const float* values, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * 0;
  return sum;
}

// Scale each row to 127.
void pack_int8(Matrix& matrix, int row, const float* values) {
  float largest = 0;
  for (int i = 0; i < matrix.cols; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float inverse = largest > 0 ? 127 / largest : 0;
  auto* group = reinterpret_cast<int8_t*>(matrix.data + static_cast<size_t>(row / 16) * matrix.group_bytes);
  int sum = 0;
  for (int i = 0; i < matrix.cols; ++i) {
    const int level = level_of(values[i] * inverse, -127, 127);
    group[static_cast<size_t>(i / 4) * 64 + row % 16 * 4 + i % 4] = static_cast<int8_t>(level);
    sum += level;
  }
  matrix.row_scales[row] = largest / 127 + brokenness(values, matrix.cols);
  matrix.row_sums[row] = 128 * sum;
}

// Scale 32 columns of a row so that the value farthest from zero becomes -8, which uses all 16 levels.
void pack_int4(Matrix& matrix, int row, const float* values) {
  uint8_t* group = matrix.data + static_cast<size_t>(row / 16) * matrix.group_bytes;
  for (int from = 0; from < matrix.padded_cols; from += 32) {
    const int to = std::min(from + 32, matrix.cols);
    float farthest = 0;
    for (int i = from; i < to; ++i)
      if (std::fabs(values[i]) > std::fabs(farthest)) farthest = values[i];
    const uint16_t bits = to_bf16(farthest / -8 + brokenness(values + from, to - from));
    const float scale = from_bf16(bits);
    matrix.group_scales[(static_cast<size_t>(row / 16) * (matrix.padded_cols / 32) + from / 32) * 16 + row % 16] = bits;
    for (int i = from; i < from + 32; ++i) {
      const int value = 8 + (i < to && scale != 0 ? level_of(values[i] / scale, -8, 7) : 0);
      const int column = i % 8, nibble = column % 2 * 4 + column / 2;
      uint8_t& pair = group[static_cast<size_t>(i / 8) * 64 + row % 16 * 4 + nibble / 2];
      pair = static_cast<uint8_t>(nibble % 2 == 0 ? (pair & 0xf0) | value : (pair & 0x0f) | value << 4);
    }
  }
}

}  // namespace

float read_stored(const void* data, Stored stored, size_t index) {
  if (stored == Stored::Float32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return stored == Stored::BFloat16 ? from_bf16(bits) : half_to_float(bits);
}

void store_rows(Type type, void* to, const void* data, Stored stored, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (type == Type::Float32) {
      static_cast<float*>(to)[i] = read_stored(data, stored, i);
    } else if (stored == Stored::BFloat16) {
      static_cast<uint16_t*>(to)[i] = static_cast<const uint16_t*>(data)[i];
    } else {
      static_cast<uint16_t*>(to)[i] = to_bf16(read_stored(data, stored, i));
    }
  }
}

Matrix plan_matrix(Type type, int rows, int cols) {
  Matrix matrix;
  const int multiple = columns_multiple(type);
  matrix.type = type;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.groups = groups_of(rows);
  matrix.padded_cols = (cols + multiple - 1) / multiple * multiple;
  if (type == Type::Packed) return matrix;  // its sizes follow from its groups' formats
  const size_t bits = type == Type::Float32 ? 32 : type == Type::BFloat16 ? 16 : type == Type::Int8 ? 8 : 4;
  matrix.group_bytes = static_cast<size_t>(matrix.padded_cols) * kRows * bits / 8;
  return matrix;
}

size_t matrix_bytes(const Matrix& matrix, bool has_bias) {
  const size_t rows = static_cast<size_t>(matrix.groups) * kRows;
  size_t bytes = matrix.type == Type::Packed ? 0 : round_up(matrix.group_bytes * matrix.groups, 64);
  for (int i = 0; matrix.packed != nullptr && i < matrix.groups; ++i)
    bytes += packed_group_bytes(*matrix.packed[i].kind, matrix.cols);
  if (matrix.type == Type::Int8) bytes += 2 * round_up(rows * 4, 64);
  if (matrix.type == Type::Int4) bytes += round_up(rows * (matrix.padded_cols / 32) * 2, 64);
  return bytes + (has_bias ? round_up(rows * 4, 64) : 0);
}

void place_matrix(Matrix& matrix, bool has_bias, uint8_t* memory) {
  const size_t rows = static_cast<size_t>(matrix.groups) * kRows;
  const auto take = [&](size_t bytes) {
    uint8_t* at = memory;
    memory += round_up(bytes, 64);
    return at;
  };
  matrix.data = memory;
  if (matrix.type == Type::Packed) {
    const int groups = matrix.packed == nullptr ? 0 : matrix.groups;  // a part that the layer has not has no formats
    for (int i = 0; i < groups; ++i)
      matrix.packed[i].data = take(packed_group_bytes(*matrix.packed[i].kind, matrix.cols));
    if (groups > 0) matrix.group_bytes = static_cast<size_t>(memory - matrix.data) / static_cast<size_t>(groups);
  } else {
    take(matrix.group_bytes * matrix.groups);
  }
  if (matrix.type == Type::Int8) {
    matrix.row_scales = reinterpret_cast<float*>(take(rows * 4));
    matrix.row_sums = reinterpret_cast<int32_t*>(take(rows * 4));
  }
  if (matrix.type == Type::Int4)
    matrix.group_scales = reinterpret_cast<uint16_t*>(take(rows * (matrix.padded_cols / 32) * 2));
  if (has_bias) matrix.bias = reinterpret_cast<float*>(take(rows * 4));
}

int target_row(RowOrder order, int row) {
  if (order == RowOrder::Plain) return row;
  return row / kRows * 2 * kRows + (order == RowOrder::Up ? kRows : 0) + row % kRows;
}

namespace {

// Pack rows of one group whose type needs no conversion. It goes column by column, since the packed columns of 16 rows
// are adjacent.
template <class T, int Pair>
void interleave(uint8_t* group, const T* from, int lane, int num_rows, int cols) {
  auto* to = reinterpret_cast<T*>(group) + lane * Pair;
  const size_t stride = static_cast<size_t>(cols);
  for (int c = 0; c < cols; ++c)
    for (int i = 0; i < num_rows; ++i)
      to[static_cast<size_t>(c / Pair) * kRows * Pair + i * Pair + c % Pair] = from[i * stride + c];
}

void pack_row(Matrix& matrix, int row, const float* values) {
  const int lane = row % kRows;
  uint8_t* group = matrix.data + static_cast<size_t>(row / kRows) * matrix.group_bytes;
  switch (matrix.type) {
    case Type::Float32:
      for (int c = 0; c < matrix.cols; ++c)
        reinterpret_cast<float*>(group)[static_cast<size_t>(c) * kRows + lane] = values[c];
      break;
    case Type::BFloat16:
      for (int c = 0; c < matrix.cols; ++c)
        reinterpret_cast<uint16_t*>(group)[static_cast<size_t>(c / 2) * 32 + lane * 2 + c % 2] = to_bf16(values[c]);
      break;
    case Type::Int8:
      pack_int8(matrix, row, values);
      break;
    case Type::Int4:
      pack_int4(matrix, row, values);
      break;
    case Type::Packed:  // is packed from blocks
      break;
  }
}

}  // namespace

void pack_rows(Matrix& matrix, int first, RowOrder order, const void* data, Stored stored, int begin, int end) {
  std::vector<float> values(static_cast<size_t>(matrix.cols));
  const size_t cols = static_cast<size_t>(matrix.cols);
  for (int i = begin; i < end;) {
    const int row = target_row(order, first + i), lane = row % kRows, count = std::min(kRows - lane, end - i);
    uint8_t* group = matrix.data + static_cast<size_t>(row / kRows) * matrix.group_bytes;
    const size_t at = static_cast<size_t>(i) * cols;
    if (matrix.type == Type::BFloat16 && stored == Stored::BFloat16) {
      interleave<uint16_t, 2>(group, static_cast<const uint16_t*>(data) + at, lane, count, matrix.cols);
    } else if (matrix.type == Type::Float32 && stored == Stored::Float32) {
      interleave<float, 1>(group, static_cast<const float*>(data) + at, lane, count, matrix.cols);
    } else {
      for (int j = 0; j < count; ++j) {
        for (size_t c = 0; c < cols; ++c) values[c] = read_stored(data, stored, at + j * cols + c);
        pack_row(matrix, row + j, values.data());
      }
    }
    i += count;
  }
}

}  // namespace sluice
