#include "packed_pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "pack.h"

namespace sluice {

namespace {

// A span of a row: its codes, and the scales as they are stored. `first` and `second` are what a group stores once.
struct Row {
  uint8_t codes[kSpan];
  uint16_t first, second;
  uint16_t halves[kSpan / 16], adds[kSpan / 16];  // for each `per` columns
  uint8_t small[kSpan / 16], offsets[kSpan / 16];
  uint32_t scales[kSpan / 16];  // the bits of a float32, or of a 16-bit number in the lower half
};

uint16_t word(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }

// The two nibbles of each of 16 bytes: the low ones are the first 16 codes.
void read_nibbles(const uint8_t* bytes, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = bytes[i] & 15;
    codes[i + 16] = bytes[i] >> 4;
  }
}

void read_fifth_bits(const uint8_t* bytes, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (bytes[i / 8] >> i % 8 & 1) << 4);
}

void read_q8_0(const uint8_t* at, int index, Row& row) {
  row.halves[index] = word(at);
  for (int i = 0; i < 32; ++i) row.codes[index * 32 + i] = static_cast<uint8_t>(at[2 + i] + 128);
}
void read_q4_0(const uint8_t* at, int index, Row& row) {
  row.halves[index] = word(at);
  read_nibbles(at + 2, row.codes + index * 32);
}
void read_q4_1(const uint8_t* at, int index, Row& row) {
  row.halves[index] = word(at);
  row.adds[index] = word(at + 2);
  read_nibbles(at + 4, row.codes + index * 32);
}
void read_q5_0(const uint8_t* at, int index, Row& row) {
  row.halves[index] = word(at);
  read_nibbles(at + 6, row.codes + index * 32);
  read_fifth_bits(at + 2, row.codes + index * 32);
}
void read_q5_1(const uint8_t* at, int index, Row& row) {
  row.halves[index] = word(at);
  row.adds[index] = word(at + 2);
  read_nibbles(at + 8, row.codes + index * 32);
  read_fifth_bits(at + 4, row.codes + index * 32);
}
void read_mxfp4(const uint8_t* at, int index, Row& row) {
  row.small[index] = at[0];
  read_nibbles(at + 1, row.codes + index * 32);
}

// The eight scales and eight subtracted numbers of six bits in 12 bytes.
void read_six_bits(const uint8_t* at, Row& row) {
  for (int i = 0; i < 4; ++i) {
    row.small[i] = at[i] & 63;
    row.offsets[i] = at[i + 4] & 63;
    row.small[i + 4] = static_cast<uint8_t>((at[i + 8] & 15) | at[i] >> 6 << 4);
    row.offsets[i + 4] = static_cast<uint8_t>(at[i + 8] >> 4 | at[i + 4] >> 6 << 4);
  }
}

