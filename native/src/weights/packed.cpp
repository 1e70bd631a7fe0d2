#include <algorithm>
#include <cstring>

#include "weights/packed_formats.h"
#include "weights/packed_pack.h"

namespace sluice {

namespace {

// Write the codes of 32 columns of a row. Four columns are the bytes of a 32-bit word, or parts of its bytes.
void store_codes(Codes codes, const uint8_t* from, int lane, uint8_t* to) {
  uint32_t quads[8];
  std::memcpy(quads, from, sizeof quads);
  const auto store = [&](int word, uint32_t value) { std::memcpy(to + word * 64 + lane * 4, &value, 4); };
  const auto bits_above = [&](int shift, int bits, int first, int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i)
      value |= (quads[first + i] >> shift & 0x01010101u * ((1u << bits) - 1)) << bits * i;
    return value;
  };
  switch (codes) {
    case Codes::Bits8:
      for (int i = 0; i < 8; ++i) store(i, quads[i]);
      return;
    case Codes::Bits2:
    case Codes::Bits3:
      store(0, bits_above(0, 2, 0, 4));
      store(1, bits_above(0, 2, 4, 4));
      if (codes == Codes::Bits3) store(2, bits_above(2, 1, 0, 8));
      return;
    default:
      for (int i = 0; i < 4; ++i) store(i, (quads[i] & 0x0f0f0f0fu) | (quads[i + 4] & 0x0f0f0f0fu) << 4);
      if (codes == Codes::Bits5) store(4, bits_above(4, 1, 0, 8));
      if (codes == Codes::Bits6) store(4, bits_above(4, 2, 0, 4));
      if (codes == Codes::Bits6) store(5, bits_above(4, 2, 4, 4));
  }
}

template <class T>
void put(uint8_t* to, int index, T value) {
  std::memcpy(to + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
}

void store_scales(const PackedKind& kind, const PackedRow& row, int lane, int count, uint8_t* to) {
  switch (kind.form) {
    case ScaleForm::None:
    case ScaleForm::Float:  // of numbers
      return;
    case ScaleForm::Half:
      for (int i = 0; i < count; ++i) put(to, i * kRows + lane, row.halves[i]);
      return;
    case ScaleForm::HalfMin:
      for (int i = 0; i < count; ++i) put(to, i * 2 * kRows + lane, row.halves[i]);
      for (int i = 0; i < count; ++i) put(to, (i * 2 + 1) * kRows + lane, row.adds[i]);
      return;
    case ScaleForm::Exponent:
      for (int i = 0; i < count; ++i) to[i * kRows + lane] = row.small[i];
      return;
    case ScaleForm::Super:
      put(to, lane, row.first);
      for (int i = 0; i < count; ++i) to[2 * kRows + i * kRows + lane] = row.small[i];
      return;
    case ScaleForm::SuperMin:
    case ScaleForm::SuperPair:
      put(to, lane, row.first);
      put(to, kRows + lane, row.second);
      for (int i = 0; i < count; ++i) to[4 * kRows + i * kRows + lane] = row.small[i];
      if (kind.form == ScaleForm::SuperPair) return;
      for (int i = 0; i < count; ++i) to[4 * kRows + (count + i) * kRows + lane] = row.offsets[i];
      return;
    case ScaleForm::SuperFloat8:
      put(to, lane, row.scales[0]);
      for (int i = 0; i < count; ++i) to[4 * kRows + i * kRows + lane] = row.small[i];
      return;
    case ScaleForm::Zeros:
      for (int i = 0; i < count; ++i) {
        if (kind.stored == Stored::Float32)
          put(to, i * kRows + lane, row.scales[i]);
        else
          put(to, i * kRows + lane, static_cast<uint16_t>(row.scales[i]));
        to[bytes_of(kind.stored) * kRows * count + i * kRows + lane] = row.offsets[i];
      }
  }
}

// Write `columns` numbers of a row, column by column.
void store_numbers(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* to) {
  const size_t size = static_cast<size_t>(kind.block_bytes);
  for (int i = 0; i < columns; ++i)
    std::memcpy(to + (static_cast<size_t>(i) * kRows + lane) * size, from + i * size, size);
}

// Write `columns` numbers with scales. A row's codes of a byte follow those of the previous column, and those of four
// bits share a byte with the next column's.
void store_scaled_numbers(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* to) {
  uint8_t* codes = to + scale_bytes(kind, columns);
  const int bytes = kind.block * code_bits(kind.codes) / 8;
  for (int i = 0; i < columns / kind.block; ++i, from += kind.block_bytes) {
    std::memcpy(to + (static_cast<size_t>(i) * kRows + lane) * 4, from, 4);
    for (int j = 0; j < bytes; ++j) codes[(static_cast<size_t>(i) * bytes + j) * kRows + lane] = from[4 + j];
  }
}

}  // namespace

const PackedKind* find_packed_kind(const std::string& name) {
  const PackedFile* file = find_packed_file(name);
  return file == nullptr ? nullptr : &file->kind;
}

size_t packed_row_bytes(const PackedKind& kind, int columns) {
  return static_cast<size_t>(columns / kind.block) * static_cast<size_t>(kind.block_bytes);
}

void pack_block_row(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* group) {
  const ReadBlock read = reader_of(kind);
  PackedRow row{};
  for (int first = 0; first < columns; first += kSpan) {
    const int width = std::min(kSpan, columns - first);
    uint8_t* codes = group + scale_bytes(kind, width);
    if (kind.form == ScaleForm::Float) {
      store_scaled_numbers(kind, from, width, lane, group);
    } else if (kind.is_float()) {
      store_numbers(kind, from, width, lane, codes);
    } else {
      for (int i = 0; i < width / kind.block; ++i) read(from + i * kind.block_bytes, i, row);
      store_scales(kind, row, lane, (width + kind.per - 1) / kind.per, group);
      for (int i = 0; i < (width + kCodeRun - 1) / kCodeRun; ++i)
        store_codes(kind.codes, row.codes + i * kCodeRun, lane,
                    codes + static_cast<size_t>(i) * kCodeRun * kRows * code_bits(kind.codes) / 8);
    }
    from += packed_row_bytes(kind, width);
    group += span_bytes(kind, width);
  }
}

void pack_block_rows(Matrix& matrix, int first, RowOrder order, const uint8_t* blocks, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    const int row = target_row(order, first + i);
    const PackedGroup& group = matrix.packed[row / kRows];
    const size_t row_bytes = packed_row_bytes(*group.kind, matrix.cols);
    pack_block_row(*group.kind, blocks + static_cast<size_t>(i) * row_bytes, matrix.cols, row % kRows, group.data);
  }
}

void PackedGroups::assign(Matrix& matrix, RowOrder order, int first, int count, const PackedKind* kind) {
  std::vector<PackedGroup>& groups = groups_[&matrix];
  groups.resize(static_cast<size_t>(matrix.groups));
  matrix.packed = groups.data();
  for (int row = 0; row < count; row += kRows - (first + row) % kRows)
    groups[static_cast<size_t>(target_row(order, first + row) / kRows)].kind = kind;
}

bool PackedGroups::are_whole(RowOrder order, int first, int count, const Matrix& matrix, const PackedKind* kind) {
  for (int row = 0; row < count; row += kRows - (first + row) % kRows)
    if (matrix.packed[target_row(order, first + row) / kRows].kind != kind) return false;
  return true;
}

}  // namespace sluice
