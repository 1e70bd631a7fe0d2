// Attention over latents in a model's layers: the sizes of matrices, the names of tensors, and the buffers of a step.
#pragma once

#include <string>
#include <vector>

#include "layers/latents.h"
#include "machine/arena.h"
#include "weights/destination.h"

namespace sluice {

// The width of a row that holds the results of the products of latents and queries; each begins at any column, and is
// stored in groups of 16.
int wide_width(const LatentPlan& plan);

// The number of rows, rounded up to whole groups.
inline int rounded_to_groups(int rows) { return groups_of(rows) * kRows; }

// Set the sizes of all matrices, without memory. `type` is the type of the layer's other weights.
void plan_latent(const LatentPlan& plan, Type type, Latent& latent);

// Call vector(pointer to a float vector, its size) and matrix(matrix, has bias) for everything in the weights' memory.
template <class OnVector, class OnMatrix>
void each_latent_part(const LatentPlan& plan, Latent& latent, OnVector vector, OnMatrix matrix) {
  vector(latent.norm.weight, padded(plan.kv_rank));
  if (plan.query_rank > 0) {
    vector(latent.query_norm.weight, padded(plan.query_rank));
    matrix(latent.query_up, false);
  }
  matrix(latent.absorb, false);
  matrix(latent.value_up, false);
}

// Add the tensors of a layer's attention but those of its output, whose names begin with `prefix`.
void add_latent_tensors(Layer& layer, int number, const std::string& prefix, std::vector<Tensor>& tensors);

// Pack the product that expands latents, of the shape [heads * (key_dim + value_dim), kv_rank].
void pack_latent_up(const LatentPlan& plan, Latent& latent, const void* data, Stored stored);

// The buffers of a step, which all layers share.
class LatentBuffers {
 public:
  // Grow the sizes that buffers need per row to those of a layer.
  void include(const LatentPlan& plan, const Latent& latent);

  // Allocate buffers for a step's rows. Null if no layer has latents. The result is valid until the next call.
  const LatentRows* reserve(size_t num_rows);

 private:
  int query_width_ = 0, low_width_ = 0;
  size_t reserved_rows_ = 0;
  LatentRows rows_{};
  Arena memory_;
};

}  // namespace sluice
