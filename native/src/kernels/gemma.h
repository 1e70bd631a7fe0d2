// What only Gemma 3n and 4 compute: per-layer embeddings (PLE), AltUp's residual streams, LAuReL and sparse gates.
//
// Everything is computed row by row, or by products that are, so a row's bits don't depend on other rows.
#pragma once

#include "kernels/attention/cached.h"
#include "kernels/registers/activation.h"
#include "kernels/thread.h"

namespace sluice {
namespace SLUICE_SET {

constexpr float kHalfRoot = 0.70710678f;  // sqrt(1 / 2)

// The gates and ups of a feed-forward part whose gates are cut off (DensePlan).
template <class Weight>
struct SparseGates {
  Thread<Weight>& thread;
  const Layer& layer;

  void run(const typename Thread<Weight>::Added& added) {
    const DensePlan& dense = layer.plan.feed_forward;
    const int width = dense.width, ups = groups_of(width) * 16;  // where the ups begin in a wide row
    const Matrix& matrix = layer.gate_up;
    const auto store = [&](int row, int group, const float* sums, int count) {
      each_sum(sums, group, count, matrix.bias, [&](int at, const Lanes& sum) {
        const int pair = at / 32 * 16;
        store16(thread.wide_row(row) + (at / 16 % 2 == 0 ? pair : ups + pair), sum);
      });
    };
    thread.template multiply_all<Weight>(matrix, thread.inputs(), store, added);
    const Lanes multiplier = all16(dense.gate_multiplier);
    thread.each_row(thread.num_rows, [&](int row) {
      float* gates = thread.wide_row(row);
      const float least = least_of(gates, width, dense.cutoff);
      with_activation(dense.activation, layer.curve, [&](auto activation) {
        for (int i = 0; i < width; i += 16) {
          const Lanes gate = relu(load_some(gates + i, width - i) + all16(-least));
          store_input(thread.inner_row(row) + i, activation(gate * multiplier) * load_some(gates + ups + i, width - i));
        }
      });
      thread.clear_padding(thread.inner_row(row), ups);
    });
  }

 private:
  // The mean of the gates plus `cutoff` times their standard deviation.
  static float least_of(const float* gates, int width, float cutoff) {
    const float count = static_cast<float>(width), mean = sum_each(gates, width, [](float v) { return v; }) / count;
    const float variance = sum_each(gates, width, [=](float v) { return (v - mean) * (v - mean); }) / count;
    return mean + cutoff * __builtin_sqrtf(variance);
  }
};

// A layer's laurel (LayerPlan).
template <class Weight>
struct LaurelPhases {
  Thread<Weight>& thread;
  int index;

  // Add the normalized branch, the attention's inputs and the laurel's results to the residual.
  void add_with_branch() {
    const Layer& layer = thread.weights.layers[index];
    const Laurel& laurel = layer.laurel;
    const auto to_wide = [&](const Matrix& matrix, Product product, const typename Thread<Weight>::Inputs& inputs) {
      thread.multiply_into(
          matrix, inputs, thread.added(index, product, matrix, inputs), [&](int row) { return thread.wide_row(row); },
          [](float* to, const Lanes& sum) { store16(to, sum); });
    };
    thread.template normalize_rows<Weight>(layer.attention_norm);
    to_wide(laurel.down, kLaurelDown, thread.inputs());
    thread.convert_wide({}, layer.plan.laurel_rank, thread.inner());
    to_wide(laurel.up, kLaurelUp, thread.inner());
    const DecoderPlan& plan = thread.plan;
    const int hidden = plan.hidden_size;
    thread.each_row(thread.num_rows, [&](int row) {
      float *residual = thread.residual_row(row), *branch = thread.branch_row(row), *wide = thread.wide_row(row);
      auto* input = reinterpret_cast<float*>(thread.scratch());
      for (int i = hidden; i < padded(hidden); ++i) branch[i] = wide[i] = 0;
      normalize_row(plan, residual, layer.attention_norm, input);
      normalize_row(plan, branch, layer.attention_output_norm, branch);
      normalize_row(plan, wide, laurel.norm, wide);
      for (int i = 0; i < padded(hidden); i += 16)
        store16(residual + i,
                (load16(residual + i) + load16(branch + i) + (load16(input + i) + load16(wide + i))) * all16(kHalfRoot));
    });
  }
};

// The inputs of layers (DecoderPlan).
template <class Weight>
struct LayerInputPhases {
  Thread<Weight>& thread;

