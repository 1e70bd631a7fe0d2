// Products of rows with packed weights. A span of a group is widened once for up to 64 rows. Inputs are integers of 16
// bits with a scale for 32 columns, so the products of a step are exact, and each sum is one chain along the steps.
#pragma once

#include "packed_widen.h"

namespace sluice {
namespace SLUICE_SET {

// The format of packed weights. Rows of inputs are spans, whose sizes are counted in floats.
struct PackedFormat {
  using Weight = uint8_t;
  using Input = float;
};

// The place in a span's inputs of a column.
SLUICE_INLINE constexpr int input_at(int column) { return column / 4 * 4 + column % 2 * 2 + column % 4 / 2; }

// Store 16 integers, which are the lowest bits of floats, as inputs, and return their sum.
SLUICE_INLINE int store_values(const Lanes& shifted, int16_t* to) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  const __m256i words = _mm512_cvtepi32_epi16(as_int(shifted.v[0]));
  const __m256i low = _mm256_shufflelo_epi16(words, _MM_SHUFFLE(3, 1, 2, 0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shufflehi_epi16(low, _MM_SHUFFLE(3, 1, 2, 0)));
  return _mm512_reduce_add_epi32(_mm512_cvtepi16_epi32(words));
#else
  int32_t whole[16];
  unroll<kRegisters>([&](auto r)
                         __attribute__((always_inline)) { store_int(whole + r * kLanes, as_int(shifted.v[r])); });
  int sum = 0;
  for (int j = 0; j < 16; ++j) {
    to[input_at(j)] = static_cast<int16_t>(whole[j]);
    sum += static_cast<int16_t>(whole[j]);
  }
  return sum;
#endif
}

SLUICE_INLINE float largest_of(const Lanes& x) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_reduce_max_ps(x.v[0]);
#else
  return max_of(x);
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
  const Lanes inverse = all16(highest > 1e-30f ? 32767 / highest : 0), middle = all16(12582912.0f);
  int16_t* to = out->values + run * kCodeRun;
  const int low_sum = store_values(fma16(low, inverse, middle), to);
  const int high_sum = store_values(fma16(high, inverse, middle), to + 16);
  const Lanes broken = fma16(low, all16(0), high * all16(0));
  const float scale = highest / 32767 + any_broken(broken);
  out->scales[run] = scale;
  out->sums16[2 * run] = static_cast<float>(low_sum) * scale;
  out->sums16[2 * run + 1] = static_cast<float>(high_sum) * scale;
  out->sums32[run] = static_cast<float>(low_sum + high_sum) * scale;
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

// Return one input of a row.
SLUICE_INLINE float input_of(const PackedInputs* x, int column) {
  const PackedInputs& span = x[column / kSpan];
  return static_cast<float>(span.values[input_at(column % kSpan)]) * span.scales[column % kSpan / kCodeRun];
}

// Add the products of M rows with a widened span to out [M][16]; a row's inputs are `x_stride` spans after another's.
template <int M, int kStep>
void multiply_codes(const Widened& span, int steps, const PackedInputs* x, size_t x_stride, float* out,
                    size_t out_stride) {
  constexpr int kSums = M == 1 ? 4 : M <= 4 && kLanes == 16 ? 2 : 1;  // as many chains of additions hide their latency
  for (int lane = 0; lane < kRows; lane += kLanes) {
    V total[M];
    unroll<M>([&](auto m) __attribute__((always_inline)) { total[m] = load(out + m * out_stride + lane); });
    const uint8_t* weights = span.weights + lane * 4;
    for (int step = 0; step < steps; ++step, weights += kStep * kRows * 2) {
      VI sums[M][kSums];
      unroll<M * kSums>([&](auto i) __attribute__((always_inline)) { sums[i / kSums][i % kSums] = set1_int(0); });
      unroll<kStep / 2>([&](auto pair) __attribute__((always_inline)) {
        const VI weight = load_int(weights + pair * 64);
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          int both;
          std::memcpy(&both, x[m * x_stride].values + step * kStep + pair * 2, sizeof both);
          sums[m][pair % kSums] = add_pairs(sums[m][pair % kSums], weight, set1_int(both));
        });
      });
      const V scale = load(span.scales + step * kRows + lane), addend = load(span.addends + step * kRows + lane);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        VI sum = sums[m][0];
        unroll<kSums - 1>([&](auto i) __attribute__((always_inline)) { sum = add_int(sum, sums[m][i + 1]); });
        const PackedInputs& input = x[m * x_stride];
        const float input_sum = kStep == 16 ? input.sums16[step] : input.sums32[step];
        const V product = to_float(sum) * set1(input.scales[step * kStep / kCodeRun]);
        total[m] = fma(set1(input_sum), addend, fma(product, scale, total[m]));
      });
    }
    unroll<M>([&](auto m) __attribute__((always_inline)) { store(out + m * out_stride + lane, total[m]); });
  }
}

