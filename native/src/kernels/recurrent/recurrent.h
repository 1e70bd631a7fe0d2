// A layer's recurrent part: a causal convolution of the projected columns, a recurrence, and its gate and norm.
//
// A unit of work is some columns of one sequence, which passes over its tokens in their order.
#pragma once

#include "kernels/registers/activation.h"
#include "kernels/recurrent/scan.h"
#include "kernels/thread.h"

namespace sluice {
namespace SLUICE_SET {

constexpr int kTileColumns = 64;  // of a unit of work

template <class Weight>
struct RecurrentPhases {
  Thread<Weight>& thread;
  const int index;  // of the layer
  const Recurrent& weights;
  const RecurrentPlan& plan;
  const Step& step = thread.step;
  const Batch& batch = thread.batch;

  // Compute the results of the projected columns, which are the inputs of the output's product.
  void run() {
    const int num_tiles = tiles_of(plan.convolved_width());
    thread.phase(batch.num_sequences * num_tiles, [&](int unit) {
      const Passage passage(batch, unit / num_tiles);
      const int begin = unit % num_tiles * kTileColumns, end = end_of(begin, plan.convolved_width());
      for (int channel = begin; channel < end; channel += 16) {
        if (plan.taps == 3)
          convolve<3>(passage, channel);
        else if (plan.taps == 4)
          convolve<4>(passage, channel);
        else
          convolve<0>(passage, channel);
      }
      if (begin == 0 && plan.kind == Recurrence::ShortConvolution) clear(passage);
    });
    if (plan.kind != Recurrence::ShortConvolution) recur();
    if constexpr (Thread<Weight>::kQuantizes) thread.convert_wide({}, plan.inner_width(), thread.inputs());
  }

 private:
  static int tiles_of(int width) { return (width + kTileColumns - 1) / kTileColumns; }
  static int end_of(int begin, int width) { return begin + kTileColumns < width ? begin + kTileColumns : width; }

  float* row(const Passage& passage, int token) const { return thread.wide_row(passage.first + token); }

  // Zero the padding of the results' rows.
  void clear(const Passage& passage) const {
    if constexpr (!Thread<Weight>::kQuantizes)
      for (int token = 0; token < passage.num_tokens; ++token)
        thread.clear_padding(thread.attended_row(passage.first + token), plan.inner_width());
  }

  // The factors on 16 channels: on values, keys and queries.
  Lanes multipliers_of(int channel) const {
    if (plan.kind != Recurrence::Mamba2) return all16(1);
    alignas(64) float each[16];
    for (int i = 0; i < 16; ++i) {
      const int key = channel + i - plan.inner_width();
      each[i] = key < 0                    ? plan.value_multiplier
                : key < plan.keys_width() ? plan.key_multiplier
                                          : plan.query_multiplier;
    }
    return load16(each);
  }

  // Convolve 16 channels of a sequence, and update their state, the latest inputs. Taps is their number, or 0: any.
  template <int Taps>
  void convolve(const Passage& passage, int channel) const {
    const bool is_gated = plan.kind == Recurrence::ShortConvolution;
    const int taps = Taps > 0 ? Taps : plan.taps, width = plan.inner_width(), channels = plan.convolved_width();
    const int column = plan.convolved_column() + channel;
    const int count = channels - channel < 16 ? channels - channel : 16;
    Lanes window[kMostTaps], factors[kMostTaps];
    const size_t number = weights.state + static_cast<size_t>(channel);
    for (int i = 0; i + 1 < taps; ++i)
      window[i] = passage.is_start ? all16(0)
                                   : load16(step.states->at(passage.source, number) + i * plan.padded_channels());
    const Lanes multipliers = multipliers_of(channel);
    for (int i = 0; i < taps; ++i)
      factors[i] = load_some(weights.convolution + i * channels + channel, count) * multipliers;
    const Lanes bias =
        weights.convolution_bias == nullptr ? all16(0) : load_some(weights.convolution_bias + channel, count);
    for (int token = 0; token < passage.num_tokens; ++token) {
      float* wide = row(passage, token);
      window[taps - 1] = load_some(wide + column, count);
      if (is_gated) window[taps - 1] = window[taps - 1] * load_some(wide + channel, count);
      Lanes sum = bias;
      for (int i = 0; i < taps; ++i) sum = fma16(factors[i], window[i], sum);
      if (is_gated) {
        sum = sum * load_some(wide + width + channel, count);
        store_some(thread.attended_row(passage.first + token) + channel, sum, count);
      } else {
        store_some(wide + column, silu(sum), count);
      }
      for (int i = 0; i + 1 < taps; ++i) window[i] = window[i + 1];
      if (token + 1 != passage.num_kept && token + 1 != passage.num_tokens) continue;
      float* to = step.states->at(passage.slot_of(token), number);
      for (int i = 0; i + 1 < taps; ++i) store16(to + i * plan.padded_channels(), window[i]);
    }
  }

