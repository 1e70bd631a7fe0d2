// One token for each row of logits that asks for nothing but temperature, top-k, top-p and min-p.
#pragma once

#include <vector>

#include "sets.h"

namespace sluice {

struct Rule {
  float temperature;  // 0: the largest logit
  int top_k;          // 0: all
  double top_p;       // 1: all
  double min_p;       // 0: all
  double uniform;     // in [0, 1): which part of the sum of weights, in the order of token ids, is chosen
};

// Buffers that are used again from row to row.
struct SamplingScratch {
  std::vector<float> scaled, weights, candidates;
  std::vector<double> block_sums;
};

// -1 for a row whose largest logit is not finite.
int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const Rule& rule,
               SamplingScratch& scratch);

}  // namespace sluice
