// The additions of adapters to a product's sums: first x · downᵀ of the adapters' rows, and then, when a row's sums are
// complete, this result times upᵀ. Each sum is one chain along the columns, so a row's bits don't depend on other rows.
#pragma once

#include "kernels/formats.h"
#include "kernels/rows.h"
#include "layers/low_rank.h"

namespace sluice {
namespace SLUICE_SET {

// The format of adapters for a format of weights; it is always a floating-point one.
template <class Weight>
using LowFormat = std::conditional_t<std::is_same_v<Weight, Float32Format>, Float32Format, BFloat16Format>;

constexpr int kLowTileRows = kRegisters == 1 ? 4 : 2, kLowTileGroups = 2, kLowChunkRows = 16;

// The second product, low · upᵀ, of the rows of a step.
template <class Low>
struct AddedSums {
  const AdaptedRows* adapted = nullptr;  // null: nothing is added
  int product = 0;                       // index among the products of all layers
  const typename Low::Input* low = nullptr;
  size_t stride = 0;

  // Add to the sums [count][16] of one row; the first group is `group`.
  SLUICE_INLINE void operator()(int row, int group, int count, float* sums) const {
    if (adapted != nullptr && adapted->part_of_row[row] >= 0) add(row, group, count, sums);
  }

 private:
  void add(int row, int group, int count, float* sums) const {
    const LowRank& low_rank = adapted->parts[adapted->part_of_row[row]].products[product];
    if (low_rank.down.rows == 0) return;
    for (int n = 0; n < count; ++n) {
      const LowRank::Span& span = low_rank.spans[group + n];
      if (span.count == 0) continue;
      const typename Low::Input* x[1] = {low + static_cast<size_t>(row) * stride + span.first};
      const typename Low::Weight* w[1] = {reinterpret_cast<const typename Low::Weight*>(low_rank.up + span.at)};
      Lanes added[1][1] = {{all16(0)}};
      multiply<Low, 1, 1>(added, x, w, span.count / Low::kColumns);
      store16(sums + n * 16, load16(sums + n * 16) + added[0][0]);
    }
  }
};

// Multiply M rows, which need not be adjacent, with N groups of a down; write the results to the same rows of `out`.
template <class Low, int M, int N>
void multiply_down(const Matrix& down, const int32_t* rows, int group, const typename Low::Input* x, size_t x_stride,
                   typename Low::Input* out, size_t out_stride) {
  const typename Low::Input* from[M];
  const typename Low::Weight* w[N];
  for (int m = 0; m < M; ++m) from[m] = x + static_cast<size_t>(rows[m]) * x_stride;
  for (int n = 0; n < N; ++n)
    w[n] = reinterpret_cast<const typename Low::Weight*>(down.data + static_cast<size_t>(group + n) * down.group_bytes);
  Lanes sums[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = all16(0); });
  });
  multiply<Low, M, N>(sums, from, w, down.padded_cols / Low::kColumns);
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      store_input(out + static_cast<size_t>(rows[m]) * out_stride + (group + n) * 16, sums[m][n]);
    });
  });
}

// Convert a row of bytes, which are 128 + value / scale, or of spans to floating point.
template <class Input>
void widen(const uint8_t* bytes, float scale, int width, Input* out) {
  for (int i = 0; i < padded(width); i += 16) {
    alignas(64) float values[16];
    for (int j = 0; j < 16; ++j) values[j] = i + j < width ? static_cast<float>(bytes[i + j] - 128) * scale : 0;
    store_input(out + i, load16(values));
  }
}

template <class Input>
void widen(const PackedInputs* spans, float, int width, Input* out) {
  for (int i = 0; i < padded(width); i += 16) {
    alignas(64) float values[16];
    for (int j = 0; j < 16; ++j) values[j] = i + j < width ? input_of(spans, i + j) : 0;
    store_input(out + i, load16(values));
  }
}

// Multiply up to kLowChunkRows of an adapter's rows with up to kLowTileGroups groups of its down.
template <class Low>
void multiply_down_chunk(const Matrix& down, const int32_t* rows, int num_rows, int group, const typename Low::Input* x,
                         size_t x_stride, typename Low::Input* out, size_t out_stride) {
  const bool has_two = group + 1 < down.groups;
  for (int row = 0; row < num_rows;) {
    const bool is_tile = row + kLowTileRows <= num_rows;
    const auto multiply_rows =
        is_tile ? (has_two ? multiply_down<Low, kLowTileRows, 2> : multiply_down<Low, kLowTileRows, 1>)
                : (has_two ? multiply_down<Low, 1, 2> : multiply_down<Low, 1, 1>);
    multiply_rows(down, rows + row, group, x, x_stride, out, out_stride);
    row += is_tile ? kLowTileRows : 1;
  }
}

inline int num_down_chunks(const AdaptedRows::Part& part, int product) {
  const int row_chunks = (part.num_rows + kLowChunkRows - 1) / kLowChunkRows;
  return row_chunks * ((part.products[product].down.groups + kLowTileGroups - 1) / kLowTileGroups);
}

// Run the phases of the first product, x · downᵀ, whose inputs have `width` columns; there are none if no adapter
// changes the product. Return the function object that adds the second product.
template <class Weight, class Thread, class Inputs>
AddedSums<LowFormat<Weight>> multiply_downs(Thread& thread, int product, int width, const Inputs& inputs) {
  using Low = LowFormat<Weight>;
  using Input = typename Low::Input;
  if (thread.adapted == nullptr) return {};
  const Adapted& step = *thread.step.adapted;
  const AdaptedRows& adapted = *thread.adapted;
  int num_chunks = 0;
  for (int i = 0; i < adapted.num_parts; ++i) num_chunks += num_down_chunks(adapted.parts[i], product);
  if (num_chunks == 0) return {};
  auto* x = static_cast<const Input*>(inputs.rows);
  size_t x_stride = inputs.stride;
  if constexpr (kIsQuantized<Weight>) {
    using Quantized = std::conditional_t<std::is_same_v<Weight, PackedFormat>, PackedInputs, uint8_t>;
    auto* widened = static_cast<Input*>(step.widened);
    thread.each_row(thread.num_rows, [&](int row) {
      if (adapted.part_of_row[row] < 0) return;
      const size_t at = static_cast<size_t>(row) * inputs.stride * sizeof(typename Weight::Input);
      const auto* quantized = reinterpret_cast<const Quantized*>(static_cast<const uint8_t*>(inputs.rows) + at);
      widen(quantized, inputs.scales[row], width, widened + static_cast<size_t>(row) * step.widened_stride);
    });
    x = widened;
    x_stride = step.widened_stride;
  }
  auto* low = static_cast<Input*>(step.low);
  thread.phase(num_chunks, [&](int chunk) {
    int index = 0;
    for (; chunk >= num_down_chunks(adapted.parts[index], product); ++index)
      chunk -= num_down_chunks(adapted.parts[index], product);
    const AdaptedRows::Part& part = adapted.parts[index];
    const Matrix& down = part.products[product].down;
    const int group_chunks = (down.groups + kLowTileGroups - 1) / kLowTileGroups;
    const int row = chunk / group_chunks * kLowChunkRows;
    const int count = part.num_rows - row < kLowChunkRows ? part.num_rows - row : kLowChunkRows;
    multiply_down_chunk<Low>(down, part.rows + row, count, chunk % group_chunks * kLowTileGroups, x, x_stride, low,
                             step.low_stride);
  });
  return {thread.adapted, product, low, static_cast<size_t>(step.low_stride)};
}

}  // namespace SLUICE_SET
}  // namespace sluice
