// One thread's part of a feed-forward part of experts: rows choose their experts, are sorted by expert, and are
// multiplied with the chosen experts' weights only.
#pragma once

#include "kernels/registers/activation.h"
#include "kernels/experts/router.h"
#include "kernels/thread.h"
#include "layers/experts.h"

namespace sluice {
namespace SLUICE_SET {

// gpt-oss' SwiGLU. The operands of minima and maxima are in the order that keeps NaNs.
SLUICE_INLINE Lanes limited_swiglu(const ExpertsPlan& plan, const Lanes& gate, const Lanes& up) {
  const V most = set1(plan.swiglu_limit), least = set1(-plan.swiglu_limit), alpha = set1(plan.swiglu_alpha);
  return map(gate, up, [&](V g, V u) __attribute__((always_inline)) {
    const V low = min(most, g), middle = max(least, min(most, u));
    return (middle + set1(1.0f)) * (low * sigmoid(low * alpha));
  });
}

// The phases of the experts of a layer. The thread's inputs are normalized rows in Float32.
template <class Weight>
struct ExpertPhases {
  using Input = typename Weight::Input;
  static constexpr bool kIsInt8 = std::is_same_v<Weight, Int8Format>;
  static constexpr bool kQuantizes = kIsQuantized<Weight>;
  static constexpr bool kConverts = kIsQuantized<Weight> || !std::is_same_v<Input, float>;
  static constexpr int kRouterRows = 48;  // rows of a chunk of the router's product
  static constexpr int kFewRows = 8;      // one thread chooses the experts of so few rows, which takes no phase

  Thread<Weight>& thread;
  const Experts& experts;
  const Routing& routing = *thread.step.routing;
  const ExpertsPlan& plan = experts.plan;
  const int hidden = thread.plan.hidden_size;
  const size_t input_stride = static_cast<size_t>(thread.step.input_stride);
  const int num_rows = thread.num_rows;
  const int num_entries = num_rows * plan.num_chosen;

  float* logits_row(int row) const { return routing.logits + static_cast<size_t>(row) * routing.logits_stride; }
  int32_t* chosen_row(int row) const { return routing.chosen + static_cast<size_t>(row) * routing.chosen_stride; }
  float* weights_row(int row) const { return routing.weights + static_cast<size_t>(row) * routing.chosen_stride; }
  const float* float_row(int row) const {
    return static_cast<const float*>(thread.step.input) + static_cast<size_t>(row) * input_stride;
  }
  Input* input_row(int row) const {
    auto* rows = static_cast<Input*>(kConverts ? routing.inputs : thread.step.input);
    return rows + static_cast<size_t>(row) * input_stride;
  }
  Input* gathered_row(int entry) const {
    return static_cast<Input*>(routing.gathered) + static_cast<size_t>(entry) * input_stride;
  }
  // The row for an entry's inner values. Values to be quantized are stored as floats first.
  auto* inner_row(int entry) const {
    if constexpr (kQuantizes)
      return routing.wide_inner + static_cast<size_t>(entry) * routing.inner_stride;
    else
      return static_cast<Input*>(routing.inner) + static_cast<size_t>(entry) * routing.inner_stride;
  }
  float* sums_row(int row) const {
    return routing.sums + static_cast<size_t>(row) * thread.step.residual_stride;
  }

  // Compute the logits of all rows.
  void multiply_router() {
    const Matrix& router = experts.router;
    const int size = num_rows > kMaxTileRows ? 4 : 2, num_blocks = (router.groups + size - 1) / size;
    thread.phase((num_rows + kRouterRows - 1) / kRouterRows * num_blocks, [&](int chunk) {
      const int first = chunk / num_blocks * kRouterRows, from = chunk % num_blocks * size;
      const int count = num_rows - first < kRouterRows ? num_rows - first : kRouterRows;
      multiply_block<Float32Format>(router, float_row(first), input_stride, count, from, from + size,
                                    [&](const TileSums& tile) {
                                      tile.each_row([&](int row, int group, const float* sums, int groups) {
                                        each_sum(sums, group, groups, router.bias, [&](int at, const Lanes& sum) {
                                          store16(logits_row(first + row) + at, sum * all16(plan.logit_multiplier));
                                        });
                                      });
                                    });
    });
  }

  // Choose a row's experts, and convert the row to the type of inputs.
  void prepare_row(int row) {
    float* logits = logits_row(row);
    const float gate = plan.has_shared_gate ? logits[plan.num_experts] : 0;
    choose_experts(experts, logits, routing.scores + static_cast<size_t>(row) * routing.logits_stride, chosen_row(row),
                   weights_row(row));
    weights_row(row)[plan.num_chosen] = plan.has_shared_gate ? sigmoid_of(gate) : 1.0f;
    if constexpr (kQuantizes) {
      routing.input_scales[row] = quantize_inputs<Weight>(float_row(row), padded(hidden), input_row(row));
    } else if constexpr (kConverts) {
      for (int i = 0; i < padded(hidden); i += 16) store_input(input_row(row) + i, load16(float_row(row) + i));
    }
  }

