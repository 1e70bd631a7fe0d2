// A layer's recurrent part: a causal convolution of the projected columns, a recurrence, and its gate and norm.
//
// A unit of work is some columns of one sequence. It passes over the sequence's tokens in their order and keeps the
// state in float32, so results depend neither on other sequences nor on the steps in which a prompt is computed.
#pragma once

#include "activation.h"
#include "cached.h"
#include "thread.h"

namespace sluice {
namespace SLUICE_SET {

constexpr int kTileColumns = 64;  // of a unit of work

inline float softplus(float x) { return x > 20 ? x : __builtin_log1pf(__builtin_expf(x)); }

// The new tokens of a sequence, and the slots of its state.
struct Passage {
  int first, num_tokens;  // rows of the step
  int num_kept;           // tokens whose state goes to `slot`; that of later ones goes to `last_slot`
  bool is_start;          // of the sequence, whose state is zeros
  int source, slot, last_slot;

  Passage(const Batch& batch, int sequence)
      : first(batch.row_offsets[sequence]),
        num_tokens(batch.row_offsets[sequence + 1] - first),
        num_kept(num_tokens - batch.states[sequence * kStateColumns + kNumLast]),
        is_start(batch.context_lengths[sequence] == num_tokens),
        source(batch.states[sequence * kStateColumns + kStateSource]),
        slot(batch.states[sequence * kStateColumns + kStateSlot]),
        last_slot(batch.states[sequence * kStateColumns + kLastSlot]) {}

  int slot_of(int token) const { return token < num_kept ? slot : last_slot; }
};

template <class Weight>
struct RecurrentPhases {
  Thread<Weight>& thread;
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
      for (int channel = begin; channel < end; channel += 16) convolve(passage, channel);
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

  // Convolve 16 channels of a sequence, and update their state, the latest inputs.
  void convolve(const Passage& passage, int channel) const {
    const bool is_gated = plan.kind == Recurrence::ShortConvolution;
    const int width = plan.inner_width(), channels = plan.convolved_width(), earlier = plan.taps - 1;
    const int column = plan.convolved_column() + channel;
    const int count = channels - channel < 16 ? channels - channel : 16;
    Lanes before[kMostTaps], factors[kMostTaps];
    const size_t number = weights.state + static_cast<size_t>(channel);
    for (int i = 0; i < earlier; ++i)
      before[i] = passage.is_start ? all16(0)
                                   : load16(step.states->at(passage.source, number) + i * plan.padded_channels());
    const Lanes multipliers = multipliers_of(channel);
    for (int i = 0; i < plan.taps; ++i)
      factors[i] = load_some(weights.convolution + i * channels + channel, count) * multipliers;
    const Lanes bias =
        weights.convolution_bias == nullptr ? all16(0) : load_some(weights.convolution_bias + channel, count);
    if (is_gated) {
      for (int token = 0; token < passage.num_tokens; ++token) {
        float* at = row(passage, token) + channel;
        store_some(at + 2 * width, load_some(at, count) * load_some(at + 2 * width, count), count);
      }
    }
    const auto input = [&](int token) __attribute__((always_inline)) {
      return token < 0 ? before[earlier + token] : load_some(row(passage, token) + column, count);
    };
    const auto keep = [&](int num_tokens, int slot) {
      float* to = step.states->at(slot, number);
      Lanes latest[kMostTaps];
      for (int i = 0; i < earlier; ++i) latest[i] = input(num_tokens - earlier + i);
      for (int i = 0; i < earlier; ++i) store16(to + i * plan.padded_channels(), latest[i]);
    };
    if (passage.num_kept > 0) keep(passage.num_kept, passage.slot);
    if (passage.num_kept < passage.num_tokens) keep(passage.num_tokens, passage.last_slot);
    for (int token = passage.num_tokens - 1; token >= 0; --token) {  // backwards, since results replace inputs
      Lanes sum = bias;
      for (int i = 0; i < plan.taps; ++i) sum = fma16(factors[i], input(token - earlier + i), sum);
      float* wide = row(passage, token);
      if (!is_gated) {
        store_some(wide + column, silu(sum), count);
        continue;
      }
      sum = sum * load_some(wide + width + channel, count);
      store_some(thread.attended_row(passage.first + token) + channel, sum, count);
    }
  }

  void recur() {
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

  // Compute the steps and the decays of a token's heads. DeltaNet also normalizes the queries and keys.
  void prepare(float* wide) const {
    const int heads = plan.num_heads;
    float* steps = wide + plan.step_column();
    float* decays = steps + heads;
    if (plan.kind == Recurrence::DeltaNet) {
      const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(plan.key_dim));
      for (int head = 0; head < plan.num_key_heads; ++head) {
        scale_to_one(wide + plan.query_column() + head * plan.key_dim, scale);
        scale_to_one(wide + plan.key_column() + head * plan.key_dim, 1);
      }
      for (int head = 0; head < heads; ++head) {
        steps[head] = 1.0f / (1.0f + __builtin_expf(-steps[head]));
        const float rate = __builtin_expf(weights.decay[head]) * softplus(decays[head] + weights.step_bias[head]);
        decays[head] = __builtin_expf(-rate);
      }
      return;
    }
    for (int head = 0; head < heads; ++head) {
      float each = softplus(steps[head] * plan.step_multiplier + weights.step_bias[head]);
      each = each < plan.least_step ? plan.least_step : each > plan.most_step ? plan.most_step : each;
      steps[head] = each;
      decays[head] = __builtin_expf(-each * __builtin_expf(weights.decay[head]));
    }
  }

