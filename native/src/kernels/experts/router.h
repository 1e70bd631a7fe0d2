// The choice of experts for a row by its router logits.
#pragma once

#include "kernels/registers/lanes.h"
#include "layers/experts.h"
#include "plan/plan_fields.h"

namespace sluice {
namespace SLUICE_SET {

// Write the scores [count] of logits, padded to a multiple of 16. The order of the sums doesn't depend on the set.
inline void score_logits(Scores kind, const float* logits, int count, float* scores) {
  const bool is_sigmoid = kind == Scores::Sigmoid;
  float highest = logits[0];
  for (int i = 1; i < count; ++i) highest = logits[i] > highest ? logits[i] : highest;
  Lanes sums = all16(0);
  for (int i = 0; i < count; i += 16) {
    alignas(64) float powers[16];
    for (int j = 0; j < 16; ++j)
      powers[j] = i + j >= count ? -__builtin_inff() : is_sigmoid ? -logits[i + j] : logits[i + j] - highest;
    const Lanes raised = map(load16(powers), [](V x) __attribute__((always_inline)) { return exp(x); });
    sums = sums + raised;
    store16(scores + i, raised);
  }
  const Lanes total = all16(sum_of(sums));
  for (int i = 0; i < count; i += 16) {
    const Lanes raised = load16(scores + i);
    store16(scores + i, map(raised, total, [&](V x, V sum) __attribute__((always_inline)) {
              return is_sigmoid ? set1(1.0f) / (set1(1.0f) + x) : x / sum;
            }));
  }
}

// Write the indices of the highest values in descending order; among equal values the lowest index is first. A NaN is
// lower than any number.
inline void choose_highest(float* values, int count, int num_chosen, int32_t* chosen) {
  for (int i = 0; i < count; ++i)
    if (!(values[i] == values[i])) values[i] = -__builtin_inff();
  float last = __builtin_inff();
  int index = -1;
  for (int n = 0; n < num_chosen; ++n) {
    int best = -1;
    for (int i = 0; i < count; ++i) {
      const bool is_left = values[i] < last || (values[i] == last && i > index);
      if (is_left && (best < 0 || values[i] > values[best])) best = i;
    }
    last = values[best];
    index = best;
    chosen[n] = best;
  }
}

// Exclude the experts of all groups but those with the highest scores from the choice.
inline void choose_groups(const ExpertsPlan& plan, float* values) {
  const int size = plan.num_experts / plan.num_groups;
  float scores[kMostExpertGroups];
  int32_t chosen[kMostExpertGroups];
  bool is_chosen[kMostExpertGroups] = {};
  for (int group = 0; group < plan.num_groups; ++group) {
    int32_t highest[2];
    const int count = plan.adds_two ? 2 : 1;
    choose_highest(values + group * size, size, count, highest);
    scores[group] = values[group * size + highest[0]];
    if (plan.adds_two) scores[group] = scores[group] + values[group * size + highest[1]];
  }
  choose_highest(scores, plan.num_groups, plan.num_chosen_groups, chosen);
  for (int n = 0; n < plan.num_chosen_groups; ++n) is_chosen[chosen[n]] = true;
  for (int i = 0; i < plan.num_experts; ++i)
    if (!is_chosen[i / size]) values[i] = -__builtin_inff();
}

// Sort a row's experts in ascending order, so that the order of its sum depends on nothing else.
inline void sort_chosen(int count, int32_t* chosen, float* weights) {
  for (int i = 1; i < count; ++i) {
    const int32_t expert = chosen[i];
    const float weight = weights[i];
    int at = i;
    for (; at > 0 && chosen[at - 1] > expert; --at) {
      chosen[at] = chosen[at - 1];
      weights[at] = weights[at - 1];
    }
    chosen[at] = expert;
    weights[at] = weight;
  }
}

// Choose a row's experts by its logits [experts] and write their indices and weights [num_chosen]. `logits` and
// `values` are overwritten. The weights are NaN if a logit is not finite.
inline void choose_experts(const Experts& experts, float* logits, float* values, int32_t* chosen, float* weights) {
  const ExpertsPlan& plan = experts.plan;
  const int count = plan.num_experts;
  float broken = 0;
  for (int i = 0; i < count; ++i) broken += logits[i] * 0;
  const bool is_late = plan.scores == Scores::ChosenSoftmax;
  if (is_late) {
    for (int i = 0; i < count; ++i) values[i] = logits[i];
  } else {
    score_logits(plan.scores, logits, count, values);
    for (int i = 0; i < count; ++i) logits[i] = values[i];
  }
  for (int i = 0; i < count && experts.correction != nullptr; ++i) values[i] = values[i] + experts.correction[i];
  if (plan.num_chosen_groups < plan.num_groups) choose_groups(plan, values);
  choose_highest(values, count, plan.num_chosen, chosen);
  if (is_late) {  // `values` has at least as many elements as there are chosen experts
    alignas(64) float late[kMostChosen];
    for (int n = 0; n < plan.num_chosen; ++n) late[n] = logits[chosen[n]];
    score_logits(Scores::Softmax, late, plan.num_chosen, values);
  }
  float sum = 0;
  for (int n = 0; n < plan.num_chosen; ++n) {
    weights[n] = is_late ? values[n] : logits[chosen[n]];
    sum += weights[n];
  }
  if (plan.is_renormalized) {
    sum += plan.sum_addend;
    if (sum < plan.least_sum) sum = plan.least_sum;
    for (int n = 0; n < plan.num_chosen; ++n) weights[n] = weights[n] / sum;
  }
  for (int n = 0; n < plan.num_chosen; ++n) {
    const float own = experts.scales == nullptr ? 1 : experts.scales[chosen[n]];
    weights[n] = weights[n] * plan.scale * own + broken;
  }
  sort_chosen(plan.num_chosen, chosen, weights);
}

}  // namespace SLUICE_SET
}  // namespace sluice
