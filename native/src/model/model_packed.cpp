// The part of a model that is about packed weights: the formats of its matrices, and their load.
#include "model/model.h"

namespace sluice {

void Model::assign_kinds() {
  const std::vector<Tensor> tensors = tensors_of(options_.plan, weights_, rows_, layers_);
  const auto each = [&](const auto& body) {
    for (const Tensor& tensor : tensors) {
      const Destination& to = tensor.destination;
      if (to.matrix == nullptr || to.matrix->type != Type::Packed) continue;
      body(tensor.name, to, kinds_.at(tensor.name));
    }
  };
  for (const Tensor& tensor : tensors) {
    if (tensor.destination.matrix == nullptr || tensor.destination.matrix->type != Type::Packed) continue;
    const std::string kind = options_.kind_of(tensor.name);
    kinds_[tensor.name] = find_packed_kind(kind);
    if (kinds_[tensor.name] == nullptr) throw BadArgument("kinds: " + tensor.name + " has the unknown format " + kind);
  }
  options_.kind_of = nullptr;
  each([&](const std::string& name, const Destination& to, const PackedKind* kind) {
    if (to.matrix->cols % kind->block != 0)
      throw BadArgument("kinds: the rows of " + name + " must have a multiple of " + std::to_string(kind->block) +
                        " columns, not " + std::to_string(to.matrix->cols));
    packed_groups_.assign(*to.matrix, to.order, to.first, to.count, kind);
  });
  each([&](const std::string& name, const Destination& to, const PackedKind* kind) {
    if (!PackedGroups::are_whole(to.order, to.first, to.count, *to.matrix, kind))
      throw BadArgument("kinds: " + name + " shares 16 rows with a tensor of another format");
  });
}

void Model::set_order(const Destination& to, const std::string& name, const int32_t* order, size_t num_inputs) {
  Matrix& matrix = *to.matrix;
  std::vector<int32_t> given;
  if (order != nullptr) {
    if (num_inputs != static_cast<size_t>(matrix.cols))
      throw BadArgument("order: " + name + " has " + std::to_string(matrix.cols) + " inputs, not " +
                        std::to_string(num_inputs));
    if (!can_have_order(to.product))
      throw BadArgument("order: " + name +
                        " can have none; matrices of attention and of dense parts, and outputs of recurrent parts can");
    given.assign(order, order + num_inputs);
    std::vector<bool> is_met(num_inputs);
    for (const int32_t input : given) {
      if (input < 0 || input >= matrix.cols || is_met[input])
        throw BadArgument("order: that of " + name + " must have each input once");
      is_met[input] = true;
    }
  }
  const auto [found, is_new] = orders_.emplace(&matrix, given);
  if (!is_new && found->second != given)
    throw BadArgument("order: " + name + " has another one than a tensor of the same matrix");
  if (!is_new || given.empty()) return;
  matrix.order = found->second.data();
  reserved_rows_ = 0;  // the buffers of a step get larger
}

void Model::load_blocks(const std::string& name, const uint8_t* blocks, size_t num_rows, size_t row_bytes,
                        const int32_t* order, size_t num_inputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t index = index_of(name);
  const Destination& to = tensors_[index].destination;
  if (to.matrix == nullptr || to.matrix->type != Type::Packed) throw BadArgument("name: " + name + " is not packed");
  const size_t expected = packed_row_bytes(*kinds_.at(name), to.matrix->cols);
  if (num_rows != static_cast<size_t>(to.count) || row_bytes != expected)
    throw BadArgument("blocks: " + name + " must have the shape [" + std::to_string(to.count) + ", " +
                      std::to_string(expected) + "]");
  set_order(to, name, order, num_inputs);
  pack_in_chunks(to.count,
                 [&](int begin, int end) { pack_block_rows(*to.matrix, to.first, to.order, blocks, begin, end); });
  wanted_.erase(index);
}

}  // namespace sluice
