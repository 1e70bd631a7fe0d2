// Recurrences over the tokens of a sequence, in their order, with states in float32. So results depend neither on other
// sequences nor on the steps in which a prompt is computed.
#pragma once

#include "kernels/attention/cached.h"

namespace sluice {
namespace SLUICE_SET {

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

// Passes over a sequence with up to 16 * W columns of a state [key_dim, value_dim], whose results replace the values.
struct Scan {
  const Step& step;
  const Recurrent& weights;
  const RecurrentPlan& plan;

  float* row(const Passage& passage, int token) const {
    return step.wide + static_cast<size_t>(passage.first + token) * step.wide_stride;
  }

  // The columns of a state before the first token, zeros at the start of the sequence. `number` is that of the first one.
  template <int W>
  const float* begin_state(const Passage& passage, size_t number) const {
    if (!passage.is_start) return step.states->at(passage.source, number);
    float* state = step.states->at(passage.slot, number);
    for (int i = 0; i < plan.key_dim; ++i)
      for (int w = 0; w < W; ++w) store16(state + static_cast<size_t>(i) * plan.padded_value_dim() + w * 16, all16(0));
    return state;
  }

  // The decay of a head of Lightning per token.
  float constant_decay(int head) const {
    const float rate = __builtin_exp2f(-8.0f * static_cast<float>(head + 1) / static_cast<float>(plan.num_heads));
    return __builtin_expf(-plan.slope * rate);
  }

  // Of a head, whose columns decay alike.
  template <int W>
  void heads(const Passage& passage, int head, int begin, int width) const {
    const int key_dim = plan.key_dim, stride = plan.padded_value_dim();
    const int key_head = head / (plan.num_heads / plan.num_key_heads);
    const bool is_delta = plan.kind == Recurrence::DeltaNet, is_constant = plan.is_lightning();
    const Lanes constant = all16(is_constant ? constant_decay(head) : 0);
    const Lanes skip = all16(is_delta || is_constant ? 0 : weights.skip[head]);
    const size_t number =
        weights.state + plan.convolution_numbers() + static_cast<size_t>(head) * plan.head_numbers() + begin;
    const float* from = begin_state<W>(passage, number);
    for (int token = 0; token < passage.num_tokens; ++token) {
      float* wide = row(passage, token);
      const float* keys = wide + plan.key_column() + key_head * key_dim;
      const float* queries = wide + plan.query_column() + key_head * key_dim;
      float* values = wide + plan.value_column() + head * plan.value_dim + begin;
      const float* steps = wide + plan.step_column() + head;
      const Lanes decay = is_constant ? constant : all16(steps[plan.num_heads]);
      const Lanes factor = all16(is_constant ? 1 : steps[0]);
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
      } else if (!is_constant) {
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

  // Of channels, each number of which decays at a rate of its own.
  template <int W>
  void channels(const Passage& passage, int begin, int width) const {
    const int key_dim = plan.key_dim, stride = plan.padded_value_dim(), inner = plan.inner_width();
    const size_t number = weights.state + plan.convolution_numbers() + static_cast<size_t>(begin);
    const float* from = begin_state<W>(passage, number);
    for (int token = 0; token < passage.num_tokens; ++token) {
      float* wide = row(passage, token);
      const float *keys = wide + plan.key_column(), *queries = wide + plan.query_column();
      float* values = wide + plan.value_column() + begin;
      const float* steps = wide + plan.step_column() + begin;
      float* state = step.states->at(passage.slot_of(token), number);
      Lanes added[W], less[W], out[W];
      unroll<W>([&](auto w) __attribute__((always_inline)) {
        const int count = width - w * 16;
        const Lanes value = load_some(values + w * 16, count), each = load_some(steps + w * 16, count);
        out[w] = value * load_some(weights.skip + begin + w * 16, count);
        added[w] = value * each;
        less[w] = each * all16(-1);
      });
      for (int i = 0; i < key_dim; ++i) {
        const Lanes key = all16(keys[i]), query = all16(queries[i]);
        const float* rates = weights.decay + static_cast<size_t>(i) * inner + begin;
        unroll<W>([&](auto w) __attribute__((always_inline)) {
          const size_t at = static_cast<size_t>(i) * stride + w * 16;
          const Lanes decay = exp(less[w] * load_some(rates + w * 16, width - w * 16));
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
};

}  // namespace SLUICE_SET
}  // namespace sluice
