#include "layers/expert_layer.h"

#include <algorithm>

#include "model/model.h"
#include "weights/packed.h"

namespace sluice {

namespace {

void require(bool is_valid, const std::string& field, const std::string& rule) {
  if (!is_valid) throw BadArgument(field + " must " + rule);
}

}  // namespace

void check_experts(const ExpertsPlan& plan, const std::string& at) {
  require(plan.num_groups <= plan.num_experts && plan.num_experts % plan.num_groups == 0, at + "num_groups",
          "divide num_experts");
  require(plan.num_chosen_groups <= plan.num_groups, at + "num_chosen_groups", "be at most num_groups");
  const int group_size = plan.num_experts / plan.num_groups;
  require(!plan.adds_two || group_size > 1, at + "adds_two", "be false for groups of one expert");
  require(plan.num_chosen <= group_size * plan.num_chosen_groups, at + "num_chosen",
          "be at most the number of experts in the chosen groups");
  require(plan.activation != Activation::Xielu, at + "activation", "not be xielu for experts");
  require(plan.is_gated || plan.swiglu_limit == 0, at + "swiglu_limit", "be 0 for experts without a gate");
  require(!plan.has_shared_gate || plan.shared_width > 0, at + "has_shared_gate", "be false without a shared_width");
}

ExpertLayer::ExpertLayer(const ExpertsPlan& plan, Type type, int hidden_size) : matrices(plan.num_matrices()) {
  experts.plan = plan;
  experts.router = plan_matrix(Type::Float32, plan.num_router_rows(), hidden_size);
  for (int i = 0; i < plan.num_matrices(); ++i) {
    const int width = i < plan.num_experts ? plan.width : plan.shared_width;
    matrices[i].gate_up = plan_matrix(type, plan.is_gated ? 2 * groups_of(width) * kRows : width, hidden_size);
    matrices[i].down = plan_matrix(type, hidden_size, width);
  }
  experts.experts = matrices.data();
}

void add_expert_tensors(Experts& experts, int hidden_size, const std::string& prefix, std::vector<Tensor>& tensors) {
  const ExpertsPlan& plan = experts.plan;
  const auto vector = [&](const std::string& name, float* at, int first, int count, RowOrder order) {
    if (at != nullptr) tensors.push_back({prefix + name, {nullptr, at, first, count, order}});
  };
  const auto rows = [&](const std::string& name, Matrix& matrix, int first, int count, RowOrder order) {
    tensors.push_back({prefix + name + ".weight", {&matrix, nullptr, first, count, order}});
    vector(name + ".bias", matrix.bias, first, count, order);
  };
  tensors.push_back({prefix + "mlp.gate.weight", {&experts.router, nullptr, 0, plan.num_experts, RowOrder::Plain}});
  vector("mlp.gate.bias", experts.router.bias, 0, plan.num_experts, RowOrder::Plain);
  vector("mlp.gate.norm", experts.router_norm.weight, 0, hidden_size, RowOrder::Plain);
  vector("mlp.gate.scales", experts.scales, 0, plan.num_experts, RowOrder::Plain);
  vector("mlp.gate.e_score_correction_bias", experts.correction, 0, plan.num_experts, RowOrder::Plain);
  if (plan.has_shared_gate)
    tensors.push_back({prefix + "mlp.shared_expert_gate.weight",
                       {&experts.router, nullptr, plan.num_experts, 1, RowOrder::Plain}});
  for (int i = 0; i < plan.num_matrices(); ++i) {
    const bool is_shared = i == plan.num_experts;
    const std::string name = is_shared ? "mlp.shared_expert." : "mlp.experts." + std::to_string(i) + ".";
    const int width = is_shared ? plan.shared_width : plan.width;
    if (plan.is_gated) rows(name + "gate_proj", experts.experts[i].gate_up, 0, width, RowOrder::Gate);
    rows(name + "up_proj", experts.experts[i].gate_up, 0, width, plan.is_gated ? RowOrder::Up : RowOrder::Plain);
    rows(name + "down_proj", experts.experts[i].down, 0, hidden_size, RowOrder::Plain);
  }
}

void ExpertBuffers::include(const ExpertsPlan& plan) {
  most_.num_experts = std::max(most_.num_experts, plan.num_router_rows());
  most_.num_chosen = std::max(most_.num_chosen, plan.num_chosen);
  most_.width = std::max({most_.width, plan.width, plan.shared_width});
  most_.shared_width = std::max(most_.shared_width, plan.shared_width);
}

const Routing* ExpertBuffers::reserve(const Step& step, size_t num_rows) {
  if (most_.num_experts == 0) return nullptr;
  if (num_rows <= reserved_rows_) return &routing_;
  const size_t routed = num_rows * static_cast<size_t>(most_.num_chosen);
  const size_t entries = routed + (most_.shared_width > 0 ? num_rows : 0);
  const size_t inputs = static_cast<size_t>(step.input_stride);
  Routing& to = routing_;
  // Scores over the chosen experts need as many elements as there are chosen ones, in groups of 16.
  to.logits_stride = groups_of(std::max(most_.num_experts, most_.num_chosen)) * kRows;
  to.chosen_stride = most_.num_chosen + 1;  // and the shared expert
  to.inner_stride = padded(most_.width) % 1024 == 0 ? padded(most_.width) + kPad : padded(most_.width);
  if (step.weights->type == Type::Packed) to.inner_stride = packed_stride(most_.width);
  const size_t logits = static_cast<size_t>(to.logits_stride), chosen = static_cast<size_t>(to.chosen_stride);
  const size_t inner = static_cast<size_t>(to.inner_stride), experts = static_cast<size_t>(most_.num_experts);
  // Elements are as large as Float32's, the largest type of inputs; memory that isn't touched isn't allocated.
  const auto each_buffer = [&](const auto& want) {
    want(to.logits, num_rows * logits * 4);
    want(to.scores, num_rows * logits * 4);
    want(to.chosen, num_rows * chosen * 4);
    want(to.weights, num_rows * chosen * 4);
    want(to.inputs, num_rows * inputs * 4);
    want(to.input_scales, num_rows * 4);
    want(to.gathered, routed * inputs * 4);
    want(to.gathered_scales, routed * 4);
    want(to.row_of_entry, entries * 4);
    want(to.weight_of_entry, entries * 4);
    want(to.parts, (experts + 1) * sizeof(ExpertPart));
    want(to.counts, experts * 4);
    want(to.num_parts, 4);
    want(to.wide_inner, entries * inner * 4);
    want(to.inner, entries * inner * 4);
    want(to.inner_scales, entries * 4);
    want(to.sums, num_rows * static_cast<size_t>(step.residual_stride) * 4);
  };
  size_t bytes = 0;
  each_buffer([&](auto*&, size_t size) { bytes += round_up(size, 64); });
  memory_ = Arena();
  memory_ = Arena(bytes);
  uint8_t* memory = memory_.data();
  each_buffer([&]<class T>(T*& pointer, size_t size) {
    pointer = static_cast<T*>(static_cast<void*>(memory));
    memory += round_up(size, 64);
  });
  reserved_rows_ = num_rows;
  return &routing_;
}

}  // namespace sluice
