// One thread's part of a step: the phases of all layers, whose chunks are shared by all threads.
#pragma once

#include "adapter.h"
#include "attention.h"
#include "linear.h"
#include "set.h"

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

SLUICE_INLINE Lanes silu(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return v / (set1(1.0f) + exp(set1(0.0f) - v)); });
}

// Weight is the format of the layers' weights, Head the format of the head.
template <class Weight, class Head>
struct ThreadStep {
  using Input = typename Weight::Input;
  static constexpr bool kIsInt8 = std::is_same_v<Weight, Int8Format>;
  const Step& step;
  const Shape& shape;
  const Weights& weights;
  const Batch& batch;
  const int thread;
  int num_rows;  // rows of the residual; after the last attention, only the output rows
  float* residual;
  const AdaptedRows* adapted;  // the rows that adapters change; null: none
  uint32_t num_phases = 0;

  // Run body(0) … body(count - 1), shared among the threads, and return when all are done.
  template <class Body>
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
  template <class Body>
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

  // Multiply all rows with `matrix`, and call finish(row, group, sums, count) for the results.
  template <class Format, class Finish>
  void multiply_all(const Matrix& matrix, const Inputs& inputs, const Finish& finish, const Added& added = {}) {
    const int size = groups_per_block(matrix, num_rows, step.num_threads);
    phase(num_rows > 0 ? (matrix.groups + size - 1) / size : 0, [&](int chunk) {
      const auto finish_row = [&](int row, int group, float* sums, int count) {
        if constexpr (std::is_same_v<Format, Int8Format>) scale_sums(matrix, group, count, inputs.scales[row], sums);
        added(row, group, count, sums);
        finish(row, group, sums, count);
      };
      multiply_block<Format>(matrix, inputs.rows, inputs.stride, num_rows, chunk * size, (chunk + 1) * size,
                             finish_row);
    });
  }

  float* residual_row(int row) const { return residual + static_cast<size_t>(row) * step.residual_stride; }
  float* wide_row(int row) const { return step.wide + static_cast<size_t>(row) * step.wide_stride; }
  Input* input_row(int row) const {
    return static_cast<Input*>(step.input) + static_cast<size_t>(row) * step.input_stride;
  }
  // The row for results that are inputs of the next product. Results to be quantized are stored as floats first.
  auto* attended_row(int row) const {
    if constexpr (kIsInt8)
      return wide_row(row);
    else
      return input_row(row);
  }
  auto* inner_row(int row) const {
    if constexpr (kIsInt8)
      return wide_row(row);
    else
      return static_cast<Input*>(step.inner) + static_cast<size_t>(row) * step.inner_stride;
  }
  // Zero the padding columns of a row, which must be finite.
  template <class T>
  static void clear_padding(T* row, int width) {
    for (int i = width; i < padded(width); ++i) store_input(row + i, 0.0f);
  }

  void begin() {
    const int half = shape.rotary_dim / 2;
    each_row(batch.num_tokens, [&](int token) {
      embed(weights, shape, batch.token_ids[token], residual_row(token));
      float* cosines = step.rotation + static_cast<size_t>(token) * 2 * half;
      for (int i = 0; i < half; ++i) {
        const float angle = static_cast<float>(batch.positions[token]) * weights.inverse_frequencies[i];
        cosines[i] = __builtin_cosf(angle) * shape.rope_factor;
        cosines[half + i] = __builtin_sinf(angle) * shape.rope_factor;
      }
    });
  }

  uint8_t* scratch() const { return step.scratch + static_cast<size_t>(thread) * step.scratch_bytes; }

