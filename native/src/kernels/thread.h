// One thread's view of a step: phases whose chunks are shared by all threads, the buffers' rows, products and norms.
#pragma once

#include "kernels/adapter.h"
#include "kernels/function_ref.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "kernels/set.h"

namespace sluice {
namespace SLUICE_SET {

template <class F>
SLUICE_INLINE void each_sum(const float* sums, int group, int count, const float* bias, F&& f) {
  for (int n = 0; n < count; ++n) {
    Lanes sum = load16(sums + n * 16);
    if (bias != nullptr) sum = sum + load16(bias + (group + n) * 16);
    f((group + n) * 16, sum);
  }
}

// Weight is the format of the layers' weights.
template <class Weight>
struct Thread {
  using Input = typename Weight::Input;
  static constexpr bool kQuantizes = kIsQuantized<Weight>;
  const Step& step;
  const DecoderPlan& plan;
  const Weights& weights;
  const Batch& batch;
  const int thread;
  int num_rows;  // rows of the residual; after the last layer that stores anything, only the output rows
  float* residual;
  const AdaptedRows* adapted;  // the rows that adapters change; null: none
  float* streams = step.streams;  // all residuals of the rows
  uint32_t num_phases = 0;

  // Run body(0) … body(count - 1), shared among the threads, and return when all are done.
  using Body = FunctionRef<int>;
  void phase(int count, const Body& body) {
    if (step.num_threads == 1) {
      for (int chunk = 0; chunk < count; ++chunk) body(chunk);
      return;
    }
    if (count == 0) return;
    const uint32_t index = num_phases++;
    int part = 0, done = 0;
    for (int chunk; (chunk = take_chunk(*step.phases, index, count, thread, part)) >= 0; ++done) body(chunk);
    end_phase(*step.phases, index, count, done);
  }

  // Run body(row) for all rows, shared among the threads in chunks of several rows.
  void each_row(int count, const Body& body) {
    const int size = count / (8 * step.num_threads) + 1;
    phase((count + size - 1) / size, [&](int chunk) {
      const int end = (chunk + 1) * size < count ? (chunk + 1) * size : count;
      for (int row = chunk * size; row < end; ++row) body(row);
    });
  }

  // The inputs of a product: rows in the format's input type, with their scales if they are bytes.
  struct Inputs {
    void* rows;
    size_t stride;
    float* scales;
  };
  Inputs inputs() const { return {step.input, static_cast<size_t>(step.input_stride), step.input_scales}; }
  Inputs inner() const { return {step.inner, static_cast<size_t>(step.inner_stride), step.inner_scales}; }

  // The additions of adapters to a layer's product with `matrix`.
  using Added = AddedSums<LowFormat<Weight>>;
  Added added(int index, Product product, const Matrix& matrix, const Inputs& inputs) {
    return multiply_downs<Weight>(*this, index * kProducts + product, matrix.cols, inputs);
  }

  // The inputs in the order of a matrix' columns.
  template <class Format>
  Inputs in_order(const Matrix& matrix, const Inputs& given) {
    if constexpr (!std::is_same_v<Format, PackedFormat>) return given;
    if (matrix.order == nullptr) return given;
    const Inputs to{step.ordered, static_cast<size_t>(step.ordered_stride), given.scales};
    each_row(num_rows, [&](int row) {
      const size_t index = static_cast<size_t>(row);
      reorder(reinterpret_cast<const PackedInputs*>(static_cast<float*>(given.rows) + index * given.stride),
              matrix.order, matrix.cols,
              reinterpret_cast<PackedInputs*>(static_cast<float*>(to.rows) + index * to.stride));
    });
    return to;
  }