void read_q2_k(const uint8_t* at, int, Row& row) {
  std::memcpy(row.small, at, 16);
  for (int i = 0; i < kSpan; ++i) row.codes[i] = at[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
  row.first = word(at + 80);
  row.second = word(at + 82);
}
void read_q3_k(const uint8_t* at, int, Row& row) {
  const uint8_t *high = at, *low = at + 32, *scales = at + 96;
  for (int i = 0; i < 16; ++i) {
    const int nibble = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    row.small[i] = static_cast<uint8_t>((nibble | (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32);
  }
  for (int i = 0; i < kSpan; ++i)
    row.codes[i] = static_cast<uint8_t>((low[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) |
                                        (high[i % 32] >> i / 32 & 1) << 2);
  row.first = word(at + 108);
}
void read_q4_k(const uint8_t* at, int, Row& row) {
  row.first = word(at);
  row.second = word(at + 2);
  read_six_bits(at + 4, row);
  for (int i = 0; i < kSpan; ++i) row.codes[i] = at[16 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
}
void read_q5_k(const uint8_t* at, int, Row& row) {
  row.first = word(at);
  row.second = word(at + 2);
  read_six_bits(at + 4, row);
  for (int i = 0; i < kSpan; ++i)
    row.codes[i] = static_cast<uint8_t>((at[48 + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15) |
                                        (at[16 + i % 32] >> i / 32 & 1) << 4);
}
void read_q6_k(const uint8_t* at, int, Row& row) {
  for (int i = 0; i < kSpan; ++i) {
    const int half = i / 128, within = i % 128;
    row.codes[i] = static_cast<uint8_t>((at[half * 64 + within % 64] >> within / 64 * 4 & 15) |
                                        (at[128 + half * 32 + within % 32] >> within / 32 * 2 & 3) << 4);
  }
  std::memcpy(row.small, at + 192, 16);
  row.first = word(at + 208);
}
void read_iq4_xs(const uint8_t* at, int, Row& row) {
  row.first = word(at);
  const int high = word(at + 2);
  for (int i = 0; i < 8; ++i) {
    row.small[i] = static_cast<uint8_t>(((at[4 + i / 2] >> i % 2 * 4 & 15) | (high >> 2 * i & 3) << 4) - 32);
    read_nibbles(at + 8 + i * 16, row.codes + i * 32);
  }
}

// Codes of a byte each, after four bytes of a scale, the code that means 0 and three unused bytes.
template <int kColumns>
void read_bytes(const uint8_t* at, int index, Row& row) {
  std::memcpy(&row.scales[index], at, 4);
  row.offsets[index] = at[4];
  std::memcpy(row.codes + index * kColumns, at + 8, kColumns);
}

using ReadBlock = void (*)(const uint8_t* at, int index, Row& row);

struct Entry {
  const char* name;
  PackedKind kind;
  ReadBlock read;  // null: the codes are numbers
};

constexpr PackedKind number_kind(Codes codes) {
  return {codes, ScaleForm::None, 32, 0, 0, 1, code_bits(codes) / 8};
}

template <int kColumns>
constexpr Entry bytes_entry(const char* name, Codes codes, Stored stored) {
  return {name, {codes, ScaleForm::Zeros, kColumns < 32 ? 16 : 32, kColumns, 0, kColumns, 8 + kColumns, stored}, read_bytes<kColumns>};
}

#define SLUICE_BYTES(bits, columns)                                                                               \
  bytes_entry<columns>("u" #bits ".g" #columns ".float32", Codes::Bits##bits, Stored::Float32),                   \
      bytes_entry<columns>("u" #bits ".g" #columns ".bfloat16", Codes::Bits##bits, Stored::BFloat16),             \
      bytes_entry<columns>("u" #bits ".g" #columns ".float16", Codes::Bits##bits, Stored::Float16)
#define SLUICE_ALL_BYTES(bits) \
  SLUICE_BYTES(bits, 16), SLUICE_BYTES(bits, 32), SLUICE_BYTES(bits, 64), SLUICE_BYTES(bits, 128), SLUICE_BYTES(bits, 256)

// Fields: codes, form, step, per, zero, block, block bytes.
constexpr Entry kEntries[] = {
    {"q8_0", {Codes::Bits8, ScaleForm::Half, 32, 32, 128, 32, 34}, read_q8_0},
    {"q4_0", {Codes::Bits4, ScaleForm::Half, 32, 32, 8, 32, 18}, read_q4_0},
    {"q4_1", {Codes::Bits4, ScaleForm::HalfMin, 32, 32, 0, 32, 20}, read_q4_1},
    {"q5_0", {Codes::Bits5, ScaleForm::Half, 32, 32, 16, 32, 22}, read_q5_0},
    {"q5_1", {Codes::Bits5, ScaleForm::HalfMin, 32, 32, 0, 32, 24}, read_q5_1},
    {"q2_k", {Codes::Bits2, ScaleForm::SuperPair, 16, 16, 0, 256, 84}, read_q2_k},
    {"q3_k", {Codes::Bits3, ScaleForm::Super, 16, 16, 4, 256, 110}, read_q3_k},
    {"q4_k", {Codes::Bits4, ScaleForm::SuperMin, 32, 32, 0, 256, 144}, read_q4_k},
    {"q5_k", {Codes::Bits5, ScaleForm::SuperMin, 32, 32, 0, 256, 176}, read_q5_k},
    {"q6_k", {Codes::Bits6, ScaleForm::Super, 16, 16, 32, 256, 210}, read_q6_k},
    {"iq4_nl", {Codes::Table4, ScaleForm::Half, 32, 32, kTable4Offset, 32, 18}, read_q4_0},
    {"iq4_xs", {Codes::Table4, ScaleForm::Super, 32, 32, kTable4Offset, 256, 136}, read_iq4_xs},
    {"mxfp4", {Codes::Float4, ScaleForm::Exponent, 32, 32, kFloat4Offset, 32, 17}, read_mxfp4},
    {"float32", number_kind(Codes::Float32), nullptr},
    {"float16", number_kind(Codes::Float16), nullptr},
    {"bfloat16", number_kind(Codes::BFloat16), nullptr},
    SLUICE_ALL_BYTES(2),
    SLUICE_ALL_BYTES(3),
    SLUICE_ALL_BYTES(4),
    SLUICE_ALL_BYTES(8),
};

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

void store_scales(const PackedKind& kind, const Row& row, int lane, int count, uint8_t* to) {
  switch (kind.form) {
    case ScaleForm::None:
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

// Write `columns` numbers of a row, column by column, in the order of inputs.
void store_numbers(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* to) {
  const size_t size = static_cast<size_t>(kind.block_bytes);
  for (int i = 0; i < columns; ++i) {
    const int at = i / 4 * 4 + i % 2 * 2 + i % 4 / 2;
    std::memcpy(to + (static_cast<size_t>(at) * kRows + lane) * size, from + i * size, size);
  }
}

}  // namespace

const PackedKind* find_packed_kind(const std::string& name) {
  for (const Entry& entry : kEntries)
    if (name == entry.name) return &entry.kind;
  return nullptr;
}

size_t packed_row_bytes(const PackedKind& kind, int columns) {
  return static_cast<size_t>(columns / kind.block) * static_cast<size_t>(kind.block_bytes);
}

void pack_block_row(const PackedKind& kind, const uint8_t* from, int columns, int lane, uint8_t* group) {
  ReadBlock read = nullptr;
  for (const Entry& entry : kEntries)
    if (&entry.kind == &kind) read = entry.read;
  Row row{};
  for (int first = 0; first < columns; first += kSpan) {
    const int width = std::min(kSpan, columns - first);
    uint8_t* codes = group + scale_bytes(kind, width);
    if (kind.is_float()) {
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
