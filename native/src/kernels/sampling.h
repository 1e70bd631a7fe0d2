// The passes of sampling over a row of logits.
#pragma once

#include "kernels/registers/lanes.h"
#include "kernels/set.h"

namespace sluice {
namespace SLUICE_SET {

// Load 16 values from `i` on; values from `count` on are `filler`.
SLUICE_INLINE Lanes load_some(const float* values, int i, int count, float filler) {
  if (i + 16 <= count) return load16(values + i);
  alignas(64) float some[16];
  for (int j = 0; j < 16; ++j) some[j] = i + j < count ? values[i + j] : filler;
  return load16(some);
}
SLUICE_INLINE void store_some(float* values, int i, int count, const Lanes& x) {
  if (i + 16 <= count) return store16(values + i, x);
  alignas(64) float some[16];
  store16(some, x);
  for (int j = 0; i + j < count; ++j) values[i + j] = some[j];
}

// `value` where x is at least `border`, 0 elsewhere.
SLUICE_INLINE Lanes where_above(const Lanes& x, V border, const Lanes& value) {
  return map(x, value, [&](V a, V b) __attribute__((always_inline)) { return a >= border ? b : set1(0.0f); });
}

// The number of values equal to `wanted`.
SLUICE_INLINE int count_equal(const float* values, int count, float wanted) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += values[i] == wanted;
  return found;
}

Largest largest_logit(const float* logits, int count) {
  Lanes highest = all16(-__builtin_inff());
  int num_numbers = 0;
  for (int from = 0; from < count; from += kBlock) {
    const int end = from + kBlock < count ? from + kBlock : count;
    for (int i = from; i < end; i += 16) highest = max16(highest, load_some(logits, i, count, -__builtin_inff()));
    for (int i = from; i < end; ++i) num_numbers += logits[i] == logits[i];
  }
  if (num_numbers < count) return {__builtin_nanf(""), 0};
  const float largest = max_of(highest);
  int index = 0;
  while (index + kBlock < count && count_equal(logits + index, kBlock, largest) == 0) index += kBlock;
  while (index + 1 < count && logits[index] != largest) ++index;
  return {largest, index};
}

void weigh_logits(const float* logits, int count, Scale scale, float* scaled, float* weights, double* block_sums) {
  const V largest = set1(scale.largest), divisor = set1(scale.divisor);
  for (int from = 0; from < count; from += kBlock) {
    Lanes sum = all16(0);
    for (int i = from; i < from + kBlock && i < count; i += 16) {
      const Lanes x = map(load_some(logits, i, count, -__builtin_inff()),
                          [&](V a) __attribute__((always_inline)) { return (a - largest) / divisor; });
      const Lanes weight = map(x, [](V a) __attribute__((always_inline)) { return exp(a); });
      sum = sum + weight;
      store_some(scaled, i, count, x);
      store_some(weights, i, count, weight);
    }
    block_sums[from / kBlock] = sum_of(sum);
  }
}

Part part_above(const float* scaled, const float* weights, int count, float border) {
  const V low = set1(border);
  Lanes members = all16(0);  // counts of at most 2 ** 22
  Part part{0, 0};
  for (int from = 0; from < count; from += kBlock) {
    Lanes sum = all16(0);
    for (int i = from; i < from + kBlock && i < count; i += 16) {
      const Lanes x = load_some(scaled, i, count, -__builtin_nanf(""));
      sum = sum + where_above(x, low, load_some(weights, i, count, 0));
      members = members + where_above(x, low, all16(1));
    }
    part.weight += sum_of(sum);
  }
  alignas(64) float lanes[16];
  store16(lanes, members);
  for (const float lane : lanes) part.count += static_cast<int>(lane);
  return part;
}

void drop_below(const float* scaled, int count, float border, float* weights, double* block_sums) {
  const V low = set1(border);
  for (int from = 0; from < count; from += kBlock) {
    Lanes sum = all16(0);
    for (int i = from; i < from + kBlock && i < count; i += 16) {
      const Lanes kept =
          where_above(load_some(scaled, i, count, -__builtin_inff()), low, load_some(weights, i, count, 0));
      sum = sum + kept;
      store_some(weights, i, count, kept);
    }
    block_sums[from / kBlock] = sum_of(sum);
  }
}

int collect_between(const float* scaled, int count, float low, float high, int* found) {
  int num_found = 0;
  for (int from = 0; from < count; from += kBlock) {
    const int end = from + kBlock < count ? from + kBlock : count;
    int num_between = 0;
    for (int i = from; i < end; ++i) num_between += (scaled[i] >= low) & (scaled[i] < high);
    if (num_between == 0) continue;
    for (int i = from; i < end; ++i) {
      found[num_found] = i;  // overwritten by the next unless it is counted
      num_found += (scaled[i] >= low) & (scaled[i] < high);
    }
  }
  return num_found;
}

}  // namespace SLUICE_SET
}  // namespace sluice
