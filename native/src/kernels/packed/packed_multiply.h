// Matrix products with packed weights; weights/packed.h defines span, run, step and group. The codes of a run are
// unpacked once for up to 64 rows, with AVX2 32. Inputs are integers with a scale per run, so sums of a step are exact,
// and a result is one chain of additions along the steps. Its bits don't depend on which rows and groups are multiplied
// together.
#pragma once

#include "kernels/linear.h"
#include "kernels/packed/packed_numbers.h"
#include "kernels/packed/packed_run.h"

namespace sluice {
namespace SLUICE_SET {

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
  constexpr int kRowsAtOnce = kLanes == 16 ? 64 : 32, kFewRows = 8;  // a span's inputs stay in the L1 cache
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
    } else {
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
