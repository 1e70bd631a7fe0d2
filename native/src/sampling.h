// Sampling of one token per row of logits by temperature, top-k, top-p, min-p and typical-p.
#pragma once

#include <limits>
#include <vector>

#include "machine/sets.h"

namespace sluice {

// The sampling parameters of a row. The defaults draw from the unmodified distribution. A new field needs a line here,
// a line in `for_each_field`, and its effect in sampling.cpp.
struct DrawParams {
  float temperature = 1;  // 0: the largest logit
  int64_t top_k = 0;      // 0: all
  double top_p = 1;       // 1: all
  double min_p = 0;       // 0: all
  double typical_p = 1;   // 1: all
};

// Call `visit` with each field's name, member, minimum and maximum. The Python binding is made from this.
template <class Visit>
void for_each_field(Visit&& visit) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  visit("temperature", &DrawParams::temperature, 0, kUnlimited);
  visit("top_k", &DrawParams::top_k, 0, kUnlimited);
  visit("top_p", &DrawParams::top_p, 0, 1);
  visit("min_p", &DrawParams::min_p, 0, 1);
  visit("typical_p", &DrawParams::typical_p, 0, 1);
}

// Buffers that are reused for each row.
struct SamplingScratch {
  std::vector<float> scaled, weights, near_values, near_weights;
  std::vector<double> block_sums;
  std::vector<int> candidates;
};

// The token at which the cumulative weight, in the order of token ids, exceeds `uniform`, in [0, 1), times the total;
// -1 if the largest logit is not finite.
int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const DrawParams& params, double uniform,
               SamplingScratch& scratch);

// A number in [0, 1) for the token with that index: SplitMix64 after `index` steps from the mixed seed.
double uniform_of(uint64_t seed, uint64_t index);

}  // namespace sluice