  void recur() {
    if (plan.is_mamba())
      select();
    else if (!plan.is_lightning())
      thread.each_row(batch.num_tokens, [&](int token) { prepare(thread.wide_row(token)); });
    const int num_tiles = tiles_of(plan.value_dim);
    thread.phase(batch.num_sequences * plan.num_heads * num_tiles, [&](int unit) {
      const Passage passage(batch, unit / (plan.num_heads * num_tiles));
      const int head = unit / num_tiles % plan.num_heads, begin = unit % num_tiles * kTileColumns;
      const int width = end_of(begin, plan.value_dim) - begin;
      if (width > 48) return scan<4>(passage, head, begin, width);
      if (width > 32) return scan<3>(passage, head, begin, width);
      if (width > 16) return scan<2>(passage, head, begin, width);
      return scan<1>(passage, head, begin, width);
    });
    thread.each_row(batch.num_tokens, [&](int token) {
      gate(thread.wide_row(token), thread.attended_row(token));
      if constexpr (!Thread<Weight>::kQuantizes) thread.clear_padding(thread.attended_row(token), plan.inner_width());
    });
  }

  template <int W>
  void scan(const Passage& passage, int head, int begin, int width) const {
    const Scan pass{step, weights, plan};
    if (plan.is_mamba()) return pass.channels<W>(passage, begin, width);
    pass.heads<W>(passage, head, begin, width);
  }

  // Mamba: compute steps, keys and queries of the convolved values.
  void select() {
    const auto inputs = thread.inputs();
    thread.each_row(batch.num_tokens, [&](int token) {
      thread.convert(thread.wide_row(token) + plan.value_column(), plan.inner_width(), inputs, token);
    });
    thread.multiply_into(
        weights.parameters, inputs, thread.added(index, kRecurrentParameters, weights.parameters, inputs),
        [&](int row) { return thread.wide_row(row) + plan.parameters_column(); },
        [](float* to, const Lanes& sum) { store16(to, sum); });
    thread.each_row(batch.num_tokens, [&](int token) {
      float* wide = thread.wide_row(token);
      if (plan.has_parameter_norms) {
        normalize(wide + plan.parameters_column(), weights.step_norm, plan.step_rank);
        normalize(wide + plan.key_column(), weights.key_norm, plan.key_dim);
        normalize(wide + plan.query_column(), weights.query_norm, plan.key_dim);
      }
      thread.convert(wide + plan.parameters_column(), plan.step_rank, inputs, token);
    });
    thread.multiply_into(
        weights.steps, inputs, thread.added(index, kRecurrentSteps, weights.steps, inputs),
        [&](int row) { return thread.wide_row(row) + plan.step_column(); },
        [](float* to, const Lanes& sum) { store16(to, softplus(sum)); });
  }

  void normalize(float* x, const float* norm, int width) const {
    const float mean = sum_each(x, width, [](float v) { return v * v; }) / static_cast<float>(width);
    const float factor = 1.0f / __builtin_sqrtf(mean + plan.parameter_epsilon);
    for (int i = 0; i < width; ++i) x[i] = x[i] * factor * norm[i];
  }