  static float sigmoid_of(float x) {
    alignas(64) float lanes[16];
    store16(lanes, map(all16(x), [](V v) __attribute__((always_inline)) { return sigmoid(v); }));
    return lanes[0] + x * 0;  // a NaN stays a NaN
  }

  // Sort the rows by expert, in ascending order of rows. All rows are entries of the shared expert.
  void sort_rows() {
    int32_t* next = routing.counts;
    for (int expert = 0; expert < plan.num_experts; ++expert) next[expert] = 0;
    for (int row = 0; row < num_rows; ++row)
      for (int n = 0; n < plan.num_chosen; ++n) ++next[chosen_row(row)[n]];
    int num_parts = 0, first = 0;
    for (int expert = 0; expert < plan.num_experts; ++expert) {
      const int count = next[expert];
      next[expert] = first;
      if (count > 0) routing.parts[num_parts++] = {expert, first, count};
      first += count;
    }
    for (int row = 0; row < num_rows; ++row)
      for (int n = 0; n < plan.num_chosen; ++n) {
        const int32_t entry = next[chosen_row(row)[n]]++;
        routing.row_of_entry[entry] = row;
        routing.weight_of_entry[entry] = weights_row(row)[n];
      }
    *routing.num_parts = num_parts;
    if (plan.shared_width == 0) return;
    routing.parts[num_parts] = {plan.num_experts, first, num_rows};
    for (int row = 0; row < num_rows; ++row) {
      routing.row_of_entry[first + row] = row;
      routing.weight_of_entry[first + row] = weights_row(row)[plan.num_chosen];
    }
  }

  void choose_and_sort() {
    if (num_rows > kFewRows) thread.each_row(num_rows, [&](int row) { prepare_row(row); });
    thread.phase(num_rows > 0 ? 1 : 0, [&](int) {
      for (int row = 0; num_rows <= kFewRows && row < num_rows; ++row) prepare_row(row);
      sort_rows();
    });
  }

  // Copy each expert's inputs to adjacent rows. A single row is read where it is.
  void gather() {
    if (num_rows < 2) return;
    thread.each_row(num_entries, [&](int entry) {
      const int row = routing.row_of_entry[entry];
      const size_t bytes = static_cast<size_t>(input_width<Weight>(hidden)) * sizeof(Input);
      std::memcpy(gathered_row(entry), input_row(row), bytes);
      if constexpr (kQuantizes) routing.gathered_scales[entry] = routing.input_scales[row];
    });
  }

  // The groups of a chunk: fewer if there would be too few chunks for the threads.
  int groups_per_chunk(const Matrix& matrix, int num_parts) const {
    int size = groups_per_block(matrix, num_rows, 1);
    while (size > 2 && num_parts * matrix.groups < size * 4 * thread.step.num_threads) size /= 2;
    return size;
  }

  void multiply_up_block(const ExpertPart& part, int from, int to) {
    const Matrix& matrix = experts.experts[part.expert].gate_up;
    const bool is_gathered = part.expert < plan.num_experts && num_rows > 1;
    const int width = part.expert < plan.num_experts ? plan.width : plan.shared_width;
    const float* scales = is_gathered ? routing.gathered_scales + part.first : routing.input_scales;
    const auto with_bias = [&](const float* sums, int group) {
      const Lanes sum = load16(sums);
      return matrix.bias == nullptr ? sum : sum + load16(matrix.bias + group * 16);
    };
    const auto finish = [&](int row, int group, float* sums, int count) {
      if constexpr (kIsInt8) scale_sums(matrix, group, count, scales[row], sums);
      auto* to_row = inner_row(part.first + row);
      const auto store_gated = [&](const auto& function) __attribute__((always_inline)) {
        for (int n = 0; n < count; n += 2) {
          const Lanes gate = with_bias(sums + n * 16, group + n), up = with_bias(sums + n * 16 + 16, group + n + 1);
          store_input(to_row + (group + n) / 2 * 16, function(gate, up));
        }
      };
      if (plan.swiglu_limit > 0)
        store_gated([&](const Lanes& gate, const Lanes& up) { return limited_swiglu(plan, gate, up); });
      else
        with_activation(plan.activation, nullptr, [&](auto activation) {
          if (plan.is_gated)
            return store_gated([&](const Lanes& gate, const Lanes& up) { return activation(gate) * up; });
          for (int n = 0; n < count; ++n)
            store_input(to_row + (group + n) * 16, activation(with_bias(sums + n * 16, group + n)));
        });
      if (group + count == matrix.groups) thread.clear_padding(to_row, groups_of(width) * 16);
    };
    multiply_block<Weight>(matrix, is_gathered ? gathered_row(part.first) : input_row(0), input_stride, part.count,
                           from, to, [&](const TileSums& tile) { tile.each_row(finish); });
  }

