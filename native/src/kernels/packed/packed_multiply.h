// Matrix products with packed weights; weights/packed.h defines span, run, step and group. The codes of a run are
// unpacked once for up to 64 rows. Inputs are integers with a scale per run, so sums of a step are exact, and a result is
// one chain of additions along the steps. Its bits don't depend on which rows and groups are multiplied together.
#pragma once

#include "kernels/linear.h"
#include "kernels/packed/packed_codes.h"
#include "kernels/packed/packed_inputs.h"
#include "kernels/packed/packed_numbers.h"
#include "kernels/packed/packed_scales.h"

namespace sluice {
namespace SLUICE_SET {

// The arguments of a product of one span of N groups of the same kind with one span of each row of inputs. Results are
// added to out [rows][N][16].
template <int N>
struct SpanProduct {
  const uint8_t* codes[N];
  const SpanScales* scales[N];
  int steps;
  const PackedInputs* x;
  size_t x_stride;  // in spans
  int num_rows;
  float* out;
  size_t out_stride;
};

#if defined(SLUICE_SET_avx512bf16)
SLUICE_INLINE VI broadcast4(const uint8_t* p) {
  int four;
  std::memcpy(&four, p, sizeof four);
  return set1_int(four);
}

// Add the products of a run. Inputs are 16-bit: codes are multiplied with their low and with their high bytes.
template <Codes kCodes, int kStep, int N>
SLUICE_INLINE void multiply_run(const SpanProduct<N>& span, int run) {
  constexpr int kQuads = kStep / 4, kSteps = kCodeRun / kStep;
  VI quads[N][8];
  unroll<N>([&](auto n) __attribute__((always_inline)) {
    load_codes<kCodes>(span.codes[n] + run * kRunBytes<kCodes>, quads[n]);
  });
  for (int m = 0; m < span.num_rows; ++m) {
    const PackedInputs& input = span.x[m * span.x_stride];
    const uint8_t* low = run_of(input, run);
    float* out = span.out + m * span.out_stride;
    unroll<kSteps>([&](auto s) __attribute__((always_inline)) {
      const int step = run * kSteps + s;
      if (kSteps > 1 && step >= span.steps) return;
      VI lows[N], highs[N];
      unroll<N>([&](auto n) __attribute__((always_inline)) { lows[n] = highs[n] = set1_int(0); });
      unroll<kQuads>([&](auto q) __attribute__((always_inline)) {
        constexpr int kQuad = s * kQuads + q;
        const VI low_four = broadcast4(low + kQuad * 4), high_four = broadcast4(low + kCodeRun + kQuad * 4);
        unroll<N>([&](auto n) __attribute__((always_inline)) {
          lows[n] = add_products(lows[n], quads[n][kQuad], low_four);
          highs[n] = add_products(highs[n], quads[n][kQuad], high_four);
        });
      });
      const V input_scale = set1(input.scales[run]);
      const V input_sum = set1(kStep == 16 ? input.sums16[step] : input.sums32[step]);
      unroll<N>([&](auto n) __attribute__((always_inline)) {
        const V scale = load(span.scales[n]->scales + step * kRows), addend = load(span.scales[n]->addends + step * kRows);
        const V product = to_float(add_int(lows[n], shift_left<8>(highs[n]))) * input_scale;
        store(out + n * kRows, fma(input_sum, addend, fma(product, scale, load(out + n * kRows))));
      });
    });
  }
}
#else
// Add the products of M rows with the steps of a run. `pairs` has its codes as pairs of int16.
template <int M, int kStep>
SLUICE_INLINE void multiply_pairs_of(const uint8_t* pairs, const SpanProduct<1>& span, int run, int first_row) {
  constexpr int kSums = M == 1 ? 4 : M <= 4 && kLanes == 16 ? 2 : 1;  // independent sums hide the latency of add
  constexpr int kSteps = kCodeRun / kStep;
  const PackedInputs* x = span.x + first_row * span.x_stride;
  for (int lane = 0; lane < kRows; lane += kLanes) {
    float* out = span.out + first_row * span.out_stride + lane;
    V total[M];
    unroll<M>([&](auto m) __attribute__((always_inline)) { total[m] = load(out + m * span.out_stride); });
    for (int s = 0; s < kSteps && run * kSteps + s < span.steps; ++s) {
      const int step = run * kSteps + s;
      const uint8_t* weights = pairs + s * kStep * kRows * 2 + lane * 4;
      VI sums[M][kSums];
      unroll<M * kSums>([&](auto i) __attribute__((always_inline)) { sums[i / kSums][i % kSums] = set1_int(0); });
      unroll<kStep / 2>([&](auto pair) __attribute__((always_inline)) {
        const VI weight = load_int(weights + pair * 64);
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          int both;
          std::memcpy(&both, run_of(x[m * span.x_stride], run) + (s * kStep + pair * 2) * 2, sizeof both);
          VI& sum = sums[m][pair % kSums];
          sum = add_products(sum, weight, set1_int(both));
        });
      });
      const V scale = load(span.scales[0]->scales + step * kRows + lane);
      const V addend = load(span.scales[0]->addends + step * kRows + lane);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        VI sum = sums[m][0];
        unroll<kSums - 1>([&](auto i) __attribute__((always_inline)) { sum = add_int(sum, sums[m][i + 1]); });
        const PackedInputs& input = x[m * span.x_stride];
        const float input_sum = kStep == 16 ? input.sums16[step] : input.sums32[step];
        const V product = to_float(sum) * set1(input.scales[run]);
        total[m] = fma(set1(input_sum), addend, fma(product, scale, total[m]));
      });
    }
    unroll<M>([&](auto m) __attribute__((always_inline)) { store(out + m * span.out_stride, total[m]); });
  }
}