// The same product with numbers instead of codes. A sum of a span is four chains, which hide the latency of additions.
template <int M>
void multiply_numbers(const Widened& span, int columns, const PackedInputs* x, size_t x_stride, float* out,
                      size_t out_stride) {
  constexpr int kChains = 4;
  alignas(64) float inputs[M][kSpan];
  for (int m = 0; m < M; ++m)
    for (int run = 0; run < kSpan / kCodeRun; ++run) {
      const PackedInputs& input = x[m * x_stride];
      const float scale = input.scales[run];
      for (int i = run * kCodeRun; i < (run + 1) * kCodeRun; ++i)
        inputs[m][i] = static_cast<float>(input.values[i]) * scale;
    }
  for (int lane = 0; lane < kRows; lane += kLanes) {
    V total[M][kChains];
    unroll<M * kChains>([&](auto i) __attribute__((always_inline)) { total[i / kChains][i % kChains] = set1(0); });
    const float* weights = reinterpret_cast<const float*>(span.weights) + lane;
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

template <int M>
void multiply_rows(const PackedKind& kind, const Widened& span, int columns, const PackedInputs* x, size_t x_stride,
                   float* out, size_t out_stride) {
  const int steps = columns / kind.step;
  if (kind.step == 16) return multiply_codes<M, 16>(span, steps, x, x_stride, out, out_stride);
  multiply_codes<M, 32>(span, steps, x, x_stride, out, out_stride);
}

// Multiply any number of rows, as many at a time as there are registers for.
inline void multiply_span(const PackedKind& kind, const Widened& span, int columns, const PackedInputs* x,
                          size_t x_stride, int num_rows, float* out, size_t out_stride) {
  constexpr int kMost = kLanes == 16 ? 12 : 4;
  if (kind.is_float()) {
    constexpr int kMostOfNumbers = kLanes == 16 ? 4 : 2;
    for (int row = 0; row < num_rows;) {
      const int rows = num_rows - row >= kMostOfNumbers ? kMostOfNumbers : 1;
      const auto multiply = rows == 1 ? multiply_numbers<1> : multiply_numbers<kMostOfNumbers>;
      multiply(span, (columns + 3) / 4 * 4, x + row * x_stride, x_stride, out + row * out_stride, out_stride);
      row += rows;
    }
    return;
  }
  for (int row = 0; row < num_rows;) {
    const int left = num_rows - row, rows = left >= kMost ? kMost : left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    const auto multiply = rows == kMost ? multiply_rows<kMost>
                          : rows == 8   ? multiply_rows<kMost < 8 ? kMost : 8>
                          : rows == 4   ? multiply_rows<4>
                          : rows == 2   ? multiply_rows<2>
                                        : multiply_rows<1>;
    multiply(kind, span, columns, x + row * x_stride, x_stride, out + row * out_stride, out_stride);
    row += rows;
  }
}

// multiply_block of linear.h for packed weights. `x` are rows of spans.
template <int kMostGroups, class Finish>
void multiply_packed(const Matrix& matrix, const float* x, size_t stride, int num_rows, int from, int to,
                     const Finish& finish) {
  constexpr int kRowsAtOnce = 64, kFewRows = 8;
  alignas(64) float out[kRowsAtOnce * kMostGroups * 16];
  Widened widened;
  const int count = to - from, num_spans = spans_of(matrix.cols);
  const size_t out_stride = static_cast<size_t>(count) * 16, x_stride = stride * sizeof(float) / sizeof(PackedInputs);
  for (int row = 0; row < num_rows; row += kRowsAtOnce) {
    const int rows = num_rows - row < kRowsAtOnce ? num_rows - row : kRowsAtOnce;
    const auto* inputs = reinterpret_cast<const PackedInputs*>(x) + static_cast<size_t>(row) * x_stride;
    std::memset(out, 0, static_cast<size_t>(rows) * out_stride * sizeof(float));
    const auto multiply_one = [&](int group, int index) {
      const PackedGroup& packed = matrix.packed[from + group];
      const int columns = matrix.cols - index * kSpan < kSpan ? matrix.cols - index * kSpan : kSpan;
      widen_span(*packed.kind, packed.data + static_cast<size_t>(index) * span_bytes(*packed.kind, kSpan), columns,
                 widened);
      multiply_span(*packed.kind, widened, columns, inputs + index, x_stride, rows, out + group * 16, out_stride);
    };
    if (rows <= kFewRows) {  // weights are read in the order of memory
      for (int group = 0; group < count; ++group)
        for (int index = 0; index < num_spans; ++index) multiply_one(group, index);
    } else {  // a span's inputs stay in the L1 cache
      for (int index = 0; index < num_spans; ++index)
        for (int group = 0; group < count; ++group) multiply_one(group, index);
    }
    for (int m = 0; m < rows; ++m) finish(row + m, from, out + m * out_stride, count);
  }
}

// Unpack one row of a packed matrix to floats.
inline void unpack_packed(const Matrix& matrix, int row, float* out) {
  const PackedGroup& group = matrix.packed[row / kRows];
  const PackedKind& kind = *group.kind;
  const int lane = row % kRows;
  Widened span;
  for (int first = 0; first < matrix.cols; first += kSpan) {
    const int columns = matrix.cols - first < kSpan ? matrix.cols - first : kSpan;
    widen_span(kind, group.data + static_cast<size_t>(first / kSpan) * span_bytes(kind, kSpan), columns, span);
    for (int i = 0; i < columns; ++i) {
      const int at = input_at(i);
      if (kind.is_float()) {
        std::memcpy(out + first + i, span.weights + (at * kRows + lane) * sizeof(float), sizeof(float));
        continue;
      }
      int16_t code;
      std::memcpy(&code, span.weights + (at / 2 * kRows + lane) * 4 + at % 2 * 2, sizeof code);
      const int scale_at = i / kind.step * kRows + lane;
      out[first + i] = kind.zero > 0 ? static_cast<float>(code - kind.zero) * span.scales[scale_at]
                                     : static_cast<float>(code) * span.scales[scale_at] + span.addends[scale_at];
    }
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
