// The scales of a span of a packed group as floats.
#pragma once

#include "kernels/packed/packed_lanes.h"
#include "weights/packed.h"

namespace sluice {
namespace SLUICE_SET {

// A code q means scale * q + addend; for each step of 16 or 32 columns, those of 16 rows.
struct SpanScales {
  alignas(64) float scales[kSpan / 16 * kRows], addends[kSpan / 16 * kRows];
};

// Powers of two whose exponents have an offset of 128, since the numbers are doubled. They are products of two powers,
// because the smallest ones are subnormal.
SLUICE_INLINE V powers_of_two(VI exponents) {
  const VI half = shift_right<1>(exponents), rest = shift_right<1>(add_int(exponents, set1_int(1)));
  return as_float(shift_left<23>(add_int(half, set1_int(63)))) * as_float(shift_left<23>(add_int(rest, set1_int(63))));
}

// Widen the scales of a span; each stored scale applies to kind.per columns, which are one or several steps.
inline void widen_scales(const PackedKind& kind, const uint8_t* from, int columns, SpanScales& to) {
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
      case ScaleForm::Float:  // of numbers
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
          const V scale = powers_of_two(load_byte_ints(from + i * kRows + lane));
          set(i, lane, scale, scale * set1(zero));
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
          const VI both = load_byte_ints(from + 4 * kRows + i * kRows + lane);
          set(i, lane, super * to_float(and_int(both, set1_int(15))), super_min * to_float(shift_right<4>(both)));
        }
        break;
      }
      case ScaleForm::SuperFloat8: {
        const V super = load(reinterpret_cast<const float*>(from) + lane);
        for (int i = 0; i < steps; ++i) {
          const V scale = super * floats_of_e4m3(load_byte_ints(from + 4 * kRows + i * kRows + lane));
          set(i, lane, scale, scale * set1(zero));
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

}  // namespace SLUICE_SET
}  // namespace sluice