  template <class Format>
  void normalize_rows(const float* weight) {
    each_row(num_rows, [&](int row) {
      auto* to = static_cast<typename Format::Input*>(step.input) + static_cast<size_t>(row) * step.input_stride;
      if constexpr (std::is_same_v<Format, Int8Format>) {
        auto* wide = reinterpret_cast<float*>(scratch());
        normalize(residual_row(row), weight, shape.hidden_size, shape.norm_epsilon, wide);
        step.input_scales[row] = quantize(wide, padded(shape.hidden_size), to);
      } else {
        normalize(residual_row(row), weight, shape.hidden_size, shape.norm_epsilon, to);
      }
    });
  }

  // Quantize the first `width` columns of each row of step.wide to inputs.
  void quantize_wide(int width, const Inputs& to) {
    each_row(num_rows, [&](int row) {
      to.scales[row] =
          quantize(wide_row(row), width, static_cast<uint8_t*>(to.rows) + static_cast<size_t>(row) * to.stride);
    });
  }

  void to_wide(const Matrix& matrix, const Added& added) {
    const auto finish = [&](int row, int group, const float* sums, int count) {
      float* to = wide_row(row);
      each_sum(sums, group, count, matrix.bias, [&](int at, const Lanes& sum) { store16(to + at, sum); });
    };
    multiply_all<Weight>(matrix, inputs(), finish, added);
  }

  void add_to_residual(const Matrix& matrix, const Inputs& inputs, const Added& added) {
    const auto finish = [&](int row, int group, const float* sums, int count) {
      float* to = residual_row(row);
      each_sum(sums, group, count, matrix.bias,
               [&](int at, const Lanes& sum) { store16(to + at, sum + load16(to + at)); });
    };
    multiply_all<Weight>(matrix, inputs, finish, added);
  }

  void gate_and_up(const Matrix& matrix, const Added& added) {
    const auto finish = [&](int row, int group, const float* sums, int count) {
      auto* to = inner_row(row);
      for (int n = 0; n < count; n += 2) {
        Lanes gate = load16(sums + n * 16), up = load16(sums + n * 16 + 16);
        if (matrix.bias != nullptr) {
          gate = gate + load16(matrix.bias + (group + n) * 16);
          up = up + load16(matrix.bias + (group + n) * 16 + 16);
        }
        store_input(to + (group + n) / 2 * 16, silu(gate) * up);
      }
      if (group + count == matrix.groups) clear_padding(to, groups_of(shape.intermediate_size) * 16);
    };
    multiply_all<Weight>(matrix, inputs(), finish, added);
  }

  // Call body(format) with the format of keys and values.
  template <class Body>
  void with_cached(const Body& body) {
    switch (step.cache->type) {
      case Stored::Float32:
        return body(Float32Format{});
      case Stored::BFloat16:
        return body(BFloat16Format{});
      case Stored::Float16:
        return body(Float16Format{});
    }
  }

  // Rotate queries and keys, and write keys and values to the cache. Chunks are tokens and kv heads.
  void rotate_and_cache(int index) {
    const Layer& layer = weights.layers[index];
    const int group_size = shape.num_heads / shape.num_kv_heads, dim = shape.head_dim, half = shape.rotary_dim / 2;
    each_row(batch.num_tokens * shape.num_kv_heads, [&](int unit) {
      const int token = unit / shape.num_kv_heads, kv_head = unit % shape.num_kv_heads;
      float* heads = wide_row(token);
      if constexpr (!kIsInt8)
        if (kv_head == 0) clear_padding(attended_row(token), shape.query_width());
      const float* cosines = step.rotation + static_cast<size_t>(token) * 2 * half;
      for (int g = 0; g <= group_size; ++g) {
        const bool is_key = g == group_size;
        float* head = heads + (is_key ? shape.num_heads + kv_head : kv_head * group_size + g) * dim;
        const float* norm = is_key ? layer.key_norm : layer.query_norm;
        if (norm != nullptr) head_norm(head, norm, dim, shape.norm_epsilon);
        if (layer.has_rope) rotate(head, cosines, cosines + half, half);
      }
      const int sequence = step.sequence_of[token], end = batch.row_offsets[sequence + 1];
      const int slot = batch.context_lengths[sequence] - end + token;
      const bool clears = token + 1 == end && slot % 16 <= token - batch.row_offsets[sequence];
      const float* key = heads + (shape.num_heads + kv_head) * dim;
      const auto head = head_of(step, index, sequence, kv_head);
      with_cached([&](auto format) {
        write_slot<decltype(format)>(head, slot, key, key + shape.num_kv_heads * dim, dim, clears);
      });
    });
  }

