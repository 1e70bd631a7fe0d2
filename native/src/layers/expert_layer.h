// The experts of a model's layers: their matrices, the names of their tensors, and the buffers of a step.
#pragma once

#include <string>
#include <vector>

#include "layers/experts.h"
#include "machine/arena.h"
#include "weights/destination.h"

namespace sluice {

// Throws BadArgument, whose text begins with the field's name after `at`, unless the fields of the plan fit each other.
void check_experts(const ExpertsPlan& plan, const std::string& at);

// The experts of one layer. Not copyable, since `experts` points to the matrices.
struct ExpertLayer {
  Experts experts;
  std::vector<Expert> matrices;

  // Set the sizes of all matrices, without memory.
  ExpertLayer(const ExpertsPlan& plan, Type type, int hidden_size);
  ExpertLayer(const ExpertLayer&) = delete;
  ExpertLayer& operator=(const ExpertLayer&) = delete;
};

// Call vector(pointer to a float vector, its size) and matrix(matrix, has bias) for everything in the weights' memory.
template <class OnVector, class OnMatrix>
void each_expert_part(Experts& experts, OnVector vector, OnMatrix matrix) {
  const ExpertsPlan& plan = experts.plan;
  if (plan.has_router_norm) vector(experts.router_norm.weight, padded(experts.router.cols));
  if (plan.has_expert_scales) vector(experts.scales, plan.num_experts);
  matrix(experts.router, plan.has_router_bias);
  if (plan.has_correction) vector(experts.correction, plan.num_experts);
  for (int i = 0; i < plan.num_matrices(); ++i) {
    const bool has_bias = plan.has_bias && i < plan.num_experts;
    matrix(experts.experts[i].gate_up, has_bias);
    matrix(experts.experts[i].down, has_bias);
  }
}

// Add the tensors of a layer's experts, whose names begin with `prefix`.
void add_expert_tensors(Experts& experts, int hidden_size, const std::string& prefix, std::vector<Tensor>& tensors);

// The buffers of a step's experts, which all layers share.
class ExpertBuffers {
 public:
  // Grow the sizes that buffers need per row to those of a layer.
  void include(const ExpertsPlan& plan);

  // Allocate buffers for a step's rows, whose strides are set. Null if no layer has experts. The result is valid until
  // the next call.
  const Routing* reserve(const Step& step, size_t num_rows);

 private:
  ExpertsPlan most_{};  // of each size, the largest
  size_t reserved_rows_ = 0;
  Routing routing_{};
  Arena memory_;
};

}  // namespace sluice
