#include "layers/latent_layer.h"

#include <algorithm>

namespace sluice {

namespace {

// Rows of blocks can't be transposed in their format; their numbers are kept exactly.
Type low_type(Type type) { return type == Type::Float32 || type == Type::Packed ? Type::Float32 : Type::BFloat16; }

}  // namespace

int wide_width(const LatentPlan& plan) {
  const int queries = std::max(rounded_to_groups(plan.query_rank), rounded_to_groups(plan.query_width()));
  return std::max(plan.cached_width() + queries, plan.attended_width());
}

void plan_latent(const LatentPlan& plan, Type type, Latent& latent) {
  if (plan.query_rank > 0) latent.query_up = plan_matrix(type, plan.query_width(), plan.query_rank);
  latent.absorb = plan_matrix(low_type(type), plan.num_heads * rounded_to_groups(plan.kv_rank), plan.key_dim);
  latent.value_up = plan_matrix(low_type(type), plan.num_heads * rounded_to_groups(plan.value_dim), plan.kv_rank);
}

void add_latent_tensors(Layer& layer, int number, const std::string& prefix, std::vector<Tensor>& tensors) {
  const LatentPlan& plan = layer.plan.latent;
  Latent& latent = *layer.latent;
  const auto rows = [&](const std::string& name, Matrix& matrix, Product product, int first, int count, bool has_bias) {
    tensors.push_back({prefix + name + ".weight", {&matrix, nullptr, first, count, RowOrder::Plain, number, product}});
    if (has_bias) tensors.push_back({prefix + name + ".bias", {nullptr, matrix.bias, first, count, RowOrder::Plain}});
  };
  const auto norm = [&](const std::string& name, float* weight, int count) {
    tensors.push_back({prefix + name + ".weight", {nullptr, weight, 0, count, RowOrder::Plain}});
  };
  const int first = plan.cached_width();
  if (plan.query_rank > 0) {
    rows("self_attn.q_a_proj", layer.qkv, kQkv, first, plan.query_rank, plan.has_down_bias);
    norm("self_attn.q_a_layernorm", latent.query_norm.weight, plan.query_rank);
    rows("self_attn.q_b_proj", latent.query_up, kQueryUp, 0, plan.query_width(), false);
  } else {
    rows("self_attn.q_proj", layer.qkv, kQkv, first, plan.query_width(), false);
  }
  rows("self_attn.kv_a_proj_with_mqa", layer.qkv, kQkv, 0, first, plan.has_down_bias);
  norm("self_attn.kv_a_layernorm", latent.norm.weight, plan.kv_rank);
  rows("self_attn.kv_b_proj", latent.value_up, kLatentUp, 0, plan.up_width(), false);
}

void pack_latent_up(const LatentPlan& plan, Latent& latent, const void* data, Stored stored) {
  const int rank = plan.kv_rank, keys = plan.key_dim, values = plan.value_dim;
  std::vector<float> transposed(static_cast<size_t>(rank) * keys);
  for (int head = 0; head < plan.num_heads; ++head) {
    const int first = head * (keys + values);
    for (int key = 0; key < keys; ++key)
      for (int column = 0; column < rank; ++column)
        transposed[static_cast<size_t>(column) * keys + key] =
            read_stored(data, stored, static_cast<size_t>(first + key) * rank + column);
    pack_rows(latent.absorb, head * rounded_to_groups(rank), RowOrder::Plain, transposed.data(), Stored::Float32, 0, rank);
    const int begin = first + keys;  // of the head's values; target rows are those of the head's groups
    pack_rows(latent.value_up, head * rounded_to_groups(values) - begin, RowOrder::Plain, data, stored, begin, begin + values);
  }
}

void LatentBuffers::include(const LatentPlan& plan, const Latent& latent) {
  query_width_ = std::max(query_width_, padded(plan.num_heads * plan.cached_width()));
  const int widest = std::max(padded(latent.absorb.padded_cols), padded(latent.value_up.padded_cols));
  low_width_ = std::max(low_width_, plan.num_heads * widest);
}

const LatentRows* LatentBuffers::reserve(size_t num_rows) {
  if (query_width_ == 0) return nullptr;
  if (num_rows <= reserved_rows_) return &rows_;
  const size_t query_bytes = num_rows * static_cast<size_t>(query_width_) * sizeof(float);
  memory_ = Arena();
  memory_ = Arena(query_bytes + num_rows * static_cast<size_t>(low_width_) * sizeof(float));
  rows_ = {reinterpret_cast<float*>(memory_.data()), query_width_, memory_.data() + query_bytes, low_width_};
  reserved_rows_ = num_rows;
  return &rows_;
}

}  // namespace sluice