  // Multiply all rows with `matrix`, and call finish(row, group, sums, count) for the results.
  template <class Format, class Finish>
  void multiply_all(const Matrix& matrix, const Inputs& given, const Finish& finish, const Added& added = {}) {
    const Inputs inputs = in_order<Format>(matrix, given);
    const int size = groups_per_block(matrix, num_rows, step.num_threads);
    const auto finish_tile = [&](const TileSums& tile) {
      tile.each_row([&](int row, int group, float* sums, int count) {
        if constexpr (std::is_same_v<Format, Int8Format>) scale_sums(matrix, group, count, inputs.scales[row], sums);
        added(row, group, count, sums);
        finish(row, group, sums, count);
      });
    };
    phase(num_rows > 0 ? (matrix.groups + size - 1) / size : 0, [&](int chunk) {
      multiply_block<Format>(matrix, inputs.rows, inputs.stride, num_rows, chunk * size, (chunk + 1) * size,
                             finish_tile);
    });
  }

  size_t row_offset(int row) const { return static_cast<size_t>(row) * step.residual_stride; }
  float* residual_row(int row) const { return residual + row_offset(row); }
  float* branch_row(int row) const { return residual_row(row) + (step.branch - step.residual); }
  bool has_kept() const { return residual != step.residual; }
  int token_of(int row) const { return has_kept() ? batch.output_rows[row] : row; }
  float* streams_row(int row) const { return streams + row_offset(row) * static_cast<size_t>(plan.num_streams()); }
  float* wide_row(int row) const { return step.wide + static_cast<size_t>(row) * step.wide_stride; }
  Input* input_row(int row) const {
    return static_cast<Input*>(step.input) + static_cast<size_t>(row) * step.input_stride;
  }
  // A token's cosines of a table; its sines follow.
  float* rotation(int token, const Rotary& rotary) const {
    return step.rotation + static_cast<size_t>(token) * step.rotation_stride + rotary.offset;
  }
  // The row for results that are inputs of the next product. Results to be quantized are stored as floats first.
  auto* attended_row(int row) const {
    if constexpr (kQuantizes)
      return wide_row(row);
    else
      return input_row(row);
  }
  auto* inner_row(int row) const {
    if constexpr (kQuantizes)
      return wide_row(row);
    else
      return static_cast<Input*>(step.inner) + static_cast<size_t>(row) * step.inner_stride;
  }
  // Zero the padding columns of a row, which must be finite.
  template <class T>
  static void clear_padding(T* row, int width) {
    for (int i = width; i < padded(width); ++i) store_input(row + i, 0.0f);
  }

  uint8_t* scratch() const { return step.scratch + static_cast<size_t>(thread) * step.scratch_bytes; }

  // Write the normalized residual to the inputs; without a norm, the residual itself. With a multiplier above 0, the
  // residual becomes its norm times the multiplier.
  template <class Format>
  void normalize_rows(const Norm& norm, float multiplier = 0) {
    each_row(num_rows, [&](int row) {
      auto* to = static_cast<typename Format::Input*>(step.input) + static_cast<size_t>(row) * step.input_stride;
      float* from = residual_row(row);
      if (multiplier > 0) normalize_row(plan, from, norm, from);
      const Norm own = multiplier > 0 ? Norm{} : norm;
      if constexpr (kIsQuantized<Format>) {
        auto* wide = reinterpret_cast<float*>(scratch());
        normalize_row(plan, from, own, wide);
        step.input_scales[row] = quantize_inputs<Format>(wide, padded(plan.hidden_size), to);
      } else {
        normalize_row(plan, from, own, to);
      }
      for (int i = 0; multiplier > 0 && i < padded(plan.hidden_size); ++i) from[i] *= multiplier;
    });
  }

  void normalize_residual(const Norm& norm) {
    each_row(num_rows, [&](int row) { normalize_row(plan, residual_row(row), norm, residual_row(row)); });
  }

  void scale_residual(float factor) {
    each_row(num_rows, [&](int row) {
      for (int i = 0; i < padded(plan.hidden_size); ++i) residual_row(row)[i] *= factor;
    });
  }

  // Convert the first `width` columns of each row of step.wide to inputs, normalized if the norm has a weight.
  void convert_wide(const Norm& norm, int width, const Inputs& to) {
    each_row(num_rows, [&](int row) {
      if (norm.weight != nullptr) head_norm(plan, wide_row(row), norm, 0, width);
      convert(wide_row(row), width, to, row);
    });
  }

