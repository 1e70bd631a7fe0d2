// Checks of a plan whose numbers are in their ranges: that they fit each other, the weights' type and 32-bit sizes.
#include <algorithm>

#include "layers/expert_layer.h"
#include "layers/latent_layer.h"
#include "model/model.h"

namespace sluice {

namespace {

constexpr int kMostTableSize = 1 << 30;  // numbers
constexpr int kMostInt8Columns = 65'536;  // the sum of this many products of bytes fits an int32

void require(bool is_valid, const std::string& field, const std::string& rule) {
  if (!is_valid) throw BadArgument(field + " must " + rule);
}

void check_rotary(const Options& options, int rotary, int dim, const std::string& name, const char* size) {
  const int count = static_cast<int>(options.rotary.size());
  require(rotary < count, name + "rotary", "be below the number of tables, " + std::to_string(count));
  if (rotary >= 0)
    require(2 * options.rotary[rotary].inverse_frequencies.size() <= static_cast<size_t>(dim),
            "rotary[" + std::to_string(rotary) + "].inverse_frequencies",
            std::string("have at most ") + size + " / 2 elements");
}

void check_latent(const Options& options, const LatentPlan& plan, const std::string& name) {
  const std::string most = std::to_string(kMostWidth);
  require(plan.query_width() <= kMostWidth, name + "key_dim", "be at most " + most + " for all heads together");
  require(plan.attended_width() <= kMostWidth, name + "value_dim", "be at most " + most + " for all heads together");
  require(plan.num_heads * plan.cached_width() <= kMostWidth, name + "kv_rank",
          "be at most " + most + " for all heads together");
  check_rotary(options, plan.rotary, plan.rotated_dim, name, "rotated_dim");
}

void check_attention(const Options& options, const AttentionPlan& attention, const std::string& name) {
  require(attention.num_kv_heads <= attention.num_heads && attention.num_heads % attention.num_kv_heads == 0,
          name + "num_kv_heads", "divide num_heads");
  require(attention.query_width() <= kMostWidth, name + "head_dim",
          "be at most " + std::to_string(kMostWidth) + " for all heads together");
  check_rotary(options, attention.rotary, attention.head_dim, name, "head_dim");
  require(!attention.has_head_norm_bias || options.plan.norm_kind == NormKind::Layer, name + "has_head_norm_bias",
          "be false with norm_kind rms");
  require(attention.is_causal || !options.plan.has_head, name + "is_causal", "be true in a plan with a head");
}

// Check a layer that reads the keys and values of an earlier one instead of its own.
void check_shared_keys(const Options& options, size_t index, const std::string& name) {
  const AttentionPlan& attention = options.layers[index].attention;
  if (attention.keys_back == 0) return;
  require(options.plan.has_head, name + "keys_back", "be 0 in a plan without a head");
  require(!attention.has_gate, name + "has_gate", "be false for a layer with keys_back");
  require(static_cast<size_t>(attention.keys_back) <= index, name + "keys_back",
          "be at most " + std::to_string(index) + ", the layers before");
  const LayerPlan& other = options.layers[index - attention.keys_back];
  const AttentionPlan& its = other.attention;
  require(other.latent.kv_rank == 0 && its.num_heads > 0 && its.keys_back == 0 &&
              its.num_kv_heads == attention.num_kv_heads && its.head_dim == attention.head_dim &&
              its.window == attention.window,
          name + "keys_back", "be that of a layer with keys of the same number, size and window");
}

// Check what only Gemma's plans use.
void check_gemma(const Options& options, const LayerPlan& layer, const std::string& at) {
  const DecoderPlan& plan = options.plan;
  const AttentionPlan& attention = layer.attention;
  require(!attention.norms_values || plan.norm_kind == NormKind::Rms, at + ".attention.norms_values",
          "be false with norm_kind layer");
  require(!attention.values_are_keys || !attention.has_gate, at + ".attention.values_are_keys",
          "be false for a layer with has_gate");
  require(!layer.feed_forward.is_sparse || (layer.feed_forward.is_gated && !layer.has_inner_norm),
          at + ".feed_forward.is_sparse", "be false without is_gated or with has_inner_norm");
  require(layer.laurel_rank == 0 || (layer.has_attention_output_norm && layer.latent.kv_rank == 0 &&
                                     plan.norm_kind == NormKind::Rms),
          at + ".laurel_rank", "be 0 without has_attention_output_norm, over latents, or with norm_kind layer");
}

// Check residuals that are replaced with their norm, and layers with both a dense MLP and experts.
void check_residual(const Options& options, const LayerPlan& layer, const std::string& at) {
  const bool is_simple = !layer.is_parallel && layer.laurel_rank == 0 && options.plan.num_extra_streams == 0;
  require(layer.attention_residual_multiplier == 0 ||
              (layer.has_attention_norm && is_simple && layer.has_attention() != layer.has_recurrent()),
          at + ".attention_residual_multiplier",
          "be 0 without has_attention_norm, or with is_parallel, laurel_rank, num_extra_streams or several mixers");
  require(layer.mlp_residual_multiplier == 0 ||
              (layer.has_mlp_norm && is_simple && layer.has_feed_forward() && !layer.has_both()),
          at + ".mlp_residual_multiplier",
          "be 0 without has_mlp_norm or a feed-forward part, or with is_parallel, laurel_rank, num_extra_streams or "
          "both kinds of parts");
  require(!layer.has_both() || (layer.has_mlp_norm && layer.has_mlp_output_norm && options.type != Type::Packed),
          at + ".experts", "be None for a dense part without has_mlp_norm and has_mlp_output_norm, or packed weights");
  require(!layer.experts.has_router_norm || layer.has_both(), at + ".feed_forward.has_router_norm",
          "be false for experts without a dense part");
}

void check_recurrent(const RecurrentPlan& plan, const std::string& name) {
  const bool has_heads = plan.kind != Recurrence::ShortConvolution;
  require(plan.is_mamba() == (plan.step_rank > 0), name + "step_rank", "be at least 1 for mamba, and 0 for others");
  require(plan.is_mamba() || !plan.has_parameter_norms, name + "has_parameter_norms", "be false except for mamba");
  require(!plan.is_mamba() || plan.num_heads == 1, name + "num_heads", "be 1 for mamba");
  require(!plan.is_mamba() || static_cast<int64_t>(plan.key_dim) * plan.value_dim <= kMostTableSize,
          name + "key_dim", "be smaller for this number of channels");
  const std::string most = "be at most " + std::to_string(kMostWidth) + " for all heads together";
  require(static_cast<int64_t>(plan.num_heads) * plan.value_dim <= kMostWidth, name + "value_dim", most);
  require(static_cast<int64_t>(plan.num_key_heads) * plan.key_dim <= kMostWidth, name + "key_dim", most);
  if (!has_heads) {
    require(plan.num_heads == 1, name + "num_heads", "be 1 for short_convolution");
    require(plan.num_key_heads == 0, name + "num_key_heads", "be 0 for short_convolution");
    require(plan.key_dim == 0, name + "key_dim", "be 0 for short_convolution");
    require(plan.gate_norm == GateNorm::None, name + "gate_norm", "be none for short_convolution");
    return;
  }
  require(plan.key_dim > 0, name + "key_dim", "be at least 1");
  require(plan.num_key_heads > 0 && plan.num_heads % plan.num_key_heads == 0, name + "num_key_heads",
          "divide num_heads");
  require(plan.inner_width() % plan.norm_size == 0, name + "norm_size", "divide num_heads * value_dim");
  require(plan.least_step <= plan.most_step, name + "least_step", "be at most most_step");
}

void check_layer(const Options& options, size_t index, const std::string& at) {
  const LayerPlan& layer = options.layers[index];
  if (layer.latent.kv_rank > 0)
    check_latent(options, layer.latent, at + ".attention.");
  else if (layer.has_attention())
    check_attention(options, layer.attention, at + ".attention.");
  check_shared_keys(options, index, at + ".attention.");
  check_gemma(options, layer, at);
  check_residual(options, layer, at);
  require(!layer.has_attended_norm || (layer.has_attention() && layer.latent.kv_rank == 0), at + ".has_attended_norm",
          "be false over latents");
  require(!layer.has_recurrent() || !(layer.has_attended_norm || layer.latent.kv_rank > 0), at + ".recurrent",
          "be None for a layer with latents or has_attended_norm");
  require(!layer.has_inner_norm || layer.feed_forward.width > 0, at + ".has_inner_norm", "be false for experts");
  if (layer.has_recurrent()) check_recurrent(layer.recurrent, at + ".recurrent.");
  require(!layer.has_recurrent() || !(layer.is_parallel || layer.has_attention_output_norm), at + ".recurrent",
          "be None for a layer with is_parallel or has_attention_output_norm");
  require(!layer.has_recurrent() || options.plan.has_head, at + ".recurrent", "be None in a plan without a head");
  require(layer.has_attention() || !layer.is_parallel, at + ".is_parallel", "be false for a layer without attention");
  const ExpertsPlan& experts = layer.experts;
  if (experts.num_experts > 0) {
    check_experts(experts, at + ".feed_forward.");
    require(!layer.is_parallel, at + ".is_parallel", "be false for a layer with experts");
    require(!layer.has_inner_norm, at + ".has_inner_norm", "be false for a layer with experts");
  }
  require(!layer.is_parallel || !(layer.has_attention_output_norm || layer.has_mlp_output_norm), at + ".is_parallel",
          "be false for a layer with output norms");
  require(!layer.is_parallel || !layer.has_attention_sum_norm, at + ".is_parallel",
          "be false for a layer with a norm after its attention");
  require(options.cache_type != Stored::Int8 || layer.latent.kv_rank == 0, "cache_type",
          "not be int8 for a layer with latents");
  if (options.type == Type::Int8 || options.type == Type::Int4)
    for (const int columns : {options.plan.hidden_size, layer.feed_forward.width, experts.width, experts.shared_width,
                              layer.attended_width(), layer.latent.query_rank, layer.recurrent.inner_width(),
                              layer.laurel_rank, options.plan.layer_input_width, layer.recurrent.step_rank})
      require(columns <= kMostInt8Columns, "weight_type", "not be int8 or int4 for inputs wider than 65536");
}

}  // namespace

void check_plan(const Options& options) {
  const DecoderPlan& plan = options.plan;
  require(!options.layers.empty() && options.layers.size() <= static_cast<size_t>(kMostLayers), "layers",
          "have 1 to " + std::to_string(kMostLayers) + " elements");
  require(options.rotary.size() <= static_cast<size_t>(kMostLayers), "rotary",
          "have at most " + std::to_string(kMostLayers) + " elements");
  require(plan.has_head || !plan.is_tied, "is_tied", "be false in a plan without a head");
  require(plan.has_head || !plan.has_head_bias, "has_head_bias", "be false in a plan without a head");
  require(!plan.has_head || plan.has_final_norm, "has_final_norm", "be true in a plan with a head");
  require(!plan.has_head || plan.num_types == 0, "num_types", "be 0 in a plan with a head");
  require(!plan.has_head || plan.num_positions == 0, "num_positions", "be 0 in a plan with a head");
  require(plan.first_position == 0 || plan.first_position < plan.num_positions, "first_position",
          "be below num_positions");
  for (const int rows : {plan.num_positions, plan.num_types})
    require(static_cast<int64_t>(rows) * plan.hidden_size <= kMostTableSize, "hidden_size",
            "be smaller for a table of positions or types of this length");
  const bool has_inputs = plan.layer_input_width > 0, has_streams = plan.num_extra_streams > 0;
  require(!(has_inputs || has_streams) || (plan.has_head && options.type != Type::Packed), "layer_input_width",
          "be 0, as must num_extra_streams, in a plan without a head or with packed weights");
  require(!(has_inputs || has_streams) || plan.norm_kind == NormKind::Rms, "layer_input_width",
          "be 0, as must num_extra_streams, with norm_kind layer");
  require(has_inputs == (plan.num_layer_inputs > 0), "num_layer_inputs", "be above 0 if layer_input_width is");
  require(static_cast<int64_t>(plan.layer_input_width) * static_cast<int64_t>(options.layers.size()) <= kMostWidth,
          "layer_input_width", "be at most " + std::to_string(kMostWidth) + " for all layers together");
  require(plan.layer_input_activation != Activation::Xielu, "layer_input_activation", "not be xielu");
  require(!plan.has_norm_bias || plan.norm_kind == NormKind::Layer, "has_norm_bias", "be false with norm_kind rms");
  for (size_t i = 0; i < options.layers.size(); ++i)
    check_layer(options, i, "layers[" + std::to_string(i) + "]");
  require(std::any_of(options.layers.begin(), options.layers.end(),
                      [](const LayerPlan& layer) { return layer.has_attention() || layer.has_recurrent(); }),
          "layers", "have one with attention or a recurrent part");
}

Extent extent_of(const Options& options) {
  Extent extent;
  for (const LayerPlan& layer : options.layers) {
    const AttentionPlan attention = layer.scores();
    const bool is_latent = layer.latent.kv_rank > 0;
    extent.mixed_width = std::max(
        {extent.mixed_width, layer.attended_width(), layer.latent.query_rank, layer.recurrent.inner_width(),
         layer.recurrent.step_rank});
    extent.wide_width = std::max(extent.wide_width, is_latent ? wide_width(layer.latent) : attention.qkv_width());
    extent.inner_width = std::max(
        {extent.inner_width, layer.feed_forward.width, layer.laurel_rank, options.plan.layer_input_width});
    if (layer.feed_forward.is_sparse)  // gates and then ups
      extent.wide_width = std::max(extent.wide_width, 2 * groups_of(layer.feed_forward.width) * kRows);
    if (layer.laurel_rank > 0)
      extent.wide_width = std::max({extent.wide_width, layer.laurel_rank, options.plan.hidden_size});
    extent.padded_head_dim = std::max(extent.padded_head_dim, attention.padded_head_dim());
    if (layer.has_attention())
      extent.group_size = std::max(
          extent.group_size, is_latent ? std::min(attention.num_heads, kLatentHeads) : attention.group_size());
    extent.latent_width = std::max(extent.latent_width, layer.latent.kv_rank);
    if (layer.has_inner_norm) extent.wide_inner_width = std::max(extent.wide_inner_width, layer.feed_forward.width);
    if (layer.has_recurrent()) extent.wide_width = std::max(extent.wide_width, layer.recurrent.wide_width());
    extent.has_branch |= layer.is_parallel || layer.has_attention_output_norm || layer.has_mlp_output_norm;
    extent.has_branch |= layer.has_attention() && layer.has_recurrent();
    extent.has_branch |= options.plan.layer_input_width > 0 || options.plan.num_extra_streams > 0;
  }
  return extent;
}

}  // namespace sluice
