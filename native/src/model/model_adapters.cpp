// A model's adapters, with the checks of what callers pass.
#include "model/model.h"

namespace sluice {

namespace {

constexpr int kMostRank = 4096;

}  // namespace

void Model::put_adapter(int slot, const std::vector<GivenLowRank>& modules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slot < 0) throw BadArgument("slot must be at least 0");
  std::vector<AdaptedModule> adapted;
  for (size_t i = 0; i < modules.size(); ++i) {
    const GivenLowRank& given = modules[i];
    const std::string at = "modules[" + std::to_string(i) + "]";
    const Destination* destination = find(given.module + ".weight");
    if (destination == nullptr || destination->layer < 0)
      throw BadArgument(at + ": no layer of the model has the module " + given.module);
    const Destination& found = *destination;
    for (const AdaptedModule& other : adapted)
      if (other.destination.matrix == found.matrix && other.destination.first == found.first &&
          other.destination.order == found.order)
        throw BadArgument(at + ": " + given.module + " is given twice");
    const size_t outputs = static_cast<size_t>(found.count), inputs = static_cast<size_t>(found.matrix->cols);
    if (given.outputs != outputs || given.inputs != inputs)
      throw BadArgument(at + ": " + given.module + " has " + std::to_string(inputs) + " inputs and " +
                        std::to_string(outputs) + " outputs, not " + std::to_string(given.inputs) + " and " +
                        std::to_string(given.outputs));
    if (given.rank < 1 || given.rank > kMostRank)
      throw BadArgument(at + ": the rank must be 1 to " + std::to_string(kMostRank));
    adapted.push_back({found, given.rank, given.down, given.up});
  }
  const Type type = options_.type == Type::Float32 ? Type::Float32 : Type::BFloat16;
  adapters_.put(slot, Adapter(type, layers_, adapted));
}

void Model::drop_adapter(int slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!adapters_.drop(slot)) throw BadArgument("slot must be that of an adapter");
}

size_t Model::adapter_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return adapters_.bytes();
}

}  // namespace sluice
