#include "weights/weights.h"

#include <algorithm>

#include "layers/expert_layer.h"
#include "layers/gemma.h"
#include "layers/latent_layer.h"
#include "model/model.h"

namespace sluice {

namespace {

size_t floats(int count) { return round_up(static_cast<size_t>(count) * sizeof(float), 64); }

template <class OnVector, class OnMatrix>
void each_recurrent_part(const RecurrentPlan& plan, Recurrent& recurrent, OnVector vector, OnMatrix matrix) {
  const int channels = plan.convolved_width();
  matrix(recurrent.input, plan.has_input_bias);
  matrix(recurrent.output, plan.has_output_bias);
  vector(recurrent.convolution, plan.taps * channels);
  if (plan.has_convolution_bias) vector(recurrent.convolution_bias, channels);
  if (plan.gate_norm != GateNorm::None)
    vector(recurrent.norm, plan.norm_size == plan.value_dim ? plan.value_dim : plan.inner_width());
  if (plan.kind == Recurrence::ShortConvolution) return;
  if (plan.is_lightning()) return;
  if (plan.is_mamba()) {
    matrix(recurrent.parameters, false);
    matrix(recurrent.steps, true);
    vector(recurrent.decay, plan.key_dim * channels);
    vector(recurrent.skip, channels);
    if (!plan.has_parameter_norms) return;
    vector(recurrent.step_norm, plan.step_rank);
    vector(recurrent.key_norm, plan.key_dim);
    vector(recurrent.query_norm, plan.key_dim);
    return;
  }
  vector(recurrent.decay, plan.num_heads);
  vector(recurrent.step_bias, plan.num_heads);
  if (plan.kind == Recurrence::Mamba2) vector(recurrent.skip, plan.num_heads);
}

// Call vector(pointer to a float vector, its size) and matrix(matrix, has bias) for everything in the weights' memory.
template <class OnVector, class OnMatrix>
void each_part(const Options& options, Weights& weights, std::vector<Layer>& layers, OnVector vector, OnMatrix matrix) {
  const DecoderPlan& plan = options.plan;
  const auto norm = [&](Norm& at, bool is_there, bool has_bias, int count) {
    if (is_there) vector(at.weight, padded(count));
    if (is_there && has_bias) vector(at.bias, padded(count));
  };
  norm(weights.norm, plan.has_final_norm, plan.has_norm_bias, plan.hidden_size);
  norm(weights.embedding_norm, plan.has_embedding_norm, plan.has_norm_bias, plan.hidden_size);
  if (plan.num_positions > 0) vector(weights.positions, plan.num_positions * plan.hidden_size);
  if (plan.num_types > 0) vector(weights.types, plan.num_types * plan.hidden_size);
  each_gemma_part(plan, weights, vector, matrix);
  for (int i = 0; i < weights.num_rotary; ++i) vector(weights.rotary[i].inverse_frequencies, weights.rotary[i].half);
  for (Layer& layer : layers) {
    const AttentionPlan& attention = layer.plan.attention;
    const DensePlan& dense = layer.plan.feed_forward;
    norm(layer.attention_norm, layer.plan.has_attention_norm, plan.has_norm_bias, plan.hidden_size);
    norm(layer.attention_output_norm, layer.plan.has_attention_output_norm, plan.has_norm_bias, plan.hidden_size);
    norm(layer.mlp_norm, layer.plan.has_mlp_norm, plan.has_norm_bias, plan.hidden_size);
    norm(layer.mlp_output_norm, layer.plan.has_mlp_output_norm, plan.has_norm_bias, plan.hidden_size);
    norm(layer.attention_sum_norm, layer.plan.has_attention_sum_norm, plan.has_norm_bias, plan.hidden_size);
    norm(layer.mlp_sum_norm, layer.plan.has_mlp_sum_norm, plan.has_norm_bias, plan.hidden_size);
    for (Norm* each : {&layer.experts_norm, &layer.experts_output_norm, &layer.dense_output_norm})
      norm(*each, layer.plan.has_both(), plan.has_norm_bias, plan.hidden_size);
    const bool is_single = attention.head_norm == HeadNorm::Head, has_bias = attention.has_head_norm_bias;
    const bool has_norm = attention.head_norm != HeadNorm::None;
    norm(layer.query_norm, has_norm, has_bias, is_single ? attention.head_dim : attention.query_width());
    norm(layer.key_norm, has_norm && attention.keys_back == 0, has_bias, is_single ? attention.head_dim : attention.key_width());
    norm(layer.attended_norm, layer.plan.has_attended_norm, plan.has_norm_bias, attention.query_width());
    norm(layer.inner_norm, layer.plan.has_inner_norm, plan.has_norm_bias, dense.width);
    if (attention.has_sinks) vector(layer.sinks, attention.num_heads);
    if (dense.activation == Activation::Xielu) vector(layer.curve, kCurve);
    if (layer.latent != nullptr) each_latent_part(layer.plan.latent, *layer.latent, vector, matrix);
    matrix(layer.qkv, attention.has_qkv_bias);
    matrix(layer.output, attention.has_output_bias);
    if (layer.plan.has_recurrent()) each_recurrent_part(layer.plan.recurrent, layer.recurrent, vector, matrix);
    each_gemma_part(plan, layer, vector, matrix);
    if (layer.experts != nullptr) each_expert_part(*layer.experts, vector, matrix);
    if (dense.width == 0) continue;
    matrix(layer.gate_up, dense.has_bias);
    matrix(layer.down, dense.has_bias);
  }
  if (plan.has_head) matrix(weights.head, plan.has_head_bias);
}

}  // namespace

void plan_weights(const Options& options, Weights& weights, std::vector<Layer>& layers) {
  const int hidden = options.plan.hidden_size;
  weights.type = options.type;
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    layer = {};
    layer.plan = options.layers[i];
    layer.plan.attention = layer.plan.scores();
    const AttentionPlan& attention = layer.plan.attention;
    const LatentPlan& latent = layer.plan.latent;
    const DensePlan& dense = layer.plan.feed_forward;
    const int inner = groups_of(dense.width) * kRows;
    if (layer.plan.stores()) weights.last_stored = static_cast<int>(i);
    if (layer.plan.has_recurrent()) {
      layer.recurrent.input = plan_matrix(options.type, layer.plan.recurrent.input_width(), hidden);
      layer.recurrent.output = plan_matrix(options.type, hidden, layer.plan.recurrent.inner_width());
      if (layer.plan.recurrent.is_mamba()) {
        const int inner = layer.plan.recurrent.inner_width();
        layer.recurrent.parameters = plan_matrix(options.type, layer.plan.recurrent.parameters_width(), inner);
        layer.recurrent.steps = plan_matrix(options.type, inner, layer.plan.recurrent.step_rank);
      }
    }
    const int queries = latent.query_rank > 0 ? latent.query_rank : latent.query_width();
    const int width = latent.kv_rank > 0 ? latent.cached_width() + queries : attention.projected_width();
    layer.qkv = plan_matrix(options.type, width, hidden);
    layer.output = plan_matrix(options.type, hidden, layer.plan.attended_width());
    layer.gate_up = plan_matrix(options.type, dense.is_gated ? 2 * inner : dense.width, hidden);
    layer.down = plan_matrix(options.type, hidden, dense.width);
  }
  plan_gemma(options, weights, layers);
  if (!options.plan.has_head) return;
  // The head has eight bits, since it determines the token and is also the embedding if both are tied.
  const Type head = options.type == Type::Int4 ? Type::Int8 : options.type;
  weights.head = plan_matrix(head, options.plan.vocab_size, hidden);
}

size_t weight_bytes(const Options& options, Weights& weights, std::vector<Layer>& layers) {
  size_t bytes = 0;
  each_part(
      options, weights, layers, [&](float*&, int count) { bytes += floats(count); },
      [&](Matrix& matrix, bool has_bias) { bytes += matrix_bytes(matrix, has_bias); });
  return bytes;
}

void place_weights(const Options& options, Weights& weights, std::vector<Layer>& layers, uint8_t* memory) {
  each_part(
      options, weights, layers,
      [&](float*& vector, int count) {
        vector = reinterpret_cast<float*>(memory);
        memory += floats(count);
      },
      [&](Matrix& matrix, bool has_bias) {
        place_matrix(matrix, has_bias, memory);
        memory += matrix_bytes(matrix, has_bias);
      });
  for (int i = 0; i < weights.num_rotary; ++i) {
    const std::vector<float>& frequencies = options.rotary[i].inverse_frequencies;
    std::copy(frequencies.begin(), frequencies.end(), weights.rotary[i].inverse_frequencies);
  }
}

}  // namespace sluice