// Add the products of a run, as many rows at a time as there are registers for.
template <Codes kCodes, int kStep, int N>
SLUICE_INLINE void multiply_run(const SpanProduct<N>& span, int run) {
  constexpr int kMost = kLanes == 16 ? 12 : 4;
  alignas(64) uint8_t pairs[kCodeRun * kRows * 2];
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
    constexpr int kAt = r * kLanes * 4;
    VI quads[8];
    load_codes<kCodes>(span.codes[0] + run * kRunBytes<kCodes> + kAt, quads);
    unroll<8>([&](auto i) __attribute__((always_inline)) {
      store_int(pairs + i * 128 + kAt, low_bytes(quads[i]));
      store_int(pairs + i * 128 + 64 + kAt, high_bytes(quads[i]));
    });
  });
  for (int row = 0; row < span.num_rows;) {
    const int left = span.num_rows - row;
    const int rows = left >= kMost ? kMost : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (rows == kMost)
      multiply_pairs_of<kMost, kStep>(pairs, span, run, row);
    else if (rows == 4)
      multiply_pairs_of<4, kStep>(pairs, span, run, row);
    else if (rows == 2)
      multiply_pairs_of<2, kStep>(pairs, span, run, row);
    else
      multiply_pairs_of<1, kStep>(pairs, span, run, row);
    row += rows;
  }
}
#endif

template <Codes kCodes, int kStep, int N>
void multiply_codes(const SpanProduct<N>& span) {
  constexpr int kSteps = kCodeRun / kStep;
  for (int run = 0; run * kSteps < span.steps; ++run) {
    // Prefetch the codes of the next span.
    for (int n = 0; n < N; ++n)
      for (size_t at = 0; at < kRunBytes<kCodes>; at += 64)
        __builtin_prefetch(span.codes[n] + (kSpan / kCodeRun + run) * kRunBytes<kCodes> + at, 0, 3);
    multiply_run<kCodes, kStep, N>(span, run);
  }
}

// Multiply rows with a span of N groups of a kind, which begins at spans[n].
template <int N>
void multiply_span(const PackedKind& kind, const uint8_t* const (&spans)[N], int columns, const PackedInputs* x,
                   size_t x_stride, int num_rows, float* out, size_t out_stride) {
  if (kind.is_float()) {
    for (int n = 0; n < N; ++n)
      multiply_number_span(kind, spans[n], columns, x, x_stride, num_rows, out + n * kRows, out_stride);
    return;
  }
  SpanScales scales[N];
  SpanProduct<N> span{{}, {}, columns / kind.step, x, x_stride, num_rows, out, out_stride};
  for (int n = 0; n < N; ++n) {
    widen_scales(kind, spans[n], columns, scales[n]);
    span.codes[n] = spans[n] + scale_bytes(kind, columns);
    span.scales[n] = &scales[n];
  }
  with_codes(kind.codes, [&](auto codes) {
    constexpr Codes kCodes = decltype(codes)::value;
    kind.step == 16 ? multiply_codes<kCodes, 16, N>(span) : multiply_codes<kCodes, 32, N>(span);
  });
}

