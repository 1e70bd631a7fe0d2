// The formats of quantized weights by name (GGUF's, FP8, NVFP4 and others), and readers of their blocks.
#include "weights/packed_formats.h"

#include <cstring>

namespace sluice {

namespace {

uint16_t word(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }

constexpr int kLane = 8;  // bytes that are computed at a time
constexpr uint64_t kOnes = 0x0101010101010101u;

uint64_t load_lane(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, kLane);
  return value;
}

void store_lane(uint8_t* at, uint64_t value) { std::memcpy(at, &value, kLane); }

// Write `kBits` bits of each of `kCount` bytes, from the bit `kShift` on.
template <int kCount, int kShift, int kBits>
void read_bits(const uint8_t* bytes, uint8_t* codes) {
  constexpr uint64_t kMask = kOnes * ((1u << kBits) - 1);
  for (int i = 0; i < kCount; i += kLane) store_lane(codes + i, load_lane(bytes + i) >> kShift & kMask);
}

// Add to each of `kCount` codes `kBits` bits of a byte, from the bit `kShift` on, as the bits above `kAbove`.
template <int kCount, int kShift, int kBits, int kAbove>
void add_bits(const uint8_t* bytes, uint8_t* codes) {
  constexpr uint64_t kMask = kOnes * ((1u << kBits) - 1);
  for (int i = 0; i < kCount; i += kLane)
    store_lane(codes + i, load_lane(codes + i) | (load_lane(bytes + i) >> kShift & kMask) << kAbove);
}

// Read 32 codes from 16 bytes: the low nibbles are the first 16 codes, the high ones the others.
void read_nibbles(const uint8_t* bytes, uint8_t* codes) {
  read_bits<16, 0, 4>(bytes, codes);
  read_bits<16, 4, 4>(bytes, codes + 16);
}

// Add the bits of four bytes to 32 codes, as their fifth bits.
void read_fifth_bits(const uint8_t* bytes, uint8_t* codes) {
  constexpr uint64_t kBitOfByte = 0x8040201008040201u, kSeven = kOnes * 127;
  for (int i = 0; i < 4; ++i) {
    const uint64_t bits = kOnes * bytes[i] & kBitOfByte;  // one bit in each byte
    const uint64_t ones = (((bits & kSeven) + kSeven) | bits) >> 7 & kOnes;
    store_lane(codes + i * kLane, load_lane(codes + i * kLane) | ones << 4);
  }
}

void read_q8_0(const uint8_t* at, int index, PackedRow& row) {
  row.halves[index] = word(at);
  for (int i = 0; i < 32; i += kLane) store_lane(row.codes + index * 32 + i, load_lane(at + 2 + i) ^ kOnes * 128);
}
void read_q4_0(const uint8_t* at, int index, PackedRow& row) {
  row.halves[index] = word(at);
  read_nibbles(at + 2, row.codes + index * 32);
}
void read_q4_1(const uint8_t* at, int index, PackedRow& row) {
  row.halves[index] = word(at);
  row.adds[index] = word(at + 2);
  read_nibbles(at + 4, row.codes + index * 32);
}
void read_q5_0(const uint8_t* at, int index, PackedRow& row) {
  row.halves[index] = word(at);
  read_nibbles(at + 6, row.codes + index * 32);
  read_fifth_bits(at + 2, row.codes + index * 32);
}
void read_q5_1(const uint8_t* at, int index, PackedRow& row) {
  row.halves[index] = word(at);
  row.adds[index] = word(at + 2);
  read_nibbles(at + 8, row.codes + index * 32);
  read_fifth_bits(at + 4, row.codes + index * 32);
}
void read_mxfp4(const uint8_t* at, int index, PackedRow& row) {
  row.small[index] = at[0];
  read_nibbles(at + 1, row.codes + index * 32);
}

// A block: the float32 scale of the matrix, the e4m3 scale of the block, three unused bytes, then two codes per byte.
// The table kFloat4 has doubled numbers, so the scale is halved.
void read_nvfp4(const uint8_t* at, int index, PackedRow& row) {
  float scale;
  std::memcpy(&scale, at, 4);
  scale *= 0.5f;
  std::memcpy(&row.scales[0], &scale, 4);
  row.small[index] = at[4];
  for (int i = 0; i < 8; ++i) {
    row.codes[index * 16 + 2 * i] = at[8 + i] & 15;
    row.codes[index * 16 + 2 * i + 1] = at[8 + i] >> 4;
  }
}

// Read eight scales and eight minima of six bits each from 12 bytes.
void read_six_bits(const uint8_t* at, PackedRow& row) {
  for (int i = 0; i < 4; ++i) {
    row.small[i] = at[i] & 63;
    row.offsets[i] = at[i + 4] & 63;
    row.small[i + 4] = static_cast<uint8_t>((at[i + 8] & 15) | at[i] >> 6 << 4);
    row.offsets[i + 4] = static_cast<uint8_t>(at[i + 8] >> 4 | at[i + 4] >> 6 << 4);
  }
}

// Read 128 codes from 32 bytes: the lowest two bits are the first 32 codes.
void read_pairs(const uint8_t* bytes, uint8_t* codes) {
  read_bits<32, 0, 2>(bytes, codes);
  read_bits<32, 2, 2>(bytes, codes + 32);
  read_bits<32, 4, 2>(bytes, codes + 64);
  read_bits<32, 6, 2>(bytes, codes + 96);
}

// Add the bits of 32 bytes to 256 codes as the bits above `kAbove`: the lowest bits are those of the first 32 codes.
template <int kAbove>
void add_eighths(const uint8_t* bytes, uint8_t* codes) {
  add_bits<32, 0, 1, kAbove>(bytes, codes);
  add_bits<32, 1, 1, kAbove>(bytes, codes + 32);
  add_bits<32, 2, 1, kAbove>(bytes, codes + 64);
  add_bits<32, 3, 1, kAbove>(bytes, codes + 96);
  add_bits<32, 4, 1, kAbove>(bytes, codes + 128);
  add_bits<32, 5, 1, kAbove>(bytes, codes + 160);
  add_bits<32, 6, 1, kAbove>(bytes, codes + 192);
  add_bits<32, 7, 1, kAbove>(bytes, codes + 224);
}

// Read 256 codes from 128 bytes: the low nibbles of 32 bytes are the first 32 codes, the high ones the next.
void read_nibbles_by_32(const uint8_t* bytes, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    read_bits<32, 0, 4>(bytes + i * 32, codes + i * 64);
    read_bits<32, 4, 4>(bytes + i * 32, codes + i * 64 + 32);
  }
}

