// The codes of packed weights as bytes: four columns of a row are a 32-bit word.
#pragma once

#include "kernels/packed/packed_lanes.h"
#include "weights/packed.h"

namespace sluice {
namespace SLUICE_SET {

template <Codes kCodes>
constexpr size_t kRunBytes = static_cast<size_t>(code_bits(kCodes)) * kCodeRun * kRows / 8;

// Set the codes of four columns in each of `quads`, one register of 32 columns' codes at a time.
template <Codes kCodes>
SLUICE_INLINE void load_codes(const uint8_t* codes, VI (&quads)[8]) {
  const VI low_nibble = set1_int(0x0f0f0f0f), low_two = set1_int(0x03030303), low_bit = set1_int(0x01010101);
  if constexpr (kCodes == Codes::Bits8) {
    unroll<8>([&](auto i) __attribute__((always_inline)) { quads[i] = load_int(codes + i * 64); });
  } else if constexpr (kCodes == Codes::Bits2 || kCodes == Codes::Bits3) {
    unroll<8>([&](auto i) __attribute__((always_inline)) {
      quads[i] = and_int(shift_right<i % 4 * 2>(load_int(codes + i / 4 * 64)), low_two);
    });
    if constexpr (kCodes == Codes::Bits3) {
      const VI bits = load_int(codes + 128);
      unroll<8>([&](auto i) __attribute__((always_inline)) {
        quads[i] = add_int(quads[i], shift_left<2>(and_int(shift_right<i>(bits), low_bit)));
      });
    }
  } else {
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      const VI bytes = load_int(codes + i * 64);
      quads[i] = and_int(bytes, low_nibble);
      quads[i + 4] = and_int(shift_right<4>(bytes), low_nibble);
    });
    if constexpr (kCodes == Codes::Bits5) {
      const VI bits = load_int(codes + 256);
      unroll<8>([&](auto i) __attribute__((always_inline)) {
        quads[i] = add_int(quads[i], shift_left<4>(and_int(shift_right<i>(bits), low_bit)));
      });
    }
    if constexpr (kCodes == Codes::Bits6)
      unroll<8>([&](auto i) __attribute__((always_inline)) {
        const VI bits = load_int(codes + 256 + i / 4 * 64);
        quads[i] = add_int(quads[i], shift_left<4>(and_int(shift_right<i % 4 * 2>(bits), low_two)));
      });
    if constexpr (kCodes == Codes::Table4)
      unroll<8>([&](auto i) __attribute__((always_inline)) { quads[i] = look_up(quads[i], kTable4); });
    if constexpr (kCodes == Codes::Float4)
      unroll<8>([&](auto i) __attribute__((always_inline)) { quads[i] = look_up(quads[i], kFloat4); });
  }
}

// Call f with the codes as a constant. Numbers have none.
template <class F>
SLUICE_INLINE void with_codes(Codes codes, F&& f) {
  switch (codes) {
    case Codes::Bits2:
      return f(std::integral_constant<Codes, Codes::Bits2>{});
    case Codes::Bits3:
      return f(std::integral_constant<Codes, Codes::Bits3>{});
    case Codes::Bits4:
      return f(std::integral_constant<Codes, Codes::Bits4>{});
    case Codes::Bits5:
      return f(std::integral_constant<Codes, Codes::Bits5>{});
    case Codes::Bits6:
      return f(std::integral_constant<Codes, Codes::Bits6>{});
    case Codes::Bits8:
      return f(std::integral_constant<Codes, Codes::Bits8>{});
    case Codes::Table4:
      return f(std::integral_constant<Codes, Codes::Table4>{});
    case Codes::Float4:
      return f(std::integral_constant<Codes, Codes::Float4>{});
    default:
      return;
  }
}

// Write the codes of a run of 32 columns as bytes [8][16][4].
template <Codes kCodes>
SLUICE_INLINE void store_run(const uint8_t* codes, uint8_t* to) {
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
    constexpr int kAt = r * kLanes * 4;
    VI quads[8];
    load_codes<kCodes>(codes + kAt, quads);
    unroll<8>([&](auto i) __attribute__((always_inline)) { store_int(to + i * 64 + kAt, quads[i]); });
  });
}

}  // namespace SLUICE_SET
}  // namespace sluice