  // Chunks are the blocks of the chosen experts' matrices, and then those of the shared expert's. Their number doesn't
  // depend on the choice, since a late thread may ask for it when a later phase changes the parts.
  void multiply_up() {
    const int has_shared = plan.shared_width > 0 ? 1 : 0;
    const int most_parts = num_entries < plan.num_experts ? num_entries : plan.num_experts;
    const Matrix& routed = experts.experts[0].gate_up;
    const Matrix& shared = experts.experts[plan.num_matrices() - 1].gate_up;
    const int size = groups_per_chunk(routed, most_parts), shared_size = groups_per_chunk(shared, 1);
    const int blocks = (routed.groups + size - 1) / size;
    const int shared_blocks = has_shared * ((shared.groups + shared_size - 1) / shared_size);
    thread.phase(most_parts * blocks + shared_blocks, [&](int chunk) {
      const int num_parts = *routing.num_parts;
      if (chunk < most_parts * blocks) {
        const int from = chunk % blocks * size;
        if (chunk / blocks < num_parts) multiply_up_block(routing.parts[chunk / blocks], from, from + size);
      } else {
        const int from = (chunk - most_parts * blocks) * shared_size;
        multiply_up_block(routing.parts[num_parts], from, from + shared_size);
      }
    });
    if constexpr (kQuantizes)
      thread.each_row(num_entries + has_shared * num_rows, [&](int entry) {
        const int width = entry < num_entries ? plan.width : plan.shared_width;
        auto* to = static_cast<Input*>(routing.inner) + static_cast<size_t>(entry) * routing.inner_stride;
        routing.inner_scales[entry] = quantize_inputs<Weight>(inner_row(entry), width, to);
      });
  }

  // Add the weighted product of a part's inner values with some groups of its down matrix to its rows' sums.
  void add_down_block(const ExpertPart& part, int from, int to) {
    const Matrix& matrix = experts.experts[part.expert].down;
    const auto* inner =
        static_cast<const Input*>(routing.inner) + static_cast<size_t>(part.first) * routing.inner_stride;
    const auto finish = [&](int row, int group, float* sums, int count) {
      const int entry = part.first + row;
      if constexpr (kIsInt8) scale_sums(matrix, group, count, routing.inner_scales[entry], sums);
      float* to_row = sums_row(routing.row_of_entry[entry]);
      const Lanes weight = all16(routing.weight_of_entry[entry]);
      each_sum(sums, group, count, matrix.bias, [&](int at, const Lanes& sum) {
        store16(to_row + at, load16(to_row + at) + sum * weight);
      });
    };
    multiply_block<Weight>(matrix, inner, routing.inner_stride, part.count, from, to,
                           [&](const TileSums& tile) { tile.each_row(finish); });
  }

  // Each chunk adds all experts' products for its outputs, in ascending order of experts, so a row's sum doesn't depend
  // on other rows. Call add(row, first output, sum) for each sum of 16 outputs.
  template <class Add>
  void multiply_down(const Add& add) {
    const Matrix& matrix = experts.experts[0].down;
    const int size = groups_per_block(matrix, num_rows, thread.step.num_threads);
    thread.phase(num_rows > 0 ? (matrix.groups + size - 1) / size : 0, [&](int chunk) {
      const int num_parts = *routing.num_parts + (plan.shared_width > 0 ? 1 : 0);
      const int from = chunk * size, to = from + size < matrix.groups ? from + size : matrix.groups;
      for (int row = 0; row < num_rows; ++row)
        for (int group = from; group < to; ++group) store16(sums_row(row) + group * 16, all16(0));
      for (int part = 0; part < num_parts; ++part) add_down_block(routing.parts[part], from, to);
      for (int row = 0; row < num_rows; ++row)
        for (int group = from; group < to; ++group) add(row, group * 16, load16(sums_row(row) + group * 16));
    });
  }

  // With a norm of the router's inputs, the experts' inputs are normalized when the router has read its own.
  template <class Add>
  void run(const Norm& norm, const Add& add) {
    if (num_rows == 0) return;
    multiply_router();
    if (plan.has_router_norm) thread.template normalize_rows<Float32Format>(norm);
    choose_and_sort();
    gather();
    multiply_up();
    multiply_down(add);
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
