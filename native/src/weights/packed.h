// Weights that are computed in the block formats of their files: integer codes with scales by block. Each group of 16
// rows has a format of its own, since a matrix can consist of tensors in different formats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types.h"

namespace sluice {

constexpr int kSpan = 256;    // columns of a group with adjacent scales and codes
constexpr int kCodeRun = 32;  // columns whose codes are adjacent, and whose inputs have the same scale

// What a code is: an unsigned number of bits, the index in a table of 16 integers, or a floating-point number. Float8 is
// e4m3; Normal4 and Quarter4 are the indices in bitsandbytes' tables nf4 and fp4.
enum class Codes : uint8_t {
  Bits2, Bits3, Bits4, Bits5, Bits6, Bits8, Table4, Float4,
  Float32, Float16, BFloat16, Float8, Normal4, Quarter4
};

// How a group's scales are stored before the codes of a span, each for 16 rows.
//   None      none: the codes are numbers
//   Half      float16 for each `per` columns
//   HalfMin   float16 scales and float16 additions for each `per` columns
//   Exponent  a byte for each `per` columns: a power of two, with an offset of 127
//   Super     float16, then a signed byte for each `per` columns, which multiplies it
//   SuperMin  two float16, then a byte for each `per` columns that multiplies the first, and then for each one that
//             multiplies the second, which is subtracted
//   SuperPair like SuperMin with both bytes in one: the first is the lower half
//   SuperFloat8  float32, then a byte for each `per` columns: an e4m3 number, which multiplies it
//   Zeros     a scale in the type `stored` for each `per` columns, and then for each a byte: the code that means 0
//   Float     float32 for each `per` columns, of numbers
enum class ScaleForm : uint8_t { None, Half, HalfMin, Exponent, Super, SuperMin, SuperPair, SuperFloat8, Zeros, Float };

struct PackedKind {
  Codes codes;
  ScaleForm form;
  int step;   // columns that are added up as integers: 16 or 32
  int per;    // columns with the same scale, a multiple of `step`
  int zero;   // the code that means 0, unless each scale has its own
  int block;  // columns of a block of the file's rows
  int block_bytes;
  Stored stored = Stored::Float16;

  constexpr bool is_float() const { return codes >= Codes::Float32; }
};

// A group of 16 rows of a packed matrix.
struct PackedGroup {
  const PackedKind* kind;
  uint8_t* data;
};

inline constexpr int code_bits(Codes codes) {
  switch (codes) {
    case Codes::Bits2:
      return 2;
    case Codes::Bits3:
      return 3;
    case Codes::Bits5:
      return 5;
    case Codes::Bits6:
      return 6;
    case Codes::Bits8:
    case Codes::Float8:
      return 8;
    case Codes::Float32:
      return 32;
    case Codes::Float16:
    case Codes::BFloat16:
      return 16;
    default:
      return 4;
  }
}

// The bytes of the scales of `columns` columns of a group.
inline constexpr size_t scale_bytes(const PackedKind& kind, int columns) {
  const size_t count = kind.per > 0 ? static_cast<size_t>((columns + kind.per - 1) / kind.per) * kRows : 0;
  switch (kind.form) {
    case ScaleForm::None:
      return 0;
    case ScaleForm::Half:
      return round_up(2 * count, 64);
    case ScaleForm::HalfMin:
      return round_up(4 * count, 64);
    case ScaleForm::Exponent:
      return round_up(count, 64);
    case ScaleForm::Super:
      return round_up(2 * kRows + count, 64);
    case ScaleForm::SuperMin:
      return round_up(4 * kRows + 2 * count, 64);
    case ScaleForm::SuperPair:
    case ScaleForm::SuperFloat8:
      return round_up(4 * kRows + count, 64);
    case ScaleForm::Float:
      return round_up(4 * count, 64);
    case ScaleForm::Zeros:
      return round_up((bytes_of(kind.stored) + 1) * count, 64);
  }
  return 0;
}

// The bytes of a group's scales and codes of `columns` columns, at most a span.
inline constexpr size_t span_bytes(const PackedKind& kind, int columns) {
  const size_t runs = static_cast<size_t>((columns + kCodeRun - 1) / kCodeRun);
  return scale_bytes(kind, columns) + runs * kCodeRun * kRows * static_cast<size_t>(code_bits(kind.codes)) / 8;
}

inline constexpr size_t packed_group_bytes(const PackedKind& kind, int columns) {
  const int rest = columns % kSpan;
  return static_cast<size_t>(columns / kSpan) * span_bytes(kind, kSpan) + (rest > 0 ? span_bytes(kind, rest) : 0);
}

// A span of inputs of packed weights, which are values times the scales of their runs.
struct PackedInputs {
  int16_t values[kSpan];     // in the order of the instruction set (kernels/packed_inputs.h)
  float sums16[kSpan / 16];  // of the inputs of 16 columns
  float sums32[kSpan / 32];
  float scales[kSpan / kCodeRun];
};
static_assert(sizeof(PackedInputs) == 640);

inline constexpr int spans_of(int columns) { return (columns + kSpan - 1) / kSpan; }

// The width of a row of inputs in elements of four bytes.
inline constexpr int packed_width(int columns) {
  return spans_of(columns) * static_cast<int>(sizeof(PackedInputs) / sizeof(float));
}

// The elements from row to row of inputs, which also hold as many floats as columns.
inline constexpr int packed_stride(int columns) {
  constexpr int kSpanWidth = packed_width(1);
  const int most = packed_width(columns) > padded(columns) ? packed_width(columns) : padded(columns);
  return (most + kSpanWidth - 1) / kSpanWidth * kSpanWidth;
}

// The numbers of a Table4 and the doubled numbers of a Float4, with an offset that makes them positive.
constexpr int kTable4Offset = 128, kFloat4Offset = 16;
inline constexpr uint8_t kTable4[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
// The numbers of bitsandbytes' types of four bits.
inline constexpr float kNormal4[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
    -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
    0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};
inline constexpr float kQuarter4[16] = {
    0.0f, 0.005208333333f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f,
    -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
inline constexpr uint8_t kFloat4[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

}  // namespace sluice
