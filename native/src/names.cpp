// The names of a decoder's tensors, and the destination of each.
#include "model.h"
#include "destination.h"

namespace sluice {

std::vector<std::string> tensor_names(const Shape& shape) {
  std::vector<std::string> names{"model.embed_tokens.weight", "model.norm.weight"};
  if (!shape.is_tied) names.push_back("lm_head.weight");
  for (int i = 0; i < shape.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const auto add = [&](const std::string& name, bool has_bias) {
      names.push_back(layer + name + ".weight");
      if (has_bias) names.push_back(layer + name + ".bias");
    };
    add("input_layernorm", false);
    add("post_attention_layernorm", false);
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) add(std::string("self_attn.") + part, shape.has_qkv_bias);
    add("self_attn.o_proj", shape.has_output_bias);
    if (shape.has_head_norm)
      for (const char* part : {"q_norm", "k_norm"}) add(std::string("self_attn.") + part, false);
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) add(std::string("mlp.") + part, shape.has_mlp_bias);
  }
  return names;
}

namespace {

// Split "self_attn.q_proj.bias" into its stem "self_attn.q_proj" and the kind of tensor. False for other kinds.
bool split(const std::string& name, std::string& stem, bool& is_bias) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  stem = name.substr(0, dot);
  is_bias = name.substr(dot) == ".bias";
  return is_bias || name.substr(dot) == ".weight";
}

}  // namespace

Product product_of(const Layer& layer, const Matrix& matrix) {
  if (&matrix == &layer.qkv) return kQkv;
  if (&matrix == &layer.output) return kOutput;
  if (&matrix == &layer.gate_up) return kGateUp;
  return &matrix == &layer.down ? kDown : kProducts;
}

Destination find_in_layer(Layer& layer, const Shape& shape, const std::string& name) {
  std::string stem;
  bool is_bias = false;
  if (!split(name, stem, is_bias)) return {};
  const int queries = shape.query_width(), keys = shape.num_kv_heads * shape.head_dim;
  const auto vector = [&](float* at, int count) {
    return is_bias ? Destination{} : Destination{nullptr, at, 0, count, RowOrder::Plain};
  };
  const auto rows = [&](Matrix& matrix, int first, int count, RowOrder order = RowOrder::Plain) {
    return is_bias ? Destination{nullptr, matrix.bias, first, count, order}
                   : Destination{&matrix, nullptr, first, count, order};
  };
  if (stem == "input_layernorm") return vector(layer.attention_norm, shape.hidden_size);
  if (stem == "post_attention_layernorm") return vector(layer.mlp_norm, shape.hidden_size);
  if (stem == "self_attn.q_norm") return vector(layer.query_norm, shape.head_dim);
  if (stem == "self_attn.k_norm") return vector(layer.key_norm, shape.head_dim);
  if (stem == "self_attn.q_proj") return rows(layer.qkv, 0, queries);
  if (stem == "self_attn.k_proj") return rows(layer.qkv, queries, keys);
  if (stem == "self_attn.v_proj") return rows(layer.qkv, queries + keys, keys);
  if (stem == "self_attn.o_proj") return rows(layer.output, 0, shape.hidden_size);
  if (stem == "mlp.gate_proj") return rows(layer.gate_up, 0, shape.intermediate_size, RowOrder::Gate);
  if (stem == "mlp.up_proj") return rows(layer.gate_up, 0, shape.intermediate_size, RowOrder::Up);
  if (stem == "mlp.down_proj") return rows(layer.down, 0, shape.hidden_size);
  return {};
}

}  // namespace sluice
