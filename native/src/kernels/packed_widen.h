// A span of a packed group in the form that products use: codes as 16-bit numbers, and scales as floats.
#pragma once

#include "../packed.h"
#include "packed_lanes.h"

namespace sluice {
namespace SLUICE_SET {

// A code q means scale * q + addend; numbers have no scales. Steps are of 16 or 32 columns.
struct Widened {
  // Codes: for each four columns, pairs of the even ones of 16 rows, and then of the odd ones. Numbers: for each
  // column, in the order of inputs, 16 floats.
  alignas(64) uint8_t weights[kSpan * kRows * sizeof(float)];
  alignas(64) float scales[kSpan / 16 * kRows], addends[kSpan / 16 * kRows];
};

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

template <Codes kCodes>
void widen_codes(const uint8_t* codes, int columns, uint8_t* to) {
  constexpr size_t kRunBytes = static_cast<size_t>(code_bits(kCodes)) * kCodeRun * kRows / 8;
  for (int column = 0; column < columns; column += kCodeRun, codes += kRunBytes, to += kCodeRun * kRows * 2) {
    // The next span's weights are read soon.
    for (size_t at = 0; at < kRunBytes; at += 64) __builtin_prefetch(codes + 8 * kRunBytes + at, 0, 3);
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      constexpr int kAt = r * kLanes * 4;
      VI quads[8];
      load_codes<kCodes>(codes + kAt, quads);
      unroll<8>([&](auto i) __attribute__((always_inline)) {
        store_int(to + i * 128 + kAt, low_bytes(quads[i]));
        store_int(to + i * 128 + 64 + kAt, high_bytes(quads[i]));
      });
    });
  }
}

template <class T, class Load>
void widen_numbers(const uint8_t* numbers, int columns, float* to, const Load& load_lanes) {
  const auto* from = reinterpret_cast<const T*>(numbers);
  const int padded_columns = (columns + kCodeRun - 1) / kCodeRun * kCodeRun;
  for (int i = 0; i < padded_columns * kRows; i += kLanes) store(to + i, load_lanes(from + i));
}

// The scales of a power of two with an offset of 128, since the numbers are doubled.
inline float scale_of_exponent(int exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// Widen the scales of a span; each stored scale applies to kind.per columns, which are one or several steps.
inline void widen_scales(const PackedKind& kind, const uint8_t* from, int columns, Widened& to) {
  if (kind.form == ScaleForm::None) return;
  const int steps = (columns + kind.step - 1) / kind.step, repeats = kind.per / kind.step;
  const int count = (columns + kind.per - 1) / kind.per;
  const float zero = static_cast<float>(-kind.zero);
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  const auto set = [&](int step, int lane, V scale, V addend) __attribute__((always_inline)) {
    store(to.scales + step * kRows + lane, scale);
    store(to.addends + step * kRows + lane, addend);
  };
  for (int lane = 0; lane < kRows; lane += kLanes) {
    switch (kind.form) {
      case ScaleForm::None:
        break;
      case ScaleForm::Half:
        for (int i = 0; i < steps; ++i) {
          const V scale = load_half(halves + i * kRows + lane);
          set(i, lane, scale, scale * set1(zero));
        }
        break;
      case ScaleForm::HalfMin:
        for (int i = 0; i < steps; ++i)
          set(i, lane, load_half(halves + i * 2 * kRows + lane), load_half(halves + (i * 2 + 1) * kRows + lane));
        break;
      case ScaleForm::Exponent:
        for (int i = 0; i < steps; ++i) {
          float scales[kLanes];
          for (int j = 0; j < kLanes; ++j) scales[j] = scale_of_exponent(from[i * kRows + lane + j]);
          set(i, lane, load(scales), load(scales) * set1(zero));
        }
        break;
      case ScaleForm::Super: {
        const V super = load_half(halves + lane);
        for (int i = 0; i < steps; ++i) {
          const V scale = super * load_signed_bytes(from + 2 * kRows + i * kRows + lane);
          set(i, lane, scale, scale * set1(zero));
        }
        break;
      }
      case ScaleForm::SuperMin: {
        const V super = load_half(halves + lane), super_min = set1(0) - load_half(halves + kRows + lane);
        const uint8_t* bytes = from + 4 * kRows + lane;
        for (int i = 0; i < steps; ++i)
          set(i, lane, super * load_bytes(bytes + i * kRows), super_min * load_bytes(bytes + (count + i) * kRows));
        break;
      }
      case ScaleForm::SuperPair: {
        const V super = load_half(halves + lane), super_min = set1(0) - load_half(halves + kRows + lane);
        for (int i = 0; i < steps; ++i) {
          alignas(16) uint8_t low[kRows], high[kRows];
          for (int j = 0; j < kRows; ++j) {
            const uint8_t both = from[4 * kRows + i * kRows + j];
            low[j] = both & 15;
            high[j] = both >> 4;
          }
          set(i, lane, super * load_bytes(low + lane), super_min * load_bytes(high + lane));
        }
        break;
      }
      case ScaleForm::Zeros: {
        const uint8_t* zeros = from + bytes_of(kind.stored) * kRows * static_cast<size_t>(count);
        for (int i = 0; i < count; ++i) {
          const int at = i * kRows + lane;
          const V scale = kind.stored == Stored::Float32    ? load(reinterpret_cast<const float*>(from) + at)
                          : kind.stored == Stored::BFloat16 ? load_bf16(halves + at)
                                                            : load_half(halves + at);
          const V addend = scale * (set1(0) - load_bytes(zeros + at));
          for (int j = i * repeats; j < steps && j < (i + 1) * repeats; ++j) set(j, lane, scale, addend);
        }
        break;
      }
    }
  }
}

// Widen `columns` columns of a group, whose scales begin at `from`.
inline void widen_span(const PackedKind& kind, const uint8_t* from, int columns, Widened& to) {
  const uint8_t* codes = from + scale_bytes(kind, columns);
  auto* floats = reinterpret_cast<float*>(to.weights);
  widen_scales(kind, from, columns, to);
  switch (kind.codes) {
    case Codes::Bits2:
      return widen_codes<Codes::Bits2>(codes, columns, to.weights);
    case Codes::Bits3:
      return widen_codes<Codes::Bits3>(codes, columns, to.weights);
    case Codes::Bits4:
      return widen_codes<Codes::Bits4>(codes, columns, to.weights);
    case Codes::Bits5:
      return widen_codes<Codes::Bits5>(codes, columns, to.weights);
    case Codes::Bits6:
      return widen_codes<Codes::Bits6>(codes, columns, to.weights);
    case Codes::Bits8:
      return widen_codes<Codes::Bits8>(codes, columns, to.weights);
    case Codes::Table4:
      return widen_codes<Codes::Table4>(codes, columns, to.weights);
    case Codes::Float4:
      return widen_codes<Codes::Float4>(codes, columns, to.weights);
    case Codes::Float32:
      return widen_numbers<float>(codes, columns, floats, [](const float* p) { return load(p); });
    case Codes::Float16:
      return widen_numbers<uint16_t>(codes, columns, floats, [](const uint16_t* p) { return load_half(p); });
    case Codes::BFloat16:
      return widen_numbers<uint16_t>(codes, columns, floats, [](const uint16_t* p) { return load_bf16(p); });
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
