// Weights that are computed in the block formats of their files: integer codes with scales by block. Each group of 16
// rows has a format of its own, since a matrix can consist of tensors in different formats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types.h"

namespace sluice {

constexpr int kSpan = 256;    // columns of a group with adjacent scales and codes
constexpr int kCodeRun = 32;  // columns whose codes are adjacent, and whose inputs have the same scale

// What a code is: an unsigned number of bits, the index in a table of 16 numbers, or a floating-point number.
enum class Codes : uint8_t { Bits2, Bits3, Bits4, Bits5, Bits6, Bits8, Table4, Float4, Float32, Float16, BFloat16 };

// How a group's scales are stored before the codes of a span, each for 16 rows.
//   None      none: the codes are numbers
//   Half      float16 for each `per` columns
//   HalfMin   float16 scales and float16 additions for each `per` columns
//   Exponent  a byte for each `per` columns: a power of two, with an offset of 127
//   Super     float16, then a signed byte for each `per` columns, which multiplies it
//   SuperMin  two float16, then a byte for each `per` columns that multiplies the first, and then for each one that
//             multiplies the second, which is subtracted
//   SuperPair like SuperMin with both bytes in one: the first is the lower half
//   Zeros     a scale in the type `stored` for each `per` columns, and then for each a byte: the code that means 0
enum class ScaleForm : uint8_t { None, Half, HalfMin, Exponent, Super, SuperMin, SuperPair, Zeros };

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
      return round_up(4 * kRows + count, 64);
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
  int16_t values[kSpan];     // of four columns, those of the even ones come first
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
inline constexpr uint8_t kFloat4[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

}  // namespace sluice