  void attend_all(int index) {
    const int count = step.num_pieces * shape.num_kv_heads;
    phase(count, [&](int unit) {
      with_cached([&](auto format) {
        attend<decltype(format)>(step, index, unit, unit + 1 < count ? unit + 1 : -1, scratch(), attended_row(0),
                                 kIsInt8 ? step.wide_stride : step.input_stride);
      });
    });
    if constexpr (kIsInt8) quantize_wide(shape.query_width(), inputs());
  }

  // Copy the output rows behind the tokens' rows; after the last attention, only these are needed.
  Inputs keep_output_rows() {
    float* kept = residual_row(batch.num_tokens);
    const Inputs to{input_row(batch.num_tokens), inputs().stride, step.input_scales + batch.num_tokens};
    each_row(batch.num_rows, [&](int row) {
      const int token = batch.output_rows[row];
      copy(kept + static_cast<size_t>(row) * step.residual_stride, residual_row(token), step.residual_stride);
      copy(static_cast<Input*>(to.rows) + static_cast<size_t>(row) * to.stride, input_row(token), step.input_stride);
      to.scales[row] = step.input_scales[token];
    });
    residual = kept;
    num_rows = batch.num_rows;
    if (adapted != nullptr) adapted = &step.adapted->outputs;
    return to;
  }

  template <class T>
  static void copy(T* to, const T* from, int count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }

  void layer(int index) {
    const Layer& layer = weights.layers[index];
    normalize_rows<Weight>(layer.attention_norm);
    to_wide(layer.qkv, added(index, kQkv, layer.qkv, inputs()));
    rotate_and_cache(index);
    attend_all(index);
    const Inputs attended = index + 1 == shape.num_layers ? keep_output_rows() : inputs();
    add_to_residual(layer.output, attended, added(index, kOutput, layer.output, attended));
    normalize_rows<Weight>(layer.mlp_norm);
    gate_and_up(layer.gate_up, added(index, kGateUp, layer.gate_up, inputs()));
    if constexpr (kIsInt8) quantize_wide(shape.intermediate_size, inner());
    add_to_residual(layer.down, inner(), added(index, kDown, layer.down, inner()));
  }

  void logits() {
    normalize_rows<Head>(weights.norm);
    multiply_all<Head>(weights.head, inputs(), [&](int row, int group, const float* sums, int count) {
      float* to = batch.logits + static_cast<size_t>(row) * shape.vocab_size;
      each_sum(sums, group, count, nullptr, [&](int at, const Lanes& sum) {
        if (at + 16 <= shape.vocab_size) return store16(to + at, sum);
        alignas(64) float lanes[16];
        store16(lanes, sum);
        for (int i = 0; at + i < shape.vocab_size; ++i) to[at + i] = lanes[i];
      });
    });
  }
};

template <class Weight, class Head>
void run(const Step& step, int thread) {
  ThreadStep<Weight, Head> mine{
      step,   *step.shape,           *step.weights, step.batch,
      thread, step.batch.num_tokens, step.residual, step.adapted == nullptr ? nullptr : &step.adapted->tokens};
  mine.begin();
  for (int index = 0; index < step.shape->num_layers; ++index) mine.layer(index);
  if (step.batch.num_rows > 0) mine.logits();
#if defined(SLUICE_SET_amx)
  _tile_release();  // otherwise every context switch of this thread would save the tiles
#endif
}

}  // namespace SLUICE_SET
}  // namespace sluice
