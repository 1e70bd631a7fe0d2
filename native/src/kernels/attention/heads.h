// Attention with keys and values per head (AttentionPlan), as one thread computes it: everything between the QKV
// projection and the output projection. latent.h has latent attention (MLA).
#pragma once

#include "kernels/attention/attend.h"
#include "kernels/norm.h"
#include "kernels/thread.h"

namespace sluice {
namespace SLUICE_SET {

template <class Weight>
struct HeadPhases {
  static constexpr bool kQuantizes = kIsQuantized<Weight>;

  Thread<Weight>& thread;
  const int index;  // of the layer
  const Step& step = thread.step;
  const Batch& batch = thread.batch;
  const DecoderPlan& plan = thread.plan;
  const Layer& layer = thread.weights.layers[index];
  const AttentionPlan& attention = layer.plan.attention;
  const int head_dim = attention.head_dim;

  // Apply QK norm and RoPE, and write keys and values to the cache. Threads share the pairs of a token and a kv head.
  void rotate_and_cache() {
    if (attention.head_norm == HeadNorm::Whole) norm_all_heads();
    const int group_size = attention.group_size();
    thread.each_row(thread.num_rows * attention.num_kv_heads, [&](int unit) {
      const int row = unit / attention.num_kv_heads, kv_head = unit % attention.num_kv_heads;
      const int token = thread.token_of(row);
      float* heads = thread.wide_row(row);
      if constexpr (!kQuantizes)
        if (kv_head == 0) thread.clear_padding(thread.input_row(row), attention.query_width());
      for (int g = 0; g < group_size; ++g) norm_and_rotate(token, kv_head * group_size + g, heads);
      if (attention.keys_back > 0) return;
      float* value = heads + attention.query_width() + attention.key_width() + kv_head * head_dim;
      if (attention.values_are_keys) std::memcpy(value, value - attention.key_width(), head_dim * sizeof(float));
      if (attention.norms_values) head_norm(value, head_dim, plan.norm_epsilon);
      norm_and_rotate(token, attention.num_heads + kv_head, heads);
      const float* key = heads + (attention.num_heads + kv_head) * head_dim;
      write_head(step, slot_of(step, index, kv_head, token), key, value, head_dim);
    });
  }

  // Apply QK norm, RoPE and query scaling to head `number` of a token. The heads of keys follow those of queries.
  void norm_and_rotate(int token, int number, float* heads) const {
    const bool is_key = number >= attention.num_heads;
    const Norm& norm = is_key ? layer.key_norm : layer.query_norm;
    const bool has_norm = attention.head_norm == HeadNorm::Head || attention.head_norm == HeadNorm::Heads;
    const int own = is_key ? number - attention.num_heads : number;
    const int first = attention.head_norm == HeadNorm::Heads ? own * head_dim : 0;
    float* head = heads + number * head_dim;
    if (has_norm && !attention.norms_rotated) head_norm(plan, head, norm, first, head_dim);
    if (attention.rotary >= 0) {
      const Rotary& rotary = thread.weights.rotary[attention.rotary];
      const float* cosines = thread.rotation(token, rotary);
      rotate(head, cosines, cosines + rotary.half, rotary.half);
    }
    if (has_norm && attention.norms_rotated) head_norm(plan, head, norm, first, head_dim);
    if (attention.growth > 0 && !is_key)
      grow(head, head_dim, attention.growth, attention.growth_period, batch.positions[token]);
  }

  // Apply QK norm over all query heads together, and over all key heads together.
  void norm_all_heads() {
    thread.each_row(thread.num_rows, [&](int row) {
      float* queries = thread.wide_row(row);
      head_norm(plan, queries, layer.query_norm, 0, attention.query_width());
      if (attention.keys_back == 0)
        head_norm(plan, queries + attention.query_width(), layer.key_norm, 0, attention.key_width());
    });
  }

  // Write the results as inputs of the output projection. If they are normalized or quantized first, they are floats in
  // the rows of the queries until then.
  void attend_all() {
    if (kQuantizes || layer.attended_norm.weight != nullptr) {
      attend_to(thread.wide_row(0), step.wide_stride);
      thread.convert_wide(layer.attended_norm, attention.query_width(), thread.inputs());
    } else {
      attend_to(thread.attended_row(0), step.input_stride);
    }
  }

  template <class Out>
  void attend_to(Out* out, int out_stride) {
    const int num_pieces = thread.has_kept() ? batch.num_rows : step.num_pieces;
    const int count = num_pieces * attention.num_kv_heads;
    const HeadRows<Out> heads{step.wide,
                              static_cast<size_t>(step.wide_stride),
                              out,
                              static_cast<size_t>(out_stride),
                              head_dim,
                              head_dim,
                              attention.group_size(),
                              attention.num_kv_heads,
                              thread.has_kept() ? step.kept_pieces : step.pieces};
    thread.phase(count, [&](int unit) {
      attend(step, index, unit, unit + 1 < count ? unit + 1 : -1, thread.scratch(), heads);
    });
  }

  void run() {
    rotate_and_cache();
    attend_all();
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
