// A decoder's or encoder's plan: what is computed, without weights. Plain data without behaviour, so that the kernels
// can include it. plan_fields.h lists the fields with their ranges, and plan.cpp checks that they fit each other.
#pragma once

#include <cstddef>

namespace sluice {

inline constexpr int padded_to_16(int width) { return (width + 15) / 16 * 16; }

enum class NormKind : int { Rms, Layer };

// The norms of queries and keys: of each head with the same weights or with its own, or of all heads together.
enum class HeadNorm : int { None, Head, Heads, Whole };

enum class Activation : int { Silu, Gelu, GeluTanh, Relu, SquaredRelu, Xielu };

struct AttentionPlan {
  int num_heads, num_kv_heads, head_dim;
  int window;      // a token attends to keys nearer than this, also to later ones unless it is causal; 0: to all
  int rotary;      // index of the rotary table; -1: queries and keys are not rotated
  float scale;     // on scores
  float soft_cap;  // scores become soft_cap * tanh(score / soft_cap); 0: unchanged
  float clip;      // queries, keys and values are limited to [-clip, clip]; 0: unlimited
  HeadNorm head_norm;
  bool has_head_norm_bias;
  bool norms_rotated;  // the head norm follows the rotation
  bool has_qkv_bias, has_output_bias;
  bool has_sinks;  // each head has a logit that takes part in the softmax and has no value
  bool has_gate;   // each number of a head's result is multiplied by the sigmoid of a projected one
  float output_multiplier;
  // Queries at position p are multiplied by 1 + growth * log(1 + floor(p / growth_period)); 0: unchanged.
  float growth;
  int growth_period;
  bool is_causal;  // a token attends to no later one
  bool norms_values;     // the values of each head are divided by their root mean square
  bool values_are_keys;  // values are the projected keys, before their norm and rotation
  int keys_back;         // keys and values are those of the layer this many before; 0: the layer has its own

  int padded_head_dim() const { return padded_to_16(head_dim); }
  int group_size() const { return num_heads / num_kv_heads; }
  int query_width() const { return num_heads * head_dim; }
  int key_width() const { return num_kv_heads * head_dim; }
  int qkv_width() const { return (has_gate ? 2 : 1) * query_width() + 2 * key_width(); }
  int gate_column() const { return query_width() + 2 * key_width(); }
  // The rows of the product that gives queries, keys and values; those that it doesn't give follow in qkv_width().
  int projected_width() const {
    if (keys_back > 0) return query_width();
    return qkv_width() - (values_are_keys ? key_width() : 0);
  }
};

// ShortConvolution (LFM2): projects b, c and x, and computes c * convolution(b * x).
// DeltaNet: convolves queries, keys and values. A head's state decays, is corrected towards the value at the key, and is
// read at the query: Yang et al., Gated Delta Networks (2024).
// Mamba2: convolves values, keys (B) and queries (C). A head's state decays, value times key times a step is added, and
// it is read at the query: Dao, Gu, Transformers are SSMs (2024).
// Mamba: convolves values. Their projection gives keys (B), queries (C) and, by a second product, each channel's step.
// The numbers of a channel's state decay at rates of their own: Gu, Dao, Mamba (2023).
// Lightning: applies SiLU to queries, keys and values. A head's state decays by a constant, value times key is added, and
// it is read at the query: Qin et al., Lightning Attention-2 (2024).
enum class Recurrence : int { ShortConvolution, DeltaNet, Mamba2, Mamba, Lightning };

// How the results of a recurrence are gated by silu(z), of Lightning by sigmoid(z), and RMS-normalized.
enum class GateNorm : int { None, NormFirst, GateFirst };

// A mixer whose state has the same size at each position. A head's state is a matrix [key_dim, value_dim].
struct RecurrentPlan {
  int num_heads;  // 0: the layer has no recurrent part
  Recurrence kind;
  int num_key_heads;  // each is shared by consecutive heads; 0 for ShortConvolution
  int key_dim;        // 0 for ShortConvolution
  int value_dim;      // of a head; of ShortConvolution, the number of channels
  int taps;           // tokens that the convolution sees, including the present one
  bool has_convolution_bias, has_input_bias, has_output_bias;
  GateNorm gate_norm;
  int norm_size;                // numbers that are normalized together
  float norm_epsilon;           // of this norm; 0: that of the decoder's norms
  float slope;                  // of Lightning, whose head h decays by exp(-slope * 2 ** (-8 * (h + 1) / num_heads))
  float least_step, most_step;  // limits of Mamba2's steps
  int step_rank;                // of Mamba, the inputs of the product that gives steps; 0 for others
  bool has_parameter_norms;     // of these inputs, of Mamba's keys and of its queries
  float parameter_epsilon;      // of these norms
  // On Mamba2's projected columns, and on the results.
  float gate_multiplier, value_multiplier, key_multiplier, query_multiplier, step_multiplier, output_multiplier;

