#include "random_layer.h"

#include "chance.h"

namespace sluice {

namespace {

ExpertsPlan random_experts() {
  const int num_groups = between(1, 3), group_size = between(2, 9), num_chosen_groups = between(1, num_groups);
  const int shared_width = one_in(2) ? between(1, 100) : 0;
  const bool is_gated = !one_in(3);
  return {num_groups * group_size,
          between(1, num_chosen_groups * group_size),
          between(1, 100),
          static_cast<Activation>(between(0, 4)),
          is_gated && one_in(3) ? 7.0f : 0.0f,
          1.702f,
          is_gated,
          one_in(3),
          static_cast<Scores>(between(0, 2)),
          false,
          one_in(2) ? 1.0f : 0.3f,
          one_in(3),
          one_in(3),
          num_groups,
          num_chosen_groups,
          one_in(2),
          one_in(2),
          one_in(2) ? 1e-20f : 0.0f,
          one_in(2) ? 1e-12f : 0.0f,
          one_in(2) ? 1.0f : 2.5f,
          one_in(3),
          shared_width,
          shared_width > 0 && one_in(2)};
}

RecurrentPlan random_recurrent() {
  RecurrentPlan plan{};
  plan.kind = one_in(4) ? Recurrence::Lightning : static_cast<Recurrence>(between(0, 2));
  const bool is_convolution = plan.kind == Recurrence::ShortConvolution;
  plan.num_key_heads = is_convolution ? 0 : between(1, 3);
  plan.num_heads = is_convolution ? 1 : plan.num_key_heads * between(1, 3);
  plan.key_dim = is_convolution ? 0 : between(1, 40);
  plan.value_dim = between(1, 90);
  plan.taps = between(1, 5);
  plan.has_convolution_bias = one_in(2);
  plan.has_input_bias = one_in(2);
  plan.has_output_bias = one_in(2);
  plan.gate_norm = is_convolution ? GateNorm::None : static_cast<GateNorm>(between(0, 2));
  plan.norm_size = one_in(2) ? plan.value_dim : plan.inner_width();
  plan.norm_epsilon = one_in(2) ? 0.0f : 1e-5f;
  plan.slope = plan.is_lightning() ? 0.8f : 0.0f;
  plan.most_step = one_in(2) ? 0.5f : 1e30f;
  plan.gate_multiplier = plan.value_multiplier = plan.key_multiplier = plan.query_multiplier = plan.step_multiplier =
      one_in(2) ? 1.0f : 0.7f;
  plan.output_multiplier = one_in(2) ? 1.0f : 0.7f;
  return plan;
}

// Return the index of a rotary table that fits heads of a size, or -1.
int random_rotary(const Options& options, int dim) {
  int found = -1;
  for (size_t i = 0; i < options.rotary.size(); ++i)
    if (2 * options.rotary[i].inverse_frequencies.size() <= static_cast<size_t>(dim) && !one_in(3))
      found = static_cast<int>(i);
  return found;
}

LatentPlan random_latent(const Options& options) {
  const int rotated_dim = 2 * between(1, 20);
  return {between(1, 40), between(1, 70), one_in(2) ? between(1, 50) : 0,      between(1, 40), rotated_dim,
          between(1, 40), random_rotary(options, rotated_dim), 0.3f, 1e-6f, one_in(2),      one_in(2)};
}

}  // namespace

LayerPlan random_layer(const Options& options) {
  const int kv_heads = between(1, 3), head_dim = 2 * between(1, 40);
  const bool is_parallel = one_in(4), has_bias = one_in(2);
  LayerPlan layer{};
  layer.attention = {kv_heads * between(1, 5),
                     kv_heads,
                     head_dim,
                     one_in(2) ? between(1, 90) : 0,
                     random_rotary(options, head_dim),
                     0.3f,
                     one_in(4) ? 5.0f : 0.0f,
                     one_in(4) ? 2.0f : 0.0f,
                     static_cast<HeadNorm>(one_in(2) ? between(1, 3) : 0),
                     options.plan.norm_kind == NormKind::Layer && one_in(2),
                     one_in(2),
                     has_bias,
                     one_in(2),
                     one_in(3),
                     one_in(3),
                     one_in(2) ? 1.0f : 0.7f,
                     one_in(4) ? 0.1f : 0.0f,
                     between(1, 30),
                     options.plan.has_head || one_in(3)};
  layer.attention.rotary = random_rotary(options, head_dim);
  if (one_in(3)) {
    layer.attention = {};
    layer.latent = random_latent(options);
  }
  layer.has_attended_norm = layer.latent.kv_rank == 0 && one_in(4);
  layer.has_inner_norm = one_in(4);
  layer.feed_forward = {between(1, 100), static_cast<Activation>(between(0, 5)), !one_in(3), one_in(2), 1.0f,
                        one_in(2) ? 1.0f : 0.7f};
  layer.has_attention_norm = !one_in(4);
  layer.has_attention_output_norm = !is_parallel && one_in(3);
  layer.has_mlp_norm = !one_in(3);
  layer.has_mlp_output_norm = !is_parallel && one_in(3);
  layer.has_attention_sum_norm = !is_parallel && one_in(3);
  layer.has_mlp_sum_norm = one_in(3);
  layer.is_parallel = is_parallel;
  if (!is_parallel && one_in(2)) {
    layer.feed_forward = {};
    layer.has_inner_norm = false;
    layer.experts = random_experts();
  }
  if (layer.experts.num_experts > 0 && layer.has_mlp_norm && layer.has_mlp_output_norm && one_in(2)) {
    layer.feed_forward = {between(1, 100), static_cast<Activation>(between(0, 5)), !one_in(3), one_in(2), 1.0f, 1.0f};
    layer.experts.has_router_norm = one_in(2);
  }
  if (options.plan.has_head && !is_parallel && !layer.has_attention_output_norm && one_in(2)) {
    layer.recurrent = random_recurrent();
    if (!one_in(3)) layer.attention = {};
    if (one_in(4)) {
      layer.feed_forward = {};
      layer.experts = {};
    }
  }
  return layer;
}

}  // namespace sluice