// Like multiply_block in linear.h, for packed weights. The rows `x` consist of PackedInputs, one per span.
template <int kMostGroups>
void multiply_packed(const Matrix& matrix, const float* x, size_t stride, int num_rows, int from, int to,
                     const Finish& finish) {
  constexpr int kRowsAtOnce = 64, kFewRows = 8;
  alignas(64) float out[kRowsAtOnce * kMostGroups * 16];
  const int count = to - from, num_spans = spans_of(matrix.cols);
  const size_t out_stride = static_cast<size_t>(count) * 16, x_stride = stride * sizeof(float) / sizeof(PackedInputs);
  for (int row = 0; row < num_rows; row += kRowsAtOnce) {
    const int rows = num_rows - row < kRowsAtOnce ? num_rows - row : kRowsAtOnce;
    const auto* inputs = reinterpret_cast<const PackedInputs*>(x) + static_cast<size_t>(row) * x_stride;
    std::memset(out, 0, static_cast<size_t>(rows) * out_stride * sizeof(float));
    // Multiply the spans [first, end) of one group or two, and return the number of groups. Two groups share the loads
    // of inputs; with up to two rows memory bandwidth is the limit, and one stream of weights is faster.
    const auto multiply_some = [&](int group, int first, int end) {
      const PackedGroup* packed = matrix.packed + from + group;
      const PackedKind& kind = *packed->kind;
      const bool is_pair = kInBytes && rows > 2 && group + 1 < count && packed[1].kind == &kind;
      for (int index = first; index < end; ++index) {
        const int columns = matrix.cols - index * kSpan < kSpan ? matrix.cols - index * kSpan : kSpan;
        const size_t at = static_cast<size_t>(index) * span_bytes(kind, kSpan);
        if constexpr (kInBytes)
          if (is_pair) {
            multiply_span<2>(kind, {packed[0].data + at, packed[1].data + at}, columns, inputs + index, x_stride, rows,
                             out + group * 16, out_stride);
            continue;
          }
        multiply_span<1>(kind, {packed->data + at}, columns, inputs + index, x_stride, rows, out + group * 16,
                         out_stride);
      }
      return is_pair ? 2 : 1;
    };
    if (rows <= kFewRows) {  // weights are read in the order of memory
      for (int group = 0; group < count;) group += multiply_some(group, 0, num_spans);
    } else {  // a span's inputs stay in the L1 cache
      for (int index = 0; index < num_spans; ++index)
        for (int group = 0; group < count;) group += multiply_some(group, index, index + 1);
    }
    finish({row, rows, from, count, out, out_stride});
  }
}

// Unpack one row of a packed matrix to floats.
inline void unpack_packed(const Matrix& matrix, int row, float* out) {
  const PackedGroup& group = matrix.packed[row / kRows];
  const PackedKind& kind = *group.kind;
  const int lane = row % kRows;
  for (int first = 0; first < matrix.cols; first += kSpan) {
    const int columns = matrix.cols - first < kSpan ? matrix.cols - first : kSpan;
    const uint8_t* span = group.data + static_cast<size_t>(first / kSpan) * span_bytes(kind, kSpan);
    if (kind.is_float()) {
      alignas(64) float numbers[kSpan * kRows];
      widen_numbers(kind, span, columns, numbers);
      for (int i = 0; i < columns; ++i) out[first + i] = numbers[i * kRows + lane];
      continue;
    }
    SpanScales scales;
    alignas(64) uint8_t codes[kSpan * kRows];
    widen_scales(kind, span, columns, scales);
    with_codes(kind.codes, [&](auto kinds) {
      constexpr Codes kCodes = decltype(kinds)::value;
      for (int run = 0; run * kCodeRun < columns; ++run)
        store_run<kCodes>(span + scale_bytes(kind, columns) + run * kRunBytes<kCodes>, codes + run * kCodeRun * kRows);
    });
    for (int i = 0; i < columns; ++i) {
      const int code = codes[i / 4 * 64 + lane * 4 + i % 4], at = i / kind.step * kRows + lane;
      out[first + i] = kind.zero > 0 ? static_cast<float>(code - kind.zero) * scales.scales[at]
                                     : static_cast<float>(code) * scales.scales[at] + scales.addends[at];
    }
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