  int inner_width() const { return num_heads * value_dim; }
  int keys_width() const { return num_key_heads * key_dim; }
  bool is_mamba() const { return kind == Recurrence::Mamba; }
  bool is_lightning() const { return kind == Recurrence::Lightning; }
  // The columns begin with queries, keys, values and gates, in this order.
  bool begins_with_queries() const { return kind == Recurrence::DeltaNet || is_lightning(); }
  // The convolved columns of the projected ones, which are adjacent.
  int convolved_width() const {
    const bool has_values_only = kind == Recurrence::ShortConvolution || is_mamba();
    return has_values_only ? inner_width() : inner_width() + 2 * keys_width();
  }
  // The columns of the projection: b, c, x; or queries, keys, values, z, beta, decay; or z, values, keys, queries, step;
  // or values, z; or queries, keys, values, z.
  int input_width() const {
    if (kind == Recurrence::ShortConvolution) return 3 * inner_width();
    if (is_mamba()) return 2 * inner_width();
    const int num_steps = is_lightning() ? 0 : kind == Recurrence::DeltaNet ? 2 : 1;
    return 2 * inner_width() + 2 * keys_width() + num_steps * num_heads;
  }
  // The results of Mamba's second projection: the inputs of the product that gives steps, keys and queries.
  int parameters_width() const { return step_rank + 2 * key_dim; }
  int parameters_column() const { return padded_to_16(input_width()); }
  // The projected columns and those that are computed from them.
  int wide_width() const {
    if (is_mamba()) return step_column() + padded_to_16(inner_width());
    return input_width() + (kind == Recurrence::Mamba2 ? num_heads : 0);
  }
  int convolved_column() const {
    if (kind == Recurrence::ShortConvolution) return 2 * inner_width();
    return kind == Recurrence::Mamba2 ? inner_width() : 0;
  }
  int value_column() const {
    if (is_mamba()) return 0;
    return begins_with_queries() ? 2 * keys_width() : inner_width();
  }
  int key_column() const {
    if (is_mamba()) return parameters_column() + step_rank;
    return begins_with_queries() ? keys_width() : 2 * inner_width();
  }
  int query_column() const { return begins_with_queries() ? 0 : key_column() + keys_width(); }
  int gate_column() const {
    if (is_mamba()) return inner_width();
    return begins_with_queries() ? 2 * keys_width() + inner_width() : 0;
  }
  int step_column() const {
    return is_mamba() ? parameters_column() + padded_to_16(parameters_width()) : 2 * inner_width() + 2 * keys_width();
  }
  // Numbers of a sequence's state: the convolution's earlier inputs, and the matrices of the heads.
  int padded_channels() const { return padded_to_16(convolved_width()); }
  int padded_value_dim() const { return padded_to_16(value_dim); }
  size_t convolution_numbers() const { return static_cast<size_t>(taps - 1) * padded_channels(); }
  size_t head_numbers() const { return static_cast<size_t>(key_dim) * padded_value_dim(); }
  size_t state_numbers() const { return convolution_numbers() + num_heads * head_numbers(); }
};

// Multi-head latent attention (DeepSeek-V2): keys and values of all heads are products of one latent per token, which
// is all that the cache holds, together with a rotated key that the heads share.
struct LatentPlan {
  int num_heads;
  int kv_rank;      // size of a latent; 0: the layer has keys and values of its own
  int query_rank;   // queries are two products with this inner size; 0: one product
  int key_dim;      // of a head's queries and keys that are not rotated
  int rotated_dim;  // of a head's queries and of the shared key
  int value_dim;
  int rotary;          // index of the rotary table; -1: no rotation
  float scale;         // on scores
  float norm_epsilon;  // of the norms of latents and of the queries' inner numbers
  bool has_down_bias;  // of the products that give latents and the queries' inner numbers
  bool has_output_bias;

  int cached_width() const { return kv_rank + rotated_dim; }
  int query_width() const { return num_heads * (key_dim + rotated_dim); }
  int up_width() const { return num_heads * (key_dim + value_dim); }
  int attended_width() const { return num_heads * value_dim; }
};

struct DensePlan {
  int width;
  Activation activation;
  bool is_gated;  // activation(gate * gate_multiplier) * up; otherwise activation(up)
  bool has_bias;
  float gate_multiplier, output_multiplier;
  bool is_sparse;  // a gate becomes relu(gate - mean - cutoff * deviation), with the mean and deviation of all gates
  float cutoff;
};

// How router logits become the scores that choose experts. ChosenSoftmax chooses by logits, and normalizes over the
// chosen experts only.
enum class Scores : int { Softmax, Sigmoid, ChosenSoftmax };

struct ExpertsPlan {
  int num_experts;  // 0: the feed-forward part is dense
  int num_chosen;   // of each row
  int width;        // inner size of an expert
  Activation activation;
  float swiglu_limit, swiglu_alpha;  // gpt-oss: SwiGLU of limited gate and up, plus 1; 0: activation(gate) * up
  bool is_gated;                     // activation(gate) * up; otherwise activation(up)
  bool has_bias;                     // of the experts' matrices
  Scores scores;
  bool has_router_norm;   // the router reads the residual, normalized with weights of its own
  float logit_multiplier;  // on the router's logits
  bool has_router_bias;
  bool has_correction;    // added to the scores for the choice only
  int num_groups;         // of consecutive experts
  int num_chosen_groups;  // whose experts can be chosen
  bool adds_two;          // a group's score is the sum of its two highest scores for the choice; otherwise the highest
  bool is_renormalized;   // the weights of a row are divided by their sum, plus sum_addend and at least least_sum
  float sum_addend, least_sum;
  float scale;       // on the weights of the chosen experts
  bool has_expert_scales;  // the weight of each expert is multiplied by a stored number
  int shared_width;  // inner size of the expert that computes every row; 0: none
  bool has_shared_gate;  // its weight is the sigmoid of a product; otherwise 1

