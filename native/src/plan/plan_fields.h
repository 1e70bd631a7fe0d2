// The fields of a plan by name, with the ranges of numbers and the names of enumerators.
#pragma once

#include <limits>

#include "plan/plan.h"

namespace sluice {

constexpr int kMostWidth = 1 << 20, kMostHeads = 1 << 12, kMostHeadDim = 1 << 12, kMostVocabulary = 1 << 26;
constexpr int kMostWindow = std::numeric_limits<int>::max(), kMostLayers = 1 << 12;
constexpr int kMostPositions = 1 << 20, kMostTypes = 1 << 12;
constexpr int kMostExperts = 1 << 12, kMostChosen = 256, kMostExpertGroups = 256;
constexpr int kMostTaps = 16;
constexpr double kMostNumber = std::numeric_limits<float>::max();

inline constexpr const char* kNormKinds[] = {"rms", "layer"};
inline constexpr const char* kHeadNorms[] = {"none", "head", "heads", "whole"};
inline constexpr const char* kScores[] = {"softmax", "sigmoid", "chosen_softmax"};
inline constexpr const char* kRecurrences[] = {"short_convolution", "delta_net", "mamba2", "mamba", "lightning"};
inline constexpr const char* kGateNorms[] = {"none", "norm_first", "gate_first"};
inline constexpr const char* kActivations[] = {"silu", "gelu", "gelu_tanh", "relu", "squared_relu", "xielu"};

// Call number(name, field, least, most), flag(name, field), choice(name, field, names), optional(name, part) or
// either(name, marker, first part, second part) of the visitor for each field.
template <class Visitor>
void each_field(AttentionPlan& plan, Visitor& visitor) {
  visitor.number("num_heads", plan.num_heads, 1, kMostHeads);
  visitor.number("num_kv_heads", plan.num_kv_heads, 1, kMostHeads);
  visitor.number("head_dim", plan.head_dim, 1, kMostHeadDim);
  visitor.number("window", plan.window, 0, kMostWindow);
  visitor.number("rotary", plan.rotary, -1, kMostLayers);
  visitor.number("scale", plan.scale, -kMostNumber, kMostNumber);
  visitor.number("soft_cap", plan.soft_cap, 0, kMostNumber);
  visitor.number("clip", plan.clip, 0, kMostNumber);
  visitor.choice("head_norm", plan.head_norm, kHeadNorms);
  visitor.flag("has_head_norm_bias", plan.has_head_norm_bias);
  visitor.flag("norms_rotated", plan.norms_rotated);
  visitor.flag("has_qkv_bias", plan.has_qkv_bias);
  visitor.flag("has_output_bias", plan.has_output_bias);
  visitor.flag("has_sinks", plan.has_sinks);
  visitor.flag("has_gate", plan.has_gate);
  visitor.number("output_multiplier", plan.output_multiplier, -kMostNumber, kMostNumber);
  visitor.number("growth", plan.growth, 0, kMostNumber);
  visitor.number("growth_period", plan.growth_period, 1, kMostWindow);
  visitor.flag("is_causal", plan.is_causal);
  visitor.flag("norms_values", plan.norms_values);
  visitor.flag("values_are_keys", plan.values_are_keys);
  visitor.number("keys_back", plan.keys_back, 0, kMostLayers);
}

template <class Visitor>
void each_field(RecurrentPlan& plan, Visitor& visitor) {
  visitor.number("num_heads", plan.num_heads, 1, kMostHeads);
  visitor.choice("kind", plan.kind, kRecurrences);
  visitor.number("num_key_heads", plan.num_key_heads, 0, kMostHeads);
  visitor.number("key_dim", plan.key_dim, 0, kMostHeadDim);
  visitor.number("value_dim", plan.value_dim, 1, kMostWidth);
  visitor.number("taps", plan.taps, 1, kMostTaps);
  visitor.flag("has_convolution_bias", plan.has_convolution_bias);
  visitor.flag("has_input_bias", plan.has_input_bias);
  visitor.flag("has_output_bias", plan.has_output_bias);
  visitor.choice("gate_norm", plan.gate_norm, kGateNorms);
  visitor.number("norm_size", plan.norm_size, 1, kMostWidth);
  visitor.number("norm_epsilon", plan.norm_epsilon, 0, kMostNumber);
  visitor.number("slope", plan.slope, 0, kMostNumber);
  visitor.number("least_step", plan.least_step, 0, kMostNumber);
  visitor.number("most_step", plan.most_step, 0, kMostNumber);
  visitor.number("step_rank", plan.step_rank, 0, kMostWidth);
  visitor.flag("has_parameter_norms", plan.has_parameter_norms);
  visitor.number("parameter_epsilon", plan.parameter_epsilon, 0, kMostNumber);
  visitor.number("gate_multiplier", plan.gate_multiplier, -kMostNumber, kMostNumber);
  visitor.number("value_multiplier", plan.value_multiplier, -kMostNumber, kMostNumber);
  visitor.number("key_multiplier", plan.key_multiplier, -kMostNumber, kMostNumber);
  visitor.number("query_multiplier", plan.query_multiplier, -kMostNumber, kMostNumber);
  visitor.number("step_multiplier", plan.step_multiplier, -kMostNumber, kMostNumber);
  visitor.number("output_multiplier", plan.output_multiplier, -kMostNumber, kMostNumber);
}

template <class Visitor>
void each_field(LatentPlan& plan, Visitor& visitor) {
  visitor.number("num_heads", plan.num_heads, 1, kMostHeads);
  visitor.number("kv_rank", plan.kv_rank, 1, kMostHeadDim);
  visitor.number("query_rank", plan.query_rank, 0, kMostWidth);
  visitor.number("key_dim", plan.key_dim, 1, kMostHeadDim);
  visitor.number("rotated_dim", plan.rotated_dim, 1, kMostHeadDim);
  visitor.number("value_dim", plan.value_dim, 1, kMostHeadDim);
  visitor.number("rotary", plan.rotary, -1, kMostLayers);
  visitor.number("scale", plan.scale, -kMostNumber, kMostNumber);
  visitor.number("norm_epsilon", plan.norm_epsilon, 0, kMostNumber);
  visitor.flag("has_down_bias", plan.has_down_bias);
  visitor.flag("has_output_bias", plan.has_output_bias);
}

template <class Visitor>
void each_field(DensePlan& plan, Visitor& visitor) {
  visitor.number("width", plan.width, 1, kMostWidth);
  visitor.choice("activation", plan.activation, kActivations);
  visitor.flag("is_gated", plan.is_gated);
  visitor.flag("has_bias", plan.has_bias);
  visitor.number("gate_multiplier", plan.gate_multiplier, -kMostNumber, kMostNumber);
  visitor.number("output_multiplier", plan.output_multiplier, -kMostNumber, kMostNumber);
  visitor.flag("is_sparse", plan.is_sparse);
  visitor.number("cutoff", plan.cutoff, -kMostNumber, kMostNumber);
}

template <class Visitor>
void each_field(ExpertsPlan& plan, Visitor& visitor) {
  visitor.number("num_experts", plan.num_experts, 1, kMostExperts);
  visitor.number("num_chosen", plan.num_chosen, 1, kMostChosen);
  visitor.number("width", plan.width, 1, kMostWidth);
  visitor.choice("activation", plan.activation, kActivations);
  visitor.number("swiglu_limit", plan.swiglu_limit, 0, kMostNumber);
  visitor.number("swiglu_alpha", plan.swiglu_alpha, 0, kMostNumber);
  visitor.flag("is_gated", plan.is_gated);
  visitor.flag("has_bias", plan.has_bias);
  visitor.choice("scores", plan.scores, kScores);
  visitor.flag("has_router_norm", plan.has_router_norm);
  visitor.number("logit_multiplier", plan.logit_multiplier, -kMostNumber, kMostNumber);
  visitor.flag("has_router_bias", plan.has_router_bias);
  visitor.flag("has_correction", plan.has_correction);
  visitor.number("num_groups", plan.num_groups, 1, kMostExpertGroups);
  visitor.number("num_chosen_groups", plan.num_chosen_groups, 1, kMostExpertGroups);
  visitor.flag("adds_two", plan.adds_two);
  visitor.flag("is_renormalized", plan.is_renormalized);
  visitor.number("sum_addend", plan.sum_addend, 0, kMostNumber);
  visitor.number("least_sum", plan.least_sum, 0, kMostNumber);
  visitor.number("scale", plan.scale, -kMostNumber, kMostNumber);
  visitor.flag("has_expert_scales", plan.has_expert_scales);
  visitor.number("shared_width", plan.shared_width, 0, kMostWidth);
  visitor.flag("has_shared_gate", plan.has_shared_gate);
}

template <class Visitor>
void each_field(LayerPlan& plan, Visitor& visitor) {
  visitor.either("attention", "kv_rank", plan.latent, plan.attention);
  visitor.optional("recurrent", plan.recurrent);
  visitor.either("feed_forward", "num_experts", plan.experts, plan.feed_forward);
  visitor.optional("experts", plan.experts);
  visitor.flag("has_attended_norm", plan.has_attended_norm);
  visitor.flag("has_inner_norm", plan.has_inner_norm);
  visitor.flag("has_attention_norm", plan.has_attention_norm);
  visitor.flag("has_attention_output_norm", plan.has_attention_output_norm);
  visitor.flag("has_mlp_norm", plan.has_mlp_norm);
  visitor.flag("has_mlp_output_norm", plan.has_mlp_output_norm);
  visitor.flag("has_attention_sum_norm", plan.has_attention_sum_norm);
  visitor.flag("has_mlp_sum_norm", plan.has_mlp_sum_norm);
  visitor.number("attention_residual_multiplier", plan.attention_residual_multiplier, 0, kMostNumber);
  visitor.number("mlp_residual_multiplier", plan.mlp_residual_multiplier, 0, kMostNumber);
  visitor.flag("is_parallel", plan.is_parallel);
  visitor.number("laurel_rank", plan.laurel_rank, 0, kMostWidth);
  visitor.flag("has_scale", plan.has_scale);
}

// All fields but the lists, which are `rotary` and `layers`.
template <class Visitor>
void each_field(DecoderPlan& plan, Visitor& visitor) {
  visitor.number("vocab_size", plan.vocab_size, 1, kMostVocabulary);
  visitor.number("hidden_size", plan.hidden_size, 1, kMostWidth);
  visitor.choice("norm_kind", plan.norm_kind, kNormKinds);
  visitor.number("norm_epsilon", plan.norm_epsilon, 0, kMostNumber);
  visitor.flag("has_norm_bias", plan.has_norm_bias);
  visitor.number("embedding_multiplier", plan.embedding_multiplier, -kMostNumber, kMostNumber);
  visitor.number("residual_multiplier", plan.residual_multiplier, -kMostNumber, kMostNumber);
  visitor.number("logit_multiplier", plan.logit_multiplier, -kMostNumber, kMostNumber);
  visitor.number("logit_soft_cap", plan.logit_soft_cap, 0, kMostNumber);
  visitor.flag("is_tied", plan.is_tied);
  visitor.flag("has_head_bias", plan.has_head_bias);
  visitor.flag("has_head", plan.has_head);
  visitor.flag("has_final_norm", plan.has_final_norm);
  visitor.flag("has_embedding_norm", plan.has_embedding_norm);
  visitor.number("num_positions", plan.num_positions, 0, kMostPositions);
  visitor.number("first_position", plan.first_position, 0, kMostPositions);
  visitor.number("num_types", plan.num_types, 0, kMostTypes);
  visitor.number("layer_input_width", plan.layer_input_width, 0, kMostWidth);
  visitor.number("num_layer_inputs", plan.num_layer_inputs, 0, kMostVocabulary);
  visitor.choice("layer_input_activation", plan.layer_input_activation, kActivations);
  visitor.number("num_extra_streams", plan.num_extra_streams, 0, kMostStreams - 1);
  visitor.flag("scales_corrected", plan.scales_corrected);
}

}  // namespace sluice
