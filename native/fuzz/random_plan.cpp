#include "random_plan.h"

#include "chance.h"
#include "random_layer.h"

namespace sluice {

namespace {

constexpr int kMostTokens = 9 * 48;  // of a sequence

// Give a model Packed weights: numbers or, if it gets sizes that are multiples of 32, blocks.
void pack_weights(Options& options) {
  static const char* const kNumbers[] = {"float32", "float16", "bfloat16"};
  static const char* const kBlocks[] = {"q8_0",           "q4_0",           "q4_1",   "q5_0",   "q5_1",    "iq4_nl",
                                        "mxfp4",          "nvfp4",          "f8.g32", "nf4.g16", "fp4.g32",
                                        "u2.g16.float32", "u3.g32.float16", "u8.g16.bfloat16"};
  const bool has_blocks = one_in(2);
  const std::string kind = has_blocks ? kBlocks[between(0, 13)] : kNumbers[between(0, 2)];
  options.kind_of = [kind](const std::string&) { return kind; };
  if (!has_blocks) return;
  options.plan.hidden_size = 32 * between(1, 20);
  for (LayerPlan& layer : options.layers) {
    if (layer.attention.num_heads > 0) layer.attention.head_dim = 32 * between(1, 3);
    if (layer.latent.kv_rank > 0) {
      layer.latent.value_dim = 32 * between(1, 2);
      if (layer.latent.query_rank > 0) layer.latent.query_rank = 32 * between(1, 3);
    }
    if (layer.has_recurrent()) {
      RecurrentPlan& recurrent = layer.recurrent;
      recurrent.value_dim = recurrent.norm_size = 32 * between(1, 3);
      if (recurrent.is_mamba()) recurrent.step_rank = 32 * between(1, 2);
    }
    if (layer.experts.num_experts > 0) {
      layer.experts.width = 32 * between(1, 10);
      if (layer.experts.shared_width > 0) layer.experts.shared_width = 32 * between(1, 3);
    } else if (layer.feed_forward.width > 0) {
      layer.feed_forward.width = 32 * between(1, 20);
    }
    layer.attention.rotary = -1;
  }
}

// Give some layers the keys of earlier ones.
void share_keys(Options& options) {
  for (size_t i = 1; i < options.layers.size(); ++i) {
    const int back = between(1, static_cast<int>(i));
    const AttentionPlan& other = options.layers[i - static_cast<size_t>(back)].attention;
    LayerPlan& layer = options.layers[i];
    if (layer.attention.num_heads == 0 || other.num_heads == 0 || other.keys_back > 0 || !one_in(2)) continue;
    const bool has_sinks = layer.attention.has_sinks;
    layer.attention = other;
    layer.attention.num_heads = other.num_kv_heads * between(1, 5);
    layer.attention.has_gate = false;
    layer.attention.has_sinks = has_sinks;
    layer.attention.keys_back = back;
  }
}

// Give a model with a head the parts that Gemma 3n and 4 have.
void add_gemma_parts(Options& options) {
  const bool is_rms = options.plan.norm_kind == NormKind::Rms;
  for (LayerPlan& layer : options.layers) {
    AttentionPlan& attention = layer.attention;
    layer.has_scale = one_in(3);
    attention.norms_values = attention.num_heads > 0 && is_rms && one_in(3);
    attention.values_are_keys = attention.num_heads > 0 && !attention.has_gate && one_in(3);
    DensePlan& dense = layer.feed_forward;
    dense.is_sparse = dense.width > 0 && dense.is_gated && !layer.has_inner_norm && one_in(2);
    dense.cutoff = one_in(2) ? 1.0f : -0.5f;
    if (layer.has_attention_output_norm && layer.latent.kv_rank == 0 && is_rms && one_in(2))
      layer.laurel_rank = between(1, 80);
  }
  for (LayerPlan& layer : options.layers) {
    const bool is_simple = !layer.is_parallel && layer.laurel_rank == 0;
    if (layer.has_attention_norm && is_simple && layer.has_attention() != layer.has_recurrent() && one_in(3))
      layer.attention_residual_multiplier = 1.5f;
    if (layer.has_mlp_norm && is_simple && layer.has_feed_forward() && !layer.has_both() && one_in(3))
      layer.mlp_residual_multiplier = 0.5f;
  }
  share_keys(options);
  if (!is_rms || options.type == Type::Packed) return;
  if (one_in(2)) {
    options.plan.layer_input_width = between(1, 40);
    options.plan.num_layer_inputs = between(1, 100);
    options.plan.layer_input_activation = static_cast<Activation>(between(0, 4));
  }
  if (one_in(2)) {
    for (LayerPlan& layer : options.layers) layer.attention_residual_multiplier = layer.mlp_residual_multiplier = 0;
    options.plan.num_extra_streams = between(1, 7);
    options.plan.scales_corrected = one_in(2);
  }
}

Options random_options() {
  Options options;
  const NormKind norm = one_in(2) ? NormKind::Rms : NormKind::Layer;
  const bool has_head = !one_in(3);
  options.plan = {between(1, 90),
                  between(1, 70),
                  between(1, 3),
                  norm,
                  1e-6f,
                  norm == NormKind::Layer && one_in(2),
                  one_in(2) ? 1.0f : 3.0f,
                  one_in(2) ? 1.0f : 0.5f,
                  one_in(2) ? 1.0f : 0.1f,
                  one_in(3) ? 20.0f : 0.0f,
                  has_head && one_in(2),
                  has_head && one_in(4),
                  has_head,
                  has_head || one_in(2),
                  one_in(4),
                  has_head || one_in(2) ? 0 : kMostTokens + 2,
                  0,
                  has_head || one_in(2) ? 0 : between(1, 3)};
  if (options.plan.num_positions > 0) options.plan.first_position = between(0, 2);
  for (int i = between(0, 3); i > 0; --i)
    options.rotary.push_back({std::vector<float>(static_cast<size_t>(between(0, 40)), 0.1f), 1});
  options.type = static_cast<Type>(between(0, 4));
  options.cache_type = static_cast<Stored>(between(0, 3));
  while (static_cast<int>(options.layers.size()) < options.plan.num_layers) {
    const LayerPlan layer = random_layer(options);
    if (!layer.has_both() || options.type != Type::Packed) options.layers.push_back(layer);
  }
  for (const LayerPlan& layer : options.layers)
    if (layer.latent.kv_rank > 0 && options.cache_type == Stored::Int8) options.cache_type = Stored::BFloat16;
  if (options.type == Type::Packed)
    pack_weights(options);
  else if (options.plan.has_head && one_in(2))
    add_gemma_parts(options);
  options.num_threads = between(1, 4);
  do {
    options.set = &instruction_sets()[between(0, static_cast<int>(instruction_sets().size()) - 1)];
  } while (!options.set->is_runnable);
  return options;
}

// Visits the fields of a plan's parts with `Visitor`, which derives from it.
template <class Visitor>
struct Parts {
  template <class Part>
  void optional(const char*, Part& field) {
    if (field.num_heads == 0)
      field = {};
    else
      each_field(field, static_cast<Visitor&>(*this));
  }
  void optional(const char*, ExpertsPlan&) {}  // read with the feed-forward part
  void either(const char*, const char*, LatentPlan& latent, AttentionPlan& attention) {
    if (latent.kv_rank > 0)
      each_field(latent, static_cast<Visitor&>(*this));
    else
      optional("", attention);
  }
  void either(const char*, const char*, ExpertsPlan& experts, DensePlan& dense) {
    if (experts.num_experts != 0) each_field(experts, static_cast<Visitor&>(*this));
    if (dense.width != 0)
      each_field(dense, static_cast<Visitor&>(*this));
  }
};

// Changes some fields; a plan whose numbers are within their ranges is then rejected, or fits.
struct Spoiler : Parts<Spoiler> {
  void number(const char*, int& field, double, double) {
    if (one_in(6)) field = between(-1, 40);
  }
  void number(const char*, float& field, double, double) {
    if (one_in(6)) field = 0.5f * static_cast<float>(between(-2, 4));
  }
  void flag(const char*, bool& field) { field ^= one_in(6); }
  template <class Choice, size_t Count>
  void choice(const char*, Choice& field, const char* const (&)[Count]) {
    if (one_in(6)) field = static_cast<Choice>(between(0, static_cast<int>(Count) - 1));
  }
};

// The ranges of numbers, which the reader of plans checks.
struct Ranges : Parts<Ranges> {
  bool are_kept = true;
  template <class Value>
  void number(const char*, Value& field, double least, double most) {
    are_kept &= static_cast<double>(field) >= least && static_cast<double>(field) <= most;
  }
  void flag(const char*, bool&) {}
  template <class Choice, size_t Count>
  void choice(const char*, Choice&, const char* const (&)[Count]) {}
};

}  // namespace

Options valid_options(int& num_rejected) {
  for (;;) {
    Options options = random_options();
    if (options.type == Type::Packed || !one_in(3)) return options;
    Spoiler spoiler;
    Ranges ranges;
    each_field(options.plan, spoiler);
    each_field(options.plan, ranges);
    for (LayerPlan& layer : options.layers) {
      each_field(layer, spoiler);
      each_field(layer, ranges);
    }
    try {
      if (!ranges.are_kept) throw BadArgument("a number is out of its range");
      check_plan(options);
      return options;
    } catch (const BadArgument&) {
      ++num_rejected;
    }
  }
}

}  // namespace sluice
