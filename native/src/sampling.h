// One token for each row of logits by temperature, top-k, top-p, min-p and typical-p.
#pragma once

#include <limits>
#include <vector>

#include "sets.h"

namespace sluice {

// How a row's token is drawn. The defaults draw from the logits as they are. A new field is a line here, a line in
// `for_each_field`, and its effect in sampling.cpp.
struct DrawParams {
  float temperature = 1;  // 0: the largest logit
  int64_t top_k = 0;      // 0: all
  double top_p = 1;       // 1: all
  double min_p = 0;       // 0: all
  double typical_p = 1;   // 1: all
};

// Call `visit` with each field's name, member, and least and largest value: Python sets and reads fields by it.
template <class Visit>
void for_each_field(Visit&& visit) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  visit("temperature", &DrawParams::temperature, 0, kUnlimited);
  visit("top_k", &DrawParams::top_k, 0, kUnlimited);
  visit("top_p", &DrawParams::top_p, 0, 1);
  visit("min_p", &DrawParams::min_p, 0, 1);
  visit("typical_p", &DrawParams::typical_p, 0, 1);
}

// Buffers that are used again from row to row.
struct SamplingScratch {
  std::vector<float> scaled, weights, near_values, near_weights;
  std::vector<double> block_sums;
  std::vector<int> candidates;
};

// The token at `uniform`, in [0, 1), of the sum of weights in the order of token ids; -1 for a row whose largest logit
// is not finite.
int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const DrawParams& params, double uniform,
               SamplingScratch& scratch);

// A number in [0, 1) for the token of that index: SplitMix64 at `index` steps from the mixed seed.
double uniform_of(uint64_t seed, uint64_t index);

}  // namespace sluice
