// LoRA adapters' changes of the products that expand latents.
#pragma once

#include "layers/adapter.h"
#include "layers/latents.h"

namespace sluice {

// Set the sizes of the matrices of a module that an adapter changes, without memory.
void plan_latent_low_rank(const LatentPlan& plan, Type type, int rank, LatentLowRank& to);

// Call matrix(matrix) for all matrices.
template <class OnMatrix>
void each_matrix(LatentLowRank& low_rank, OnMatrix matrix) {
  matrix(low_rank.query_down);
  matrix(low_rank.query_up);
  matrix(low_rank.value_down);
  matrix(low_rank.value_up);
}

void pack_latent_low_rank(const LatentPlan& plan, const AdaptedModule& module, LatentLowRank& to);

}  // namespace sluice
