// A LoRA adapter's matrices, packed for the products of a step, and those that a model holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "arena.h"
#include "low_rank.h"
#include "pack.h"
#include "places.h"

namespace sluice {

// What an adapter changes of one module: down [rank, inputs] and up [outputs, rank], float32, its scale in `up`.
struct AdaptedModule {
  Place place;  // of the module's weight
  int layer;
  Product product;
  int rank;
  const float* down;
  const float* up;
};

class Adapter {
 public:
  // `type` is that of the packed numbers, Float32 or BFloat16.
  Adapter(Type type, const Shape& shape, const std::vector<AdaptedModule>& modules);

  const LowRank* products() const { return products_.data(); }
  int most_columns() const { return most_columns_; }
  size_t bytes() const { return memory_.size(); }

 private:
  std::vector<LowRank> products_;  // [layers][kProducts]
  std::vector<std::vector<LowRank::Span>> spans_;
  Arena memory_;
  int most_columns_ = 0;
};

// The adapters of a model by their places, and which rows of a step they change.
class Adapters {
 public:
  void put(int place, Adapter adapter) { held_.insert_or_assign(place, std::move(adapter)); }
  bool drop(int place) { return held_.erase(place) > 0; }
  bool has(int place) const { return held_.count(place) > 0; }
  size_t bytes() const;

  // Sort out the rows of a step's checked batch, with memory for what they need. Null if none has an adapter; else it
  // lasts until the next call.
  const Adapted* prepare(const Step& step, Type weight_type);

 private:
  // The rows of one kind by adapter.
  struct Sorted {
    std::vector<AdaptedRows::Part> parts;
    std::vector<int32_t> rows, part_of_row;
    AdaptedRows view() const { return {parts.data(), static_cast<int>(parts.size()), part_of_row.data()}; }
  };
  void sort(Sorted& to, const std::vector<int32_t>& place_of_row) const;

  std::map<int, Adapter> held_;
  Sorted tokens_, outputs_;
  std::vector<int32_t> place_of_row_;
  Adapted adapted_{};
  Arena buffers_;
};

}  // namespace sluice