  // Convert numbers to a row of inputs.
  void convert(const float* from, int width, const Inputs& to, int row) const {
    Input* out = static_cast<Input*>(to.rows) + static_cast<size_t>(row) * to.stride;
    if constexpr (kQuantizes) {
      to.scales[row] = quantize_inputs<Weight>(from, width, out);
    } else {
      for (int i = 0; i < width; i += 16) store_input(out + i, load_some(from + i, width - i));
      clear_padding(out, groups_of(width) * 16);
    }
  }

  // Multiply all rows with `matrix`, and call finish(target, sums) for each 16 results of a row, with the address of
  // the results in the row that to_row(row) returns.
  template <class ToRow, class Finish>
  void multiply_into(const Matrix& matrix, const Inputs& inputs, const Added& added, const ToRow& to_row,
                     const Finish& finish) {
    multiply_all<Weight>(
        matrix, inputs,
        [&](int row, int group, const float* sums, int count) {
          float* to = to_row(row);
          each_sum(sums, group, count, matrix.bias, [&](int at, const Lanes& sum) { finish(to + at, sum); });
        },
        added);
  }

  void add_to_residual(const Matrix& matrix, const Inputs& inputs, const Added& added, float multiplier) {
    const Lanes factor = all16(plan.residual_multiplier * multiplier);
    multiply_into(
        matrix, inputs, added, [&](int row) { return residual_row(row); },
        [&](float* to, const Lanes& sum) { store16(to, sum * factor + load16(to)); });
  }

  // Keep a part's results apart from the residual.
  void to_branch(const Matrix& matrix, const Inputs& inputs, const Added& added, float multiplier) {
    const Lanes factor = all16(multiplier);
    multiply_into(
        matrix, inputs, added, [&](int row) { return branch_row(row); },
        [&](float* to, const Lanes& sum) { store16(to, sum * factor); });
  }

  // Normalize the branch, and add it to the residual.
  void add_normalized_branch(const Norm& norm) {
    const Lanes factor = all16(plan.residual_multiplier);
    each_row(num_rows, [&](int row) {
      float *from = branch_row(row), *to = residual_row(row);
      for (int i = plan.hidden_size; i < padded(plan.hidden_size); ++i) from[i] = 0;
      normalize_row(plan, from, norm, from);
      for (int i = 0; i < padded(plan.hidden_size); i += 16)
        store16(to + i, load16(from + i) * factor + load16(to + i));
    });
  }

  // Add a part's results and the branch to the residual.
  void add_with_branch(const Matrix& matrix, const Inputs& inputs, const Added& added, float multiplier) {
    const Lanes factor = all16(plan.residual_multiplier), own = all16(multiplier);
    const ptrdiff_t offset = step.branch - step.residual;
    multiply_into(
        matrix, inputs, added, [&](int row) { return residual_row(row); },
        [&](float* to, const Lanes& sum) { store16(to, (sum * own + load16(to + offset)) * factor + load16(to)); });
  }

  // Copy the output rows behind the tokens' rows; after the last layer that stores anything, only these are needed.
  // `keeps_branch` is true if the branch has results of the layer.
  Inputs keep_output_rows(bool keeps_branch) {
    float* kept = residual_row(batch.num_tokens);
    const Inputs to{input_row(batch.num_tokens), inputs().stride, step.input_scales + batch.num_tokens};
    each_row(batch.num_rows, [&](int row) {
      const int token = batch.output_rows[row];
      copy(kept + row_offset(row), residual_row(token), step.residual_stride);
      if (keeps_branch) copy(kept + row_offset(row) + (step.branch - step.residual), branch_row(token), step.residual_stride);
      if (streams != nullptr)
        copy(streams_row(batch.num_tokens + row), streams_row(token), step.residual_stride * plan.num_streams());
      copy(static_cast<Input*>(to.rows) + static_cast<size_t>(row) * to.stride, input_row(token), step.input_stride);
      to.scales[row] = step.input_scales[token];
    });
    if (streams != nullptr) streams = streams_row(batch.num_tokens);
    residual = kept;
    num_rows = batch.num_rows;
    if (adapted != nullptr) adapted = &step.adapted->outputs;
    return to;
  }

  template <class T>
  static void copy(T* to, const T* from, int count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
