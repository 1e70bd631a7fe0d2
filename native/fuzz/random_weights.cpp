#include "random_weights.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "chance.h"

namespace sluice {

namespace {

using Orders = std::unordered_map<const Matrix*, std::vector<int32_t>>;

// Return the order of the inputs of a tensor's matrix, which is the same for all of the matrix' tensors; empty: none.
const std::vector<int32_t>& order_of(const Destination& to, Orders& orders) {
  const auto [found, is_new] = orders.try_emplace(to.matrix);
  if (!is_new || !can_have_order(to.product) || one_in(2)) return found->second;
  found->second.resize(static_cast<size_t>(to.matrix->cols));
  std::iota(found->second.begin(), found->second.end(), 0);
  std::shuffle(found->second.begin(), found->second.end(), random_bits);
  return found->second;
}

}  // namespace

void load_all(Model& model) {
  Orders orders;
  for (const auto& [name, destination] : model.tensors()) {
    StoredTensor tensor{nullptr, static_cast<Stored>(between(0, 2)), Model::shape_of(destination)};
    size_t count = 1;
    for (const size_t size : tensor.shape) count *= size;
    if (destination.matrix != nullptr && destination.matrix->type == Type::Packed) {
      const PackedKind& kind = *destination.matrix->packed[target_row(destination.order, destination.first) / 16].kind;
      const size_t row_bytes = packed_row_bytes(kind, destination.matrix->cols);
      std::vector<uint8_t> blocks(row_bytes * tensor.shape[0]);
      for (uint8_t& value : blocks) value = static_cast<uint8_t>(between(0, 255));
      const std::vector<int32_t>& order = order_of(destination, orders);
      model.load_blocks(name, blocks.data(), tensor.shape[0], row_bytes, order.empty() ? nullptr : order.data(),
                        order.size());
      continue;
    }
    std::vector<float> floats(tensor.stored == Stored::Float32 ? count : 0);
    std::vector<uint16_t> halves(tensor.stored == Stored::Float32 ? 0 : count);
    for (float& value : floats) value = std::normal_distribution<float>(0, one_in(1000) ? 1e30f : 0.1f)(random_bits);
    for (uint16_t& value : halves) value = static_cast<uint16_t>(between(0, 0xffff));  // includes NaNs
    tensor.data = floats.empty() ? static_cast<const void*>(halves.data()) : floats.data();
    model.load(name, tensor);
  }
}

void put_random_adapter(Model& model, int slot) {
  std::vector<std::vector<float>> matrices;
  std::vector<GivenLowRank> modules;
  for (const auto& [name, destination] : model.tensors()) {
    const std::vector<size_t> shape = Model::shape_of(destination);
    if (shape.size() != 2 || destination.layer < 0 || one_in(2)) continue;
    const int rank = between(1, 40);
    for (const size_t count : {rank * shape[1], rank * shape[0]}) {
      matrices.emplace_back(count);
      for (float& value : matrices.back()) value = std::normal_distribution<float>(0, 0.1f)(random_bits);
    }
    modules.push_back({name.substr(0, name.rfind('.')), rank, shape[1], shape[0], matrices[matrices.size() - 2].data(),
                       matrices.back().data()});
  }
  model.put_adapter(slot, modules);
}

}  // namespace sluice
