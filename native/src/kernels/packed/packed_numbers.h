// Matrix products with packed weights whose codes are floating-point numbers: they are widened to float32.
#pragma once

#include "kernels/packed/packed_inputs.h"

namespace sluice {
namespace SLUICE_SET {

template <class T, class Load>
void widen_each(const uint8_t* numbers, int columns, float* to, const Load& load_lanes) {
  const auto* from = reinterpret_cast<const T*>(numbers);
  const int padded_columns = (columns + kCodeRun - 1) / kCodeRun * kCodeRun;
  for (int i = 0; i < padded_columns * kRows; i += kLanes) store(to + i, load_lanes(from + i));
}

// Replace each integer, which is below 16, by a number of the table.
SLUICE_INLINE V look_up_floats(VI indices, const float* table) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_permutexvar_ps(indices, _mm512_loadu_ps(table));
#elif defined(SLUICE_SET_avx2)
  const V low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), indices);
  const V high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), indices);
  return _mm256_blendv_ps(low, high, as_float(shift_left<28>(indices)));  // by the fourth bit of an index
#else
  int32_t each[kLanes];
  float found[kLanes];
  store_int(each, indices);
  for (int i = 0; i < kLanes; ++i) found[i] = table[each[i]];
  return load(found);
#endif
}

// Widen numbers with scales.
inline void widen_scaled(const PackedKind& kind, const uint8_t* span, int columns, float* to) {
  const auto* scales = reinterpret_cast<const float*>(span);
  const uint8_t* codes = span + scale_bytes(kind, columns);
  const float* table = kind.codes == Codes::Normal4 ? kNormal4 : kQuarter4;
  for (int i = 0; i < columns; ++i)
    for (int lane = 0; lane < kRows; lane += kLanes) {
      const V scale = load(scales + i / kind.per * kRows + lane);
      float* at = to + i * kRows + lane;
      if (kind.codes == Codes::Float8) {
        store(at, floats_of_e4m3(load_byte_ints(codes + i * kRows + lane)) * scale);
        continue;
      }
      const VI both = load_byte_ints(codes + i / 2 * kRows + lane);
      store(at, look_up_floats(i % 2 == 0 ? and_int(both, set1_int(15)) : shift_right<4>(both), table) * scale);
    }
}

// Widen `columns` columns of 16 rows, a multiple of four.
inline void widen_numbers(const PackedKind& kind, const uint8_t* span, int columns, float* to) {
  if (kind.form == ScaleForm::Float) return widen_scaled(kind, span, columns, to);
  if (kind.codes == Codes::Float32)
    return widen_each<float>(span, columns, to, [](const float* p) { return load(p); });
  if (kind.codes == Codes::Float16)
    return widen_each<uint16_t>(span, columns, to, [](const uint16_t* p) { return load_half(p); });
  widen_each<uint16_t>(span, columns, to, [](const uint16_t* p) { return load_bf16(p); });
}

// Add the products of M rows with a span of numbers to out [M][16]. A sum of a span is four chains, which hide the
// latency of additions.
template <int M>
void multiply_numbers(const float* numbers, int columns, const PackedInputs* x, size_t x_stride, float* out,
                      size_t out_stride) {
  constexpr int kChains = 4;
  alignas(64) float inputs[M][kSpan];
  for (int m = 0; m < M; ++m)
    for (int run = 0; run < kSpan / kCodeRun; ++run) {
      const PackedInputs& input = x[m * x_stride];
      for (int i = 0; i < kCodeRun; ++i)
        inputs[m][run * kCodeRun + i] = static_cast<float>(run_value(run_of(input, run), i)) * input.scales[run];
    }
  for (int lane = 0; lane < kRows; lane += kLanes) {
    V total[M][kChains];
    unroll<M * kChains>([&](auto i) __attribute__((always_inline)) { total[i / kChains][i % kChains] = set1(0); });
    const float* weights = numbers + lane;
    for (int i = 0; i < columns; i += kChains)
      unroll<kChains>([&](auto c) __attribute__((always_inline)) {
        const V weight = load(weights + (i + c) * kRows);
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          total[m][c] = fma(weight, set1(inputs[m][i + c]), total[m][c]);
        });
      });
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      float* to = out + m * out_stride + lane;
      store(to, load(to) + ((total[m][0] + total[m][1]) + (total[m][2] + total[m][3])));
    });
  }
}

// Add the products of any number of rows with a span of a group of numbers.
inline void multiply_number_span(const PackedKind& kind, const uint8_t* span, int columns, const PackedInputs* x,
                                 size_t x_stride, int num_rows, float* out, size_t out_stride) {
  constexpr int kMost = kLanes == 16 ? 4 : 2;
  alignas(64) float numbers[kSpan * kRows];
  widen_numbers(kind, span, columns, numbers);
  for (int row = 0; row < num_rows;) {
    const int rows = num_rows - row >= kMost ? kMost : 1;
    const auto multiply = rows == 1 ? multiply_numbers<1> : multiply_numbers<kMost>;
    multiply(numbers, (columns + 3) / 4 * 4, x + row * x_stride, x_stride, out + row * out_stride, out_stride);
    row += rows;
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