void read_q2_k(const uint8_t* at, int, PackedRow& row) {
  std::memcpy(row.small, at, 16);
  for (int i = 0; i < 2; ++i) read_pairs(at + 16 + i * 32, row.codes + i * 128);
  row.first = word(at + 80);
  row.second = word(at + 82);
}
void read_q3_k(const uint8_t* at, int, PackedRow& row) {
  const uint8_t *high = at, *low = at + 32, *scales = at + 96;
  for (int i = 0; i < 16; ++i) {
    const int nibble = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    row.small[i] = static_cast<uint8_t>((nibble | (scales[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32);
  }
  for (int i = 0; i < 2; ++i) read_pairs(low + i * 32, row.codes + i * 128);
  add_eighths<2>(high, row.codes);
  row.first = word(at + 108);
}
void read_q4_k(const uint8_t* at, int, PackedRow& row) {
  row.first = word(at);
  row.second = word(at + 2);
  read_six_bits(at + 4, row);
  read_nibbles_by_32(at + 16, row.codes);
}
void read_q5_k(const uint8_t* at, int, PackedRow& row) {
  row.first = word(at);
  row.second = word(at + 2);
  read_six_bits(at + 4, row);
  read_nibbles_by_32(at + 48, row.codes);
  add_eighths<4>(at + 16, row.codes);
}
void read_q6_k(const uint8_t* at, int, PackedRow& row) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = at + half * 64, *high = at + 128 + half * 32;
    uint8_t* codes = row.codes + half * 128;
    read_bits<64, 0, 4>(low, codes);
    read_bits<64, 4, 4>(low, codes + 64);
    add_bits<32, 0, 2, 4>(high, codes);
    add_bits<32, 2, 2, 4>(high, codes + 32);
    add_bits<32, 4, 2, 4>(high, codes + 64);
    add_bits<32, 6, 2, 4>(high, codes + 96);
  }
  std::memcpy(row.small, at + 192, 16);
  row.first = word(at + 208);
}
void read_iq4_xs(const uint8_t* at, int, PackedRow& row) {
  row.first = word(at);
  const int high = word(at + 2);
  for (int i = 0; i < 8; ++i) {
    row.small[i] = static_cast<uint8_t>(((at[4 + i / 2] >> i % 2 * 4 & 15) | (high >> 2 * i & 3) << 4) - 32);
    read_nibbles(at + 8 + i * 16, row.codes + i * 32);
  }
}

// A block: a scale of four bytes, the zero point, three unused bytes, then one code per byte.
template <int kColumns>
void read_bytes(const uint8_t* at, int index, PackedRow& row) {
  std::memcpy(&row.scales[index], at, 4);
  row.offsets[index] = at[4];
  std::memcpy(row.codes + index * kColumns, at + 8, kColumns);
}

constexpr PackedKind number_kind(Codes codes) {
  return {codes, ScaleForm::None, 32, 0, 0, 1, code_bits(codes) / 8};
}

template <int kColumns>
constexpr PackedFile bytes_entry(const char* name, Codes codes, Stored stored) {
  constexpr int kStep = kColumns < kCodeRun ? kColumns : kCodeRun;
  return {name, {codes, ScaleForm::Zeros, kStep, kColumns, 0, kColumns, 8 + kColumns, stored}, read_bytes<kColumns>};
}

// Blocks of a float32 scale and then floating-point codes. The lower half of a byte is the first of two 4-bit codes.
constexpr PackedFile scaled_entry(const char* name, Codes codes, int columns) {
  return {name, {codes, ScaleForm::Float, kCodeRun, columns, 0, columns, 4 + columns * code_bits(codes) / 8}, nullptr};
}
#define SLUICE_SCALED(name, codes)                                                                                \
  scaled_entry(name ".g16", codes, 16), scaled_entry(name ".g32", codes, 32), scaled_entry(name ".g64", codes, 64), \
      scaled_entry(name ".g128", codes, 128), scaled_entry(name ".g256", codes, 256)

#define SLUICE_BYTES(bits, columns)                                                                               \
  bytes_entry<columns>("u" #bits ".g" #columns ".float32", Codes::Bits##bits, Stored::Float32),                   \
      bytes_entry<columns>("u" #bits ".g" #columns ".bfloat16", Codes::Bits##bits, Stored::BFloat16),             \
      bytes_entry<columns>("u" #bits ".g" #columns ".float16", Codes::Bits##bits, Stored::Float16)
#define SLUICE_ALL_BYTES(bits) \
  SLUICE_BYTES(bits, 16), SLUICE_BYTES(bits, 32), SLUICE_BYTES(bits, 64), SLUICE_BYTES(bits, 128), \
      SLUICE_BYTES(bits, 256)

// The fields of PackedKind: codes, form, step, per, zero, block, block_bytes.
constexpr PackedFile kFiles[] = {
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
    {"nvfp4", {Codes::Float4, ScaleForm::SuperFloat8, 16, 16, kFloat4Offset, 16, 16}, read_nvfp4},
    {"float32", number_kind(Codes::Float32), nullptr},
    {"float16", number_kind(Codes::Float16), nullptr},
    {"bfloat16", number_kind(Codes::BFloat16), nullptr},
    SLUICE_ALL_BYTES(2),
    SLUICE_ALL_BYTES(3),
    SLUICE_ALL_BYTES(4),
    SLUICE_ALL_BYTES(8),
    SLUICE_SCALED("f8", Codes::Float8),
    SLUICE_SCALED("nf4", Codes::Normal4),
    SLUICE_SCALED("fp4", Codes::Quarter4),
};

}  // namespace

ReadBlock reader_of(const PackedKind& kind) {
  for (const PackedFile& file : kFiles)
    if (&file.kind == &kind) return file.read;
  return nullptr;
}

const PackedFile* find_packed_file(const std::string& name) {
  for (const PackedFile& file : kFiles)
    if (name == file.name) return &file;
  return nullptr;
}

}  // namespace sluice
