// One token for each row of logits by temperature, top-k, top-p, min-p and typical-p.
#pragma once

#include <vector>

#include "sets.h"

namespace sluice {

struct Rule {
  float temperature;  // 0: the largest logit
  int64_t top_k;      // 0: all
  double top_p;       // 1: all
  double min_p;       // 0: all
  double typical_p;   // 1: all
  double uniform;     // in [0, 1): which part of the sum of weights, in the order of token ids, is chosen
};

// Buffers that are used again from row to row.
struct SamplingScratch {
  std::vector<float> scaled, weights, near_values, near_weights;
  std::vector<double> block_sums;
  std::vector<int> candidates;
};

// -1 for a row whose largest logit is not finite.
int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const Rule& rule,
               SamplingScratch& scratch);

// A number in [0, 1) for the token of that index: SplitMix64 at `index` steps from the mixed seed.
double uniform_of(uint64_t seed, uint64_t index);

}  // namespace sluice