  // Compute the inputs of all layers from the embedding of each token.
  void begin() {
    const DecoderPlan& plan = thread.plan;
    const Weights& weights = thread.weights;
    const int width = plan.layer_input_width;
    const Lanes factor = all16(1.0f / __builtin_sqrtf(static_cast<float>(plan.hidden_size)));
    thread.template normalize_rows<Weight>({});
    thread.multiply_into(
        weights.layer_inputs, thread.inputs(), {}, [&](int row) { return inputs_row(row); },
        [&](float* to, const Lanes& sum) { store16(to, sum * factor); });
    const float scale = __builtin_sqrtf(static_cast<float>(width));
    thread.each_row(thread.num_rows, [&](int token) {
      const int id = thread.batch.token_ids[token];
      const size_t first = static_cast<size_t>(id < plan.num_layer_inputs ? id : 0) * plan.num_layers * width;
      for (int layer = 0; layer < plan.num_layers; ++layer) {
        float* inputs = inputs_row(token) + layer * width;
        head_norm(plan, inputs, weights.layer_inputs_norm, 0, width);
        for (int i = 0; i < width; ++i)
          inputs[i] = (inputs[i] + stored(first + static_cast<size_t>(layer) * width + i) * scale) * kHalfRoot;
      }
    });
  }

  // Gate a layer's inputs by the residual, and add the normalized product to the residual, or to those that the layer
  // hasn't computed.
  void add(int index) {
    const Layer& layer = thread.weights.layers[index];
    const Matrix& gate = layer.input.gate;
    const int width = thread.plan.layer_input_width;
    thread.template normalize_rows<Weight>({});
    const auto finish = [&](int row, int group, const float* sums, int count) {
      const float* inputs = inputs_row(thread.token_of(row)) + index * width;
      with_activation(thread.plan.layer_input_activation, nullptr, [&](auto activation) {
        for (int n = 0; n < count; ++n) {
          const int at = (group + n) * 16;
          store_input(thread.inner_row(row) + at, activation(load16(sums + n * 16)) * load_some(inputs + at, width - at));
        }
      });
      if (group + count == gate.groups) thread.clear_padding(thread.inner_row(row), gate.groups * 16);
    };
    thread.template multiply_all<Weight>(gate, thread.inputs(), finish,
                                         thread.added(index, kInputGate, gate, thread.inputs()));
    if constexpr (Thread<Weight>::kQuantizes) thread.convert_wide({}, width, thread.inner());
    const Matrix& projection = layer.input.projection;
    thread.to_branch(projection, thread.inner(), thread.added(index, kInputProjection, projection, thread.inner()), 1);
    if (thread.plan.num_extra_streams == 0) return thread.add_normalized_branch(layer.input.norm);
    const int hidden = thread.plan.hidden_size;
    thread.each_row(thread.num_rows, [&](int row) {
      float* branch = thread.branch_row(row);
      for (int i = hidden; i < padded(hidden); ++i) branch[i] = 0;
      normalize_row(thread.plan, branch, layer.input.norm, branch);
      for (int stream = 1; stream < thread.plan.num_streams(); ++stream) {
        float* to = thread.streams_row(row) + stream * thread.step.residual_stride;
        for (int i = 0; i < padded(hidden); i += 16) store16(to + i, load16(to + i) + load16(branch + i));
      }
    });
  }

 private:
  float* inputs_row(int token) const {
    return thread.step.layer_inputs + static_cast<size_t>(token) * thread.step.layer_inputs_stride;
  }

  float stored(size_t at) const {
    const void* rows = thread.weights.layer_input_rows;
    if (thread.weights.rows_type == Type::Float32) return static_cast<const float*>(rows)[at];
    return bf16_to_float(static_cast<const uint16_t*>(rows)[at]);
  }
};

// The residuals of a token with several ones (DecoderPlan). The first is the one that layers compute.
template <class Weight>
struct StreamPhases {
  Thread<Weight>& thread;
  const DecoderPlan& plan = thread.plan;
  const int count = plan.num_streams(), hidden = plan.hidden_size, width = padded(plan.hidden_size);

  // Make all residuals of the embedding; they have its root mean square.
  void begin() {
    thread.template normalize_rows<Weight>({});
    for (int stream = 1; stream < count; ++stream)
      thread.multiply_into(
          thread.weights.streams_in[stream - 1], thread.inputs(), {}, [&](int row) { return at(row, stream); },
          [](float* to, const Lanes& sum) { store16(to, sum); });
    thread.each_row(thread.num_rows, [&](int row) {
      const float* embedding = thread.residual_row(row);
      std::memcpy(at(row, 0), embedding, static_cast<size_t>(width) * sizeof(float));
      const float size = size_of(embedding);
      for (int stream = 1; stream < count; ++stream) {
        float* other = at(row, stream);
        for (int i = hidden; i < width; ++i) other[i] = 0;
        scale(other, size / limited_size_of(other));
      }
    });
  }

