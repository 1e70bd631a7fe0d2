// The passes over a row of logits that sampling makes.
#pragma once

#include "lanes.h"
#include "set.h"

namespace sluice {
namespace SLUICE_SET {

Largest largest_logit(const float* logits, int count) {
  Lanes highest = all16(-__builtin_inff());
  int num_broken = 0;
  int i = 0;
  for (; i + 16 <= count; i += 16) highest = max16(highest, load16(logits + i));
  float largest = max_of(highest);
  for (; i < count; ++i) largest = logits[i] > largest ? logits[i] : largest;
  for (int j = 0; j < count; ++j) num_broken += logits[j] != logits[j];
  if (num_broken > 0) return {__builtin_nanf(""), 0};
  int index = 0;
  while (index + 1 < count && logits[index] != largest) ++index;
  return {largest, index};
}

void scale_logits(const float* logits, int count, Scale scale, float* scaled) {
  for (int i = 0; i < count; ++i) scaled[i] = (logits[i] - scale.largest) / scale.temperature;
}

void weigh_logits(const float* scaled, int count, float border, float* weights, double* block_sums) {
  for (int from = 0; from < count; from += 256) {
    Lanes sum = all16(0);
    for (int i = from; i < from + 256 && i < count; i += 16) {
      alignas(64) float kept[16];
      for (int j = 0; j < 16; ++j) kept[j] = i + j < count && scaled[i + j] >= border ? scaled[i + j] : -1000.0f;
      const Lanes weight = map(load16(kept), [](V x) __attribute__((always_inline)) { return exp(x); });
      sum = sum + weight;
      store16(kept, weight);
      for (int j = 0; j < 16 && i + j < count; ++j) weights[i + j] = kept[j];
    }
    block_sums[from / 256] = sum_of(sum);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
