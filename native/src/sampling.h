// One token for each row of logits that asks for nothing but temperature, top-k, top-p and min-p.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

struct Rule {
  float temperature;  // 0: the largest logit
  int top_k;          // 0: all
  double top_p;       // 1: all
  float min_p;        // 0: all
  double uniform;     // in [0, 1), which part of the sum is chosen
};

// -1 for a row whose largest logit is not finite. `scratch` is reused between calls.
int sample_row(const float* logits, int vocab_size, const Rule& rule, std::vector<float>& scratch);

}  // namespace sluice
