#include "layers/latent_adapter.h"

#include "layers/latent_layer.h"

namespace sluice {

namespace {

constexpr int kRankMultiple = 32;  // columns of packed matrices, in every type

// A matrix of floats that is packed with a padded size.
struct Rows {
  int num_rows, num_columns;
  std::vector<float> numbers;
  Rows(int rows, int columns)
      : num_rows(rows), num_columns(columns), numbers(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}
  float& at(int row, int column) { return numbers[static_cast<size_t>(row) * num_columns + column]; }
  void pack(Matrix& to, int first) const {
    pack_rows(to, first, RowOrder::Plain, numbers.data(), Stored::Float32, 0, num_rows);
  }
};

}  // namespace

void plan_latent_low_rank(const LatentPlan& plan, Type type, int rank, LatentLowRank& to) {
  to.rank = (rank + kRankMultiple - 1) / kRankMultiple * kRankMultiple;
  to.query_down = plan_matrix(type, plan.num_heads * to.rank, plan.key_dim);
  to.query_up = plan_matrix(type, rounded_to_groups(plan.kv_rank), to.rank);
  to.value_down = plan_matrix(type, to.rank, plan.kv_rank);
  to.value_up = plan_matrix(type, plan.num_heads * rounded_to_groups(plan.value_dim), to.rank);
}

void pack_latent_low_rank(const LatentPlan& plan, const AdaptedModule& module, LatentLowRank& to) {
  const int rank = module.rank, width = plan.key_dim + plan.value_dim;
  const auto down = [&](int row, int column) { return module.down[static_cast<size_t>(row) * plan.kv_rank + column]; };
  const auto up = [&](int row, int column) { return module.up[static_cast<size_t>(row) * rank + column]; };
  Rows transposed(plan.kv_rank, to.rank), kept(to.rank, plan.kv_rank);
  for (int i = 0; i < rank; ++i)
    for (int column = 0; column < plan.kv_rank; ++column) transposed.at(column, i) = kept.at(i, column) = down(i, column);
  transposed.pack(to.query_up, 0);
  kept.pack(to.value_down, 0);
  for (int head = 0; head < plan.num_heads; ++head) {
    Rows keys(to.rank, plan.key_dim), values(plan.value_dim, to.rank);
    for (int i = 0; i < rank; ++i) {
      for (int row = 0; row < plan.key_dim; ++row) keys.at(i, row) = up(head * width + row, i);
      for (int row = 0; row < plan.value_dim; ++row) values.at(row, i) = up(head * width + plan.key_dim + row, i);
    }
    keys.pack(to.query_down, head * to.rank);
    values.pack(to.value_up, head * rounded_to_groups(plan.value_dim));
  }
}

}  // namespace sluice