  int num_router_rows() const { return num_experts + (has_shared_gate ? 1 : 0); }
  int num_matrices() const { return num_experts + (shared_width > 0 ? 1 : 0); }
};

struct LayerPlan {
  // A mixer: attention, plain or over latents, or a recurrent part; or plain attention and a recurrent part, which read
  // the same inputs and whose results are added; or none.
  AttentionPlan attention;  // with num_heads 0: none
  LatentPlan latent;        // with kv_rank 0: none
  RecurrentPlan recurrent;  // with num_heads 0: none
  // The feed-forward part is dense or of experts; or there is none. With both, they read the same residual through norms
  // of their own, and their results are normalized, then added.
  DensePlan feed_forward;
  ExpertsPlan experts;
  // Norms of the inputs of the attention's output product, and of the feed-forward part's second product.
  bool has_attended_norm, has_inner_norm;
  // Norms before each part, and of its results before they are added to the residual.
  bool has_attention_norm, has_attention_output_norm, has_mlp_norm, has_mlp_output_norm;
  // Norms of the residual after a part's results were added.
  bool has_attention_sum_norm, has_mlp_sum_norm;
  // The residual becomes its norm before a part, times this number; 0: it stays as it is.
  float attention_residual_multiplier, mlp_residual_multiplier;
  // Both parts read the same residual. Without a norm of its own, the feed-forward part uses attention's.
  bool is_parallel;
  // Gemma 3n: the attention's inputs and the normalized results of two products with this inner size are added to the
  // residual as well, which is then divided by sqrt(2). 0: none.
  int laurel_rank;
  bool has_scale;  // the residual after the layer is multiplied by a stored number

  bool has_attention() const { return attention.num_heads > 0 || latent.kv_rank > 0; }
  bool has_recurrent() const { return recurrent.num_heads > 0; }
  bool stores() const { return (has_attention() && attention.keys_back == 0) || has_recurrent(); }
  bool has_feed_forward() const { return feed_forward.width > 0 || experts.num_experts > 0; }
  bool has_both() const { return feed_forward.width > 0 && experts.num_experts > 0; }
  // Attention as queries meet cached keys. Over latents, all heads share one key: the latent and the rotated key.
  AttentionPlan scores() const {
    if (latent.kv_rank == 0) return attention;
    AttentionPlan plan{};
    plan.num_heads = latent.num_heads;
    plan.num_kv_heads = 1;
    plan.head_dim = latent.cached_width();
    plan.rotary = latent.rotary;
    plan.scale = latent.scale;
    plan.has_qkv_bias = latent.has_down_bias;
    plan.has_output_bias = latent.has_output_bias;
    plan.output_multiplier = 1;
    plan.is_causal = true;
    return plan;
  }
  int attended_width() const { return latent.kv_rank > 0 ? latent.attended_width() : attention.query_width(); }
};

constexpr int kMostStreams = 8;

struct DecoderPlan {
  int vocab_size, hidden_size, num_layers;
  NormKind norm_kind;
  float norm_epsilon;
  bool has_norm_bias;
  float embedding_multiplier, residual_multiplier, logit_multiplier;
  float logit_soft_cap;  // 0: none
  bool is_tied;          // the head's weights are the embedding
  bool has_head_bias;
  bool has_head;         // otherwise the results are states, computed from whole texts without a cache
  bool has_final_norm;
  bool has_embedding_norm;
  int num_positions;     // rows of the table of learned positions, which are added to the embedding; 0: none
  int first_position;    // the row of a text's first token
  int num_types;         // rows of the table of token types; 0: none
  // Gemma 3n's and 4's inputs of layers: each token has a vector of this width for each layer, made of its embedding and
  // of a row of a table. It gates a product of the residual after the layer, whose normalized second product is added to
  // the residual. 0: none.
  int layer_input_width;
  int num_layer_inputs;  // rows of the table; a token beyond it has row 0
  Activation layer_input_activation;
  // Gemma 3n's residuals of a token in addition to the one that layers compute. Before a layer all are predicted from all,
  // and after it they are corrected by what it changed: Baykal et al., Alternating Updates (2023).
  int num_extra_streams;
  bool scales_corrected;  // the corrected residual is multiplied by weights before it meets the inputs of layers

  int num_streams() const { return 1 + num_extra_streams; }
};

}  // namespace sluice
