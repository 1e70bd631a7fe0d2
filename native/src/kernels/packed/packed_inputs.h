// Rows of inputs of packed weights: integers of 16 bits with a scale for 32 columns.
#pragma once

#include "kernels/packed/packed_lanes.h"
#include "weights/packed.h"

namespace sluice {
namespace SLUICE_SET {

// The format of packed weights. Rows of inputs are spans, whose sizes are counted in floats.
struct PackedFormat {
  using Weight = uint8_t;
  using Input = float;
};

// The order of a run's inputs. With products of bytes, the low bytes of 32 inputs precede their high bytes; both are
// signed. Otherwise inputs are 16-bit numbers, of which those of even columns come first among each four.
#if defined(SLUICE_SET_avx512bf16)
constexpr bool kInBytes = true;
#else
constexpr bool kInBytes = false;
#endif
constexpr float kLargestInput = 127 * 256 + 127;  // of two signed bytes; the same in all sets

SLUICE_INLINE constexpr int pair_order(int column) { return column / 4 * 4 + column % 2 * 2 + column % 4 / 2; }

// The bytes of a run's inputs.
SLUICE_INLINE const uint8_t* run_of(const PackedInputs& span, int run) {
  return reinterpret_cast<const uint8_t*>(span.values) + run * kCodeRun * 2;
}

// The integer of a column of a run.
SLUICE_INLINE int run_value(const uint8_t* run, int column) {
  if constexpr (kInBytes) {
    const auto* bytes = reinterpret_cast<const int8_t*>(run);
    return bytes[column + kCodeRun] * 256 + bytes[column];
  }
  int16_t value;
  std::memcpy(&value, run + 2 * pair_order(column), sizeof value);
  return value;
}

// Return one input of a row.
SLUICE_INLINE float input_of(const PackedInputs* x, int column) {
  const PackedInputs& span = x[column / kSpan];
  const int run = column % kSpan / kCodeRun;
  return static_cast<float>(run_value(run_of(span, run), column % kCodeRun)) * span.scales[run];
}

// Store 32 integers, which are the lowest bits of floats, as the inputs of a run, and the sums of both halves.
SLUICE_INLINE void store_values(const Lanes& low, const Lanes& high, uint8_t* run, int (&sums)[2]) {
#if defined(SLUICE_SET_avx512bf16)
  const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(as_int(low.v[0]))),
                                           _mm512_cvtepi32_epi16(as_int(high.v[0])), 1);
  const __m512i high_bytes = _mm512_srai_epi16(_mm512_add_epi16(words, _mm512_set1_epi16(128)), 8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(run), _mm512_cvtepi16_epi8(words));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(run + kCodeRun), _mm512_cvtepi16_epi8(high_bytes));
  sums[0] = _mm512_reduce_add_epi32(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(words)));
  sums[1] = _mm512_reduce_add_epi32(_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(words, 1)));
#else
  const Lanes* halves[] = {&low, &high};
  for (int half = 0; half < 2; ++half) {
    int32_t whole[16];
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      store_int(whole + r * kLanes, as_int(halves[half]->v[r]));
    });
    sums[half] = 0;
    for (int j = 0; j < 16; ++j) {
      const auto value = static_cast<int16_t>(whole[j]);
      std::memcpy(run + 2 * (half * 16 + pair_order(j)), &value, sizeof value);
      sums[half] += value;
    }
  }
#endif
}

// The sum of the lanes, of which only matters whether it is NaN.
SLUICE_INLINE float any_broken(const Lanes& x) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_reduce_add_ps(x.v[0]);
#else
  return sum_of(x);
#endif
}

// Quantize 32 numbers. The scale is NaN if one of them is not finite.
SLUICE_INLINE void quantize_run(const float* x, PackedInputs* out, int run) {
  const Lanes low = load16(x), high = load16(x + 16), minus = all16(-1);
  const float highest = largest_of(max16(max16(low, low * minus), max16(high, high * minus)));
  const Lanes inverse = all16(highest > 1e-30f ? kLargestInput / highest : 0), middle = all16(12582912.0f);
  int sums[2];
  store_values(fma16(low, inverse, middle), fma16(high, inverse, middle),
               reinterpret_cast<uint8_t*>(out->values) + run * kCodeRun * 2, sums);
  const Lanes broken = fma16(low, all16(0), high * all16(0));
  const float scale = highest / kLargestInput + any_broken(broken);
  out->scales[run] = scale;
  out->sums16[2 * run] = static_cast<float>(sums[0]) * scale;
  out->sums16[2 * run + 1] = static_cast<float>(sums[1]) * scale;
  out->sums32[run] = static_cast<float>(sums[0] + sums[1]) * scale;
}

// Quantize a row [width] to spans of inputs.
inline void quantize(const float* x, int width, PackedInputs* out) {
  for (int first = 0; first < width; first += kSpan, ++out)
    for (int run = 0; run < kSpan / kCodeRun; ++run) {
      const int at = first + run * kCodeRun, count = width - at < kCodeRun ? width - at : kCodeRun;
      if (count == kCodeRun) {
        quantize_run(x + at, out, run);
      } else {
        alignas(64) float values[kCodeRun] = {};
        if (count > 0) std::memcpy(values, x + at, static_cast<size_t>(count) * sizeof(float));
        quantize_run(values, out, run);
      }
    }
}

// Write the inputs order[0] … order[width - 1] of a row of spans as another row.
inline void reorder(const PackedInputs* x, const int32_t* order, int width, PackedInputs* out) {
  for (int first = 0; first < spans_of(width) * kSpan; first += kCodeRun) {
    alignas(64) float values[kCodeRun] = {};
    for (int i = 0; i < kCodeRun && first + i < width; ++i) values[i] = input_of(x, order[first + i]);
    quantize_run(values, out + first / kSpan, first % kSpan / kCodeRun);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