  // Compute the steps and the decays of a token's heads. DeltaNet also normalizes the queries and keys.
  void prepare(float* wide) const {
    const int heads = plan.num_heads;
    float* steps = wide + plan.step_column();
    float* decays = steps + heads;
    const bool is_delta = plan.kind == Recurrence::DeltaNet;
    if (is_delta) {
      const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(plan.key_dim));
      for (int head = 0; head < plan.num_key_heads; ++head) {
        scale_to_one(wide + plan.query_column() + head * plan.key_dim, scale);
        scale_to_one(wide + plan.key_column() + head * plan.key_dim, 1);
      }
    }
    for (int head = 0; head < heads; head += 16) {
      const int count = heads - head;
      const Lanes bias = load_some(weights.step_bias + head, count), given = load_some(steps + head, count);
      const Lanes rates = exp(load_some(weights.decay + head, count));
      Lanes each, decay;
      if (is_delta) {
        each = sigmoid(given);
        decay = decay_of(softplus(load_some(decays + head, count) + bias) * rates);
      } else {
        const V least = set1(plan.least_step), most = set1(plan.most_step);
        each = map(softplus(given * all16(plan.step_multiplier) + bias),
                   [&](V v) __attribute__((always_inline)) { return min(most, max(least, v)); });
        decay = decay_of(each * rates);
      }
      store_some(steps + head, each, count);
      store_some(decays + head, decay, count);
    }
  }

  // e to the power of -x; a NaN stays a NaN.
  static Lanes decay_of(const Lanes& x) {
    return map(x, [](V v) __attribute__((always_inline)) {
      return below(negative(v), set1(1), exp(negative(v)), v);
    });
  }

  // Scale a vector of a head to the length `scale`.
  void scale_to_one(float* x, float scale) const {
    const float sum = sum_each(x, plan.key_dim, [](float v) { return v * v; });
    const float factor = scale / __builtin_sqrtf(sum + 1e-6f);
    for (int i = 0; i < plan.key_dim; ++i) x[i] *= factor;
  }

  // Gate and normalize a token's results, and write them to `to`. It may be the beginning of `wide`, where only numbers
  // lie that are not needed any more.
  template <class Out>
  void gate(float* wide, Out* to) const {
    const int width = plan.inner_width(), size = plan.gate_norm == GateNorm::None ? width : plan.norm_size;
    const bool is_shared = size == plan.value_dim, gates_first = plan.gate_norm == GateNorm::GateFirst;
    const float epsilon = plan.norm_epsilon > 0 ? plan.norm_epsilon : thread.plan.norm_epsilon;
    const Lanes multiplier = all16(plan.gate_multiplier);
    for (int first = 0; first < width; first += size) {
      float* part = wide + plan.value_column() + first;
      const float* gates = wide + plan.gate_column() + first;
      const auto gate_of = [&](int i) __attribute__((always_inline)) {
        const Lanes gate = load_some(gates + i, size - i) * multiplier;
        return plan.is_lightning() ? sigmoid(gate) : silu(gate);
      };
      if (gates_first)
        for (int i = 0; i < size; i += 16) store_some(part + i, load_some(part + i, size - i) * gate_of(i), size - i);
      Lanes factor = all16(1);
      if (plan.gate_norm != GateNorm::None) {
        const float mean = sum_each(part, size, [](float v) { return v * v; }) / static_cast<float>(size);
        factor = all16(1.0f / __builtin_sqrtf(mean + epsilon));
      }
      const float* norm = weights.norm == nullptr ? nullptr : weights.norm + (is_shared ? 0 : first);
      for (int i = 0; i < size; i += 16) {
        Lanes result = load_some(part + i, size - i) * factor;
        if (norm != nullptr) result = result * load_some(norm + i, size - i);
        if (!gates_first) result = result * gate_of(i);
        store_some(to + first + i, result, size - i);
      }
    }
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
