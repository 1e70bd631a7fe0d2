// LoRA adapters: the matrices of one, packed for the products of a step, and the set of adapters that a model has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/low_rank.h"
#include "machine/arena.h"
#include "weights/destination.h"
#include "weights/pack.h"

namespace sluice {

// An adapter's change to one module: down [rank, inputs] and up [outputs, rank], float32; `up` includes the scale.
struct AdaptedModule {
  Destination destination;  // of the module's weight
  int rank;
  const float* down;
  const float* up;
};

class Adapter {
 public:
  // `type` is the type of the packed matrices, Float32 or BFloat16.
  Adapter(Type type, const std::vector<Layer>& layers, const std::vector<AdaptedModule>& modules);

  const LowRank* products() const { return products_.data(); }
  const LatentLowRank* latents() const { return latents_.data(); }
  int most_columns() const { return most_columns_; }
  // The widest rows between down and up of the products that expand latents, for all heads.
  int most_latent_columns() const { return most_latent_columns_; }
  size_t bytes() const { return memory_.size() + latent_memory_.size(); }

 private:
  void add_latents(const std::vector<Layer>& layers, const std::vector<AdaptedModule>& modules);

  std::vector<LowRank> products_;  // [layers][kProducts]
  std::vector<std::vector<LowRank::Span>> spans_;
  std::vector<LatentLowRank> latents_;  // [layers]
  Arena memory_, latent_memory_;
  int most_columns_ = 0, most_latent_columns_ = 0;
};

// The adapters of a model by slot, and the rows of a step that each of them changes.
class Adapters {
 public:
  void put(int slot, Adapter adapter) { held_.insert_or_assign(slot, std::move(adapter)); }
  bool drop(int slot) { return held_.erase(slot) > 0; }
  bool has(int slot) const { return held_.count(slot) > 0; }
  size_t bytes() const;

  // Group the rows of a step's checked batch by adapter, and allocate their buffers. Null if no row has an adapter. The
  // result is valid until the next call.
  const Adapted* prepare(const Step& step, Type weight_type);

 private:
  // Rows grouped by adapter: the rows of all tokens, or the output rows.
  struct Sorted {
    std::vector<AdaptedRows::Part> parts;
    std::vector<int32_t> rows, part_of_row;
    AdaptedRows view() const { return {parts.data(), static_cast<int>(parts.size()), part_of_row.data()}; }
  };
  void sort(Sorted& to, const std::vector<int32_t>& slot_of_row) const;

  std::map<int, Adapter> held_;
  Sorted tokens_, outputs_;
  std::vector<int32_t> slot_of_row_;
  Adapted adapted_{};
  Arena buffers_;
};

}  // namespace sluice
