// The names of a decoder's tensors, and the destination of each.
#include "layers/expert_layer.h"
#include "layers/gemma.h"
#include "layers/latent_layer.h"
#include "weights/destination.h"

namespace sluice {

namespace {

// Collects the tensors of one layer or, with an empty prefix, of the model.
struct Names {
  std::vector<Tensor>& tensors;
  std::string prefix;
  int layer = -1;

  void vector(const std::string& name, float* at, int count, RowOrder order = RowOrder::Plain, int first = 0) {
    if (at != nullptr) tensors.push_back({prefix + name, {nullptr, at, first, count, order}});
  }
  void table(const std::string& name, float* at, int rows, int width) {
    if (at == nullptr) return;
    vector(name, at, rows * width);
    tensors.back().destination.width = width;
  }
  void norm(const std::string& name, const Norm& norm, int count) {
    vector(name + ".weight", norm.weight, count);
    vector(name + ".bias", norm.bias, count);
  }
  void rows(const std::string& name, Matrix& matrix, Product product, int first, int count,
            RowOrder order = RowOrder::Plain) {
    tensors.push_back({prefix + name + ".weight", {&matrix, nullptr, first, count, order, layer, product}});
    vector(name + ".bias", matrix.bias, count, order, first);
  }
};

void add_attention(Names& names, Layer& layer, int hidden) {
  const AttentionPlan& attention = layer.plan.attention;
  const int queries = attention.query_width(), keys = attention.key_width();
  const bool is_single = attention.head_norm == HeadNorm::Head;
  if (layer.latent != nullptr) {
    add_latent_tensors(layer, names.layer, names.prefix, names.tensors);
  } else {
    names.rows("self_attn.q_proj", layer.qkv, kQkv, 0, queries);
    if (attention.has_gate) names.rows("self_attn.gate_proj", layer.qkv, kQkv, attention.gate_column(), queries);
    if (attention.keys_back == 0) names.rows("self_attn.k_proj", layer.qkv, kQkv, queries, keys);
    if (attention.keys_back == 0 && !attention.values_are_keys)
      names.rows("self_attn.v_proj", layer.qkv, kQkv, queries + keys, keys);
  }
  names.rows("self_attn.o_proj", layer.output, kOutput, 0, hidden);
  names.norm("self_attn.q_norm", layer.query_norm, is_single ? attention.head_dim : queries);
  names.norm("self_attn.k_norm", layer.key_norm, is_single ? attention.head_dim : keys);
  names.norm("self_attn.attended_norm", layer.attended_norm, queries);
  names.vector("self_attn.sinks", layer.sinks, attention.num_heads);
}

void add_recurrent(Names& names, const RecurrentPlan& plan, Recurrent& recurrent, int hidden) {
  const int channels = plan.convolved_width();
  if (plan.begins_with_queries()) {
    names.rows("recurrent.qkv_proj", recurrent.input, kRecurrentInput, 0, channels);
    names.rows("recurrent.gate_proj", recurrent.input, kRecurrentInput, plan.gate_column(), plan.inner_width());
  } else {
    names.rows("recurrent.in_proj", recurrent.input, kRecurrentInput, 0, plan.input_width());
  }
  if (plan.kind == Recurrence::DeltaNet) {
    names.rows("recurrent.beta_proj", recurrent.input, kRecurrentInput, plan.step_column(), plan.num_heads);
    names.rows("recurrent.decay_proj", recurrent.input, kRecurrentInput, plan.step_column() + plan.num_heads,
               plan.num_heads);
  }
  names.rows("recurrent.out_proj", recurrent.output, kRecurrentOutput, 0, hidden);
  names.vector("recurrent.convolution.weight", recurrent.convolution, plan.taps * channels);
  names.vector("recurrent.convolution.bias", recurrent.convolution_bias, channels);
  if (plan.is_mamba()) {
    names.rows("recurrent.x_proj", recurrent.parameters, kRecurrentParameters, 0, plan.parameters_width());
    names.rows("recurrent.dt_proj", recurrent.steps, kRecurrentSteps, 0, channels);
    names.vector("recurrent.step_norm.weight", recurrent.step_norm, plan.step_rank);
    names.vector("recurrent.key_norm.weight", recurrent.key_norm, plan.key_dim);
    names.vector("recurrent.query_norm.weight", recurrent.query_norm, plan.key_dim);
  }
  names.vector("recurrent.decay", recurrent.decay, plan.is_mamba() ? plan.key_dim * channels : plan.num_heads);
  names.vector("recurrent.step_bias", recurrent.step_bias, plan.num_heads);
  names.vector("recurrent.skip", recurrent.skip, plan.is_mamba() ? channels : plan.num_heads);
  names.vector("recurrent.norm.weight", recurrent.norm,
               plan.norm_size == plan.value_dim ? plan.value_dim : plan.inner_width());
}

void add_layer(Names& names, Layer& layer, int hidden) {
  const int width = layer.plan.feed_forward.width;
  names.norm("input_layernorm", layer.attention_norm, hidden);
  names.norm("post_attention_layernorm", layer.mlp_norm, hidden);
  names.norm("post_self_attn_layernorm", layer.attention_output_norm, hidden);
  names.norm("post_mlp_layernorm", layer.mlp_output_norm, hidden);
  names.norm("attention_sum_norm", layer.attention_sum_norm, hidden);
  names.norm("mlp_sum_norm", layer.mlp_sum_norm, hidden);
  names.norm("experts_norm", layer.experts_norm, hidden);
  names.norm("experts_output_norm", layer.experts_output_norm, hidden);
  names.norm("dense_output_norm", layer.dense_output_norm, hidden);
  if (layer.plan.has_attention()) add_attention(names, layer, hidden);
  if (layer.plan.has_recurrent()) add_recurrent(names, layer.plan.recurrent, layer.recurrent, hidden);
  if (layer.experts != nullptr) add_expert_tensors(*layer.experts, hidden, names.prefix, names.tensors);
  if (width == 0) return;
  if (layer.plan.feed_forward.is_gated) {
    names.rows("mlp.gate_proj", layer.gate_up, kGateUp, 0, width, RowOrder::Gate);
    names.rows("mlp.up_proj", layer.gate_up, kGateUp, 0, width, RowOrder::Up);
  } else {
    names.rows("mlp.up_proj", layer.gate_up, kGateUp, 0, width);
  }
  names.norm("mlp.inner_norm", layer.inner_norm, width);
  names.rows("mlp.down_proj", layer.down, kDown, 0, hidden);
  names.vector("mlp.curve", layer.curve, kCurve);
}

}  // namespace

std::vector<Tensor> tensors_of(const DecoderPlan& plan, Weights& weights, RowTables& rows, std::vector<Layer>& layers) {
  std::vector<Tensor> tensors;
  Names names{tensors, ""};
  names.rows("model.embed_tokens", plan.is_tied ? weights.head : rows.tokens, kProducts, 0, plan.vocab_size);
  if (plan.is_tied && weights.head.bias != nullptr) tensors.back().name = "lm_head.bias";
  names.norm("model.norm", weights.norm, plan.hidden_size);
  names.norm("model.embed_norm", weights.embedding_norm, plan.hidden_size);
  names.table("model.embed_positions.weight", weights.positions, plan.num_positions, plan.hidden_size);
  names.table("model.embed_types.weight", weights.types, plan.num_types, plan.hidden_size);
  if (plan.has_head && !plan.is_tied) names.rows("lm_head", weights.head, kProducts, 0, plan.vocab_size);
  add_gemma_tensors(plan, weights, rows.layer_inputs, tensors);
  for (size_t i = 0; i < layers.size(); ++i) {
    Names own{tensors, "model.layers." + std::to_string(i) + ".", static_cast<int>(i)};
    add_layer(own, layers[i], plan.hidden_size);
    add_gemma_tensors(plan, layers[i], own.layer, own.prefix, tensors);
  }
  return tensors;
}

}  // namespace sluice
