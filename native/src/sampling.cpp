#include "sampling.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>

namespace sluice {

namespace {

constexpr int kBlock = 256;  // weights whose sum is known before the search

// The smallest of the most likely tokens that hold `top_p` of the weight of `count` candidates, largest first.
float nucleus_border(const std::vector<float>& falling, double total, double top_p) {
  double sum = 0;
  for (const float value : falling) {
    sum += std::exp(static_cast<double>(value));
    if (sum >= top_p * total) return value;
  }
  return falling.back();
}

double weight_of(const std::vector<float>& values) {
  double total = 0;
  for (const float value : values) total += std::exp(static_cast<double>(value));
  return total;
}

// Below which logit tokens are dropped. Every filter keeps what lies at or above some logit, so one border does for
// all; tokens of equal logits are kept or dropped together.
float border_of(const InstructionSet& set, const Rule& rule, SamplingScratch& scratch) {
  const std::vector<float>& scaled = scratch.scaled;
  std::vector<float>& candidates = scratch.candidates;
  const int vocab_size = static_cast<int>(scaled.size());
  const auto largest_first = std::greater<float>();
  float border = -INFINITY;
  if (rule.top_k > 0 && rule.top_k < vocab_size) {
    candidates = scaled;
    std::nth_element(candidates.begin(), candidates.begin() + rule.top_k - 1, candidates.end(), largest_first);
    candidates.resize(rule.top_k);
    border = candidates.back();
    if (rule.top_p < 1) {
      std::sort(candidates.begin(), candidates.end(), largest_first);
      border = std::max(border, nucleus_border(candidates, weight_of(candidates), rule.top_p));
    }
  } else if (rule.top_p < 1) {
    set.weigh(scaled.data(), vocab_size, -INFINITY, scratch.weights.data(), scratch.block_sums.data());
    double total = 0;
    for (const double sum : scratch.block_sums) total += sum;
    // Few tokens hold nearly all of the weight: sort those within a distance, and more only if they don't do.
    for (float reach = 4;; reach *= 2) {
      candidates.clear();
      for (const float value : scaled)
        if (value >= -reach) candidates.push_back(value);
      if (static_cast<int>(candidates.size()) == vocab_size || reach > 200 ||
          weight_of(candidates) >= rule.top_p * total)
        break;
    }
    std::sort(candidates.begin(), candidates.end(), largest_first);
    border = nucleus_border(candidates, total, rule.top_p);
  }
  if (rule.min_p > 0) border = std::max(border, static_cast<float>(std::log(rule.min_p)));
  return border;
}

// The first place where the running sum exceeds `target`, which becomes what of it lies there; the last place with a
// weight if rounding put the target beyond.
template <class T>
int first_above(const T* weights, int count, double& target) {
  double sum = 0;
  int last = 0;
  double before_last = 0;
  for (int i = 0; i < count; ++i) {
    if (weights[i] > 0) last = i, before_last = sum;
    const double next = sum + weights[i];
    if (next > target) {
      target -= sum;
      return i;
    }
    sum = next;
  }
  target = std::max(0.0, std::nextafter(sum, 0.0) - before_last);
  return last;
}

}  // namespace

int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const Rule& rule,
               SamplingScratch& scratch) {
  const Largest largest = set.largest(logits, vocab_size);
  if (!std::isfinite(largest.logit)) return -1;
  if (rule.temperature <= 0) return largest.index;
  scratch.scaled.resize(vocab_size);
  scratch.weights.resize(vocab_size);
  scratch.block_sums.resize((vocab_size + kBlock - 1) / kBlock);
  const float temperature = std::min(std::max(rule.temperature, FLT_MIN), FLT_MAX);
  set.scale(logits, vocab_size, {largest.logit, temperature}, scratch.scaled.data());
  const float border = border_of(set, rule, scratch);
  set.weigh(scratch.scaled.data(), vocab_size, border, scratch.weights.data(), scratch.block_sums.data());
  double total = 0;
  for (const double sum : scratch.block_sums) total += sum;
  double target = std::min(rule.uniform * total, std::nextafter(total, 0.0));
  const int block = first_above(scratch.block_sums.data(), static_cast<int>(scratch.block_sums.size()), target);
  const int from = block * kBlock, count = std::min(kBlock, vocab_size - from);
  return from + first_above(scratch.weights.data() + from, count, target);
}

}  // namespace sluice