  // Scale a vector of a head to the length `scale`.
  void scale_to_one(float* x, float scale) const {
    const float sum = sum_each(x, plan.key_dim, [](float v) { return v * v; });
    const float factor = scale / __builtin_sqrtf(sum + 1e-6f);
    for (int i = 0; i < plan.key_dim; ++i) x[i] *= factor;
  }

  // Pass over a sequence with up to 16 * W columns of a head's state; the results replace the values.
  template <int W>
  void scan(const Passage& passage, int head, int begin, int width) const {
    const int key_dim = plan.key_dim, stride = plan.padded_value_dim();
    const int key_head = head / (plan.num_heads / plan.num_key_heads);
    const bool is_delta = plan.kind == Recurrence::DeltaNet;
    const size_t number =
        weights.state + plan.convolution_numbers() + static_cast<size_t>(head) * plan.head_numbers() + begin;
    if (passage.is_start)
      for (int i = 0; i < key_dim; ++i)
        for (int w = 0; w < W; ++w)
          store16(step.states->at(passage.slot, number) + static_cast<size_t>(i) * stride + w * 16, all16(0));
    const float* from = step.states->at(passage.is_start ? passage.slot : passage.source, number);
    for (int token = 0; token < passage.num_tokens; ++token) {
      float* wide = row(passage, token);
      const float* keys = wide + plan.key_column() + key_head * key_dim;
      const float* queries = wide + plan.query_column() + key_head * key_dim;
      float* values = wide + plan.value_column() + head * plan.value_dim + begin;
      const float* steps = wide + plan.step_column() + head;
      const Lanes decay = all16(steps[plan.num_heads]), factor = all16(steps[0]);
      float* state = step.states->at(passage.slot_of(token), number);
      Lanes added[W], out[W];
      unroll<W>([&](auto w) __attribute__((always_inline)) {
        added[w] = load_some(values + w * 16, width - w * 16);
        out[w] = all16(0);
      });
      if (is_delta) {
        Lanes found[W];
        unroll<W>([&](auto w) __attribute__((always_inline)) { found[w] = all16(0); });
        for (int i = 0; i < key_dim; ++i) {
          const Lanes key = all16(keys[i]);
          unroll<W>([&](auto w) __attribute__((always_inline)) {
            found[w] = fma16(load16(from + static_cast<size_t>(i) * stride + w * 16), key, found[w]);
          });
        }
        const Lanes less = decay * all16(-1);
        unroll<W>([&](auto w) __attribute__((always_inline)) { added[w] = fma16(found[w], less, added[w]) * factor; });
      } else {
        const Lanes skip = all16(weights.skip[head]);
        unroll<W>([&](auto w) __attribute__((always_inline)) {
          out[w] = added[w] * skip;
          added[w] = added[w] * factor;
        });
      }
      for (int i = 0; i < key_dim; ++i) {
        const Lanes key = all16(keys[i]), query = all16(queries[i]);
        unroll<W>([&](auto w) __attribute__((always_inline)) {
          const size_t at = static_cast<size_t>(i) * stride + w * 16;
          const Lanes now = fma16(key, added[w], load16(from + at) * decay);
          store16(state + at, now);
          out[w] = fma16(query, now, out[w]);
        });
      }
      unroll<W>([&](auto w) __attribute__((always_inline)) {
        if (w * 16 < width) store_some(values + w * 16, out[w], width - w * 16);
      });
      from = state;
    }
  }

  // Gate and normalize a token's results, and write them to `to`. It may be the beginning of `wide`, where only numbers
  // lie that are not needed any more.
  template <class Out>
  void gate(float* wide, Out* to) const {
    const int width = plan.inner_width(), size = plan.gate_norm == GateNorm::None ? width : plan.norm_size;
    const bool is_shared = size == plan.value_dim, gates_first = plan.gate_norm == GateNorm::GateFirst;
    const Lanes multiplier = all16(plan.gate_multiplier);
    for (int first = 0; first < width; first += size) {
      float* part = wide + plan.value_column() + first;
      const float* gates = wide + plan.gate_column() + first;
      const auto gate_of = [&](int i) __attribute__((always_inline)) {
        return silu(load_some(gates + i, size - i) * multiplier);
      };
      if (gates_first)
        for (int i = 0; i < size; i += 16) store_some(part + i, load_some(part + i, size - i) * gate_of(i), size - i);
      Lanes factor = all16(1);
      if (plan.gate_norm != GateNorm::None) {
        const float mean = sum_each(part, size, [](float v) { return v * v; }) / static_cast<float>(size);
        factor = all16(1.0f / __builtin_sqrtf(mean + thread.plan.norm_epsilon));
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