  // Predict what the residuals are after the layer; the layer computes the first one.
  void predict(const Streams& weights) {
    thread.each_row(thread.num_rows, [&](int row) {
      float routed[kMostStreams], shares[kMostStreams * kMostStreams];
      route(weights, at(row, 0), routed);
      for (int i = 0; i < count * count; ++i) shares[i] = share(weights.prediction, i, routed);
      for (int i = 0; i < width; i += 16) {
        Lanes before[kMostStreams];
        for (int from = 0; from < count; ++from) before[from] = load16(at(row, from) + i);
        for (int to = 0; to < count; ++to) {
          Lanes sum = all16(0);
          for (int from = 0; from < count; ++from) sum = fma16(before[from], all16(shares[to * count + from]), sum);
          store16(at(row, to) + i, before[to] + sum);
        }
      }
      std::memcpy(thread.residual_row(row), at(row, 0), static_cast<size_t>(width) * sizeof(float));
    });
  }

  // Correct the predictions by what the layer changed. The layer's residual becomes the first corrected one.
  void correct(const Streams& weights) {
    thread.each_row(thread.num_rows, [&](int row) {
      float routed[kMostStreams], shares[kMostStreams];
      float* residual = thread.residual_row(row);
      route(weights, residual, routed);
      for (int i = 0; i < count; ++i) shares[i] = share(weights.correction, i, routed) + 1;
      for (int i = 0; i < width; i += 16) {
        const Lanes change = load16(residual + i) + load16(at(row, 0) + i) * all16(-1);
        for (int to = 0; to < count; ++to)
          store16(at(row, to) + i, fma16(change, all16(shares[to]), load16(at(row, to) + i)));
        const Lanes first = load16(at(row, 0) + i);
        store16(residual + i, weights.scale == nullptr ? first : first * load16(weights.scale + i));
      }
    });
  }

  // Let the residual be the mean of all, whose products have the root mean square of the first.
  void end() {
    thread.each_row(thread.num_rows, [&](int row) {
      std::memcpy(thread.residual_row(row), at(row, 0), static_cast<size_t>(width) * sizeof(float));
    });
    for (int stream = 1; stream < count; ++stream) {
      thread.each_row(thread.num_rows,
                      [&](int row) { thread.convert(at(row, stream), hidden, thread.inputs(), row); });
      thread.to_branch(thread.weights.streams_out[stream - 1], thread.inputs(), {}, 1);
      thread.each_row(thread.num_rows, [&](int row) {
        float *branch = thread.branch_row(row), *to = thread.residual_row(row);
        for (int i = hidden; i < width; ++i) branch[i] = 0;
        const Lanes factor = all16(size_of(at(row, 0)) / limited_size_of(branch));
        const Lanes share = all16(stream + 1 == count ? 1.0f / static_cast<float>(count) : 1.0f);
        for (int i = 0; i < width; i += 16) store16(to + i, fma16(load16(branch + i), factor, load16(to + i)) * share);
      });
    }
  }

 private:
  float* at(int row, int stream) const { return thread.streams_row(row) + stream * thread.step.residual_stride; }

  float square_of(const float* x) const {
    return sum_each(x, hidden, [](float v) { return v * v; }) / static_cast<float>(hidden);
  }
  float size_of(const float* x) const { return __builtin_sqrtf(square_of(x)); }
  float limited_size_of(const float* x) const {
    const float square = square_of(x);
    return __builtin_sqrtf(square < 1e-5f ? 1e-5f : square);
  }
  void scale(float* x, float factor) const {
    for (int i = 0; i < width; ++i) x[i] *= factor;
  }

  // The shares of a residual in the coefficients: tanh of a product of the normalized residual.
  void route(const Streams& weights, const float* residual, float* routed) const {
    auto* inputs = reinterpret_cast<float*>(thread.scratch());
    normalize_row(plan, residual, weights.router_norm, inputs);
    for (int stream = 0; stream < count; ++stream) {
      const float* row = weights.router + static_cast<size_t>(stream) * hidden;
      Lanes sum = all16(0);
      for (int i = 0; i < hidden; i += 16) sum = fma16(load16(inputs + i), load_some(row + i, hidden - i), sum);
      routed[stream] = __builtin_tanhf(sum_of(sum) / static_cast<float>(hidden));
    }
  }

  float share(const float* coefficients, int index, const float* routed) const {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += coefficients[index * count + i] * routed[i];
    return sum;
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
