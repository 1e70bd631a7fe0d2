// Attention over latents: its packed weights, and the buffers of a step. Plain data, which the kernels read.
#pragma once

#include "types.h"

namespace sluice {

// The most query heads of a token that are computed together.
constexpr int kLatentHeads = 16;

// The weights of a layer. The layer's `qkv` gives the latent, the shared key, and then the queries or their inner
// numbers. The product that expands latents is divided by heads, and each head's rows begin at a new group. A query is
// multiplied with the part for keys, so that it meets latents; sums of latents are multiplied with the part for values.
// Both parts are Float32 or BFloat16.
struct Latent {
  Matrix query_up;  // query_rank -> heads * (key_dim + rotated_dim)
  Matrix absorb;    // for each head key_dim -> kv_rank
  Matrix value_up;  // for each head kv_rank -> value_dim
  Norm query_norm;  // [query_rank]
  Norm norm;        // [kv_rank]
};

// The buffers of a step, 64-byte aligned. Strides in elements.
struct LatentRows {
  float* queries;  // [tokens][query_stride], for each head the absorbed query and its rotated part
  int query_stride;
  void* low;  // [tokens][low_stride], the inputs of both parts for each head, in the type of their inputs
  int low_stride;
};

}  // namespace sluice
