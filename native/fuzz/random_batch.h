// A random batch of sequences, with the arrays that it points to.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"

namespace sluice {

constexpr int kSlots = 3, kStates = 14;  // of adapters, and of recurrent states

struct RandomBatch {
  std::vector<int32_t> token_ids, positions, row_offsets{0}, context_lengths, block_tables, output_rows, adapters;
  std::vector<int32_t> states, types;
  std::unique_ptr<float[]> logits;
  Batch batch{};

  // A valid batch for a plan, whose blocks are those of the cache.
  RandomBatch(const DecoderPlan& plan, const Cache& cache);

  // Change a few numbers, so that the batch may be invalid.
  void spoil();

 private:
  void point();
};

}  // namespace sluice
