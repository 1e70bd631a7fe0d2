#include "sampling.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace sluice {

namespace {

constexpr int kNear = 8192;  // number of values that are copied together, which makes passes over them cheap
constexpr int kFew = 64;     // number of values that are sorted
constexpr float kWeightless = -128;

double sum_of(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

// Cumulative weights of tokens in descending order of a value: the scaled logit, or another measure whose maximum is 0
// or slightly less.
class Distribution {
 public:
  Distribution(const InstructionSet& set, int vocab_size, SamplingScratch& scratch)
      : set_(set), vocab_size_(vocab_size), scratch_(scratch) {
    scratch_.candidates.resize(vocab_size + 1);
    take_all();
  }

  Part above(float border) const {
    const Part part = set_.part_above(values_, weights_, num_values_, border);
    return {beyond_.count + part.count, beyond_.weight + part.weight};
  }

  // The largest value at which the tokens at or above it satisfy `reaches`; -infinity if no value with weight does.
  // Bisects the range of the border until it holds few values, which are sorted.
  template <class Reaches>
  float border(Reaches&& reaches) {
    take_all();
    float low = -1, high = FLT_MIN;
    Part low_part = above(low), high_part{0, 0};
    for (; !reaches(low_part); low_part = above(low)) {
      if (low <= kWeightless) return -INFINITY;
      high = low, high_part = low_part;
      low *= 2;
    }
    while (low_part.count - high_part.count > kFew) {
      if (num_values_ > kNear && low_part.count - high_part.count <= kNear) narrow(low, high, high_part);
      const float middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      const Part part = above(middle);
      if (reaches(part))
        low = middle, low_part = part;
      else
        high = middle, high_part = part;
    }
    int* found = scratch_.candidates.data();
    const int num_found = set_.collect(values_, num_values_, low, high, found);
    std::sort(found, found + num_found, [&](int a, int b) { return values_[a] > values_[b]; });
    Part part = high_part;
    for (int i = 0; i < num_found; ++i) {
      part = {part.count + 1, part.weight + weights_[found[i]]};
      if (reaches(part)) return values_[found[i]];
    }
    return low;  // reached only if the sums are rounded differently
  }

 private:
  void take_all() {
    values_ = scratch_.scaled.data(), weights_ = scratch_.weights.data(), num_values_ = vocab_size_;
    beyond_ = {0, 0};
  }

  // Restrict further passes to values in [low, high); `beyond` is the part at or above `high`.
  void narrow(float low, float high, const Part& beyond) {
    int* found = scratch_.candidates.data();
    const int num_found = set_.collect(values_, num_values_, low, high, found);
    scratch_.near_values.resize(num_found);
    scratch_.near_weights.resize(num_found);
    for (int i = 0; i < num_found; ++i) {
      scratch_.near_values[i] = values_[found[i]];
      scratch_.near_weights[i] = weights_[found[i]];
    }
    values_ = scratch_.near_values.data(), weights_ = scratch_.near_weights.data(), num_values_ = num_found;
    beyond_ = beyond;
  }

  const InstructionSet& set_;
  int vocab_size_;
  SamplingScratch& scratch_;
  const float* values_;  // the values that passes read, all or a subset, and their weights
  const float* weights_;
  int num_values_;
  Part beyond_;  // the part above all of these values
};

// The scaled logit below which tokens are dropped. Top-k, top-p and min-p each keep the tokens at or above some logit,
// so the highest border applies; tokens of equal logits are kept or dropped together.
float border_of(const InstructionSet& set, int vocab_size, const DrawParams& params, SamplingScratch& scratch) {
  Distribution distribution(set, vocab_size, scratch);
  float border = -INFINITY;
  double total = sum_of(scratch.block_sums);
  if (params.top_k > 0 && params.top_k < vocab_size) {
    border = distribution.border([&](const Part& part) { return part.count >= params.top_k; });
    if (border > -INFINITY) {
      const Part better = distribution.above(std::nextafter(border, INFINITY));
      total = better.weight + (params.top_k - better.count) * std::exp(static_cast<double>(border));
    }
  }
  if (params.top_p < 1) {
    const double target = params.top_p * total;
    border = std::max(border, distribution.border([&](const Part& part) { return part.weight >= target; }));
  }
  if (params.min_p > 0) border = std::max(border, static_cast<float>(std::log(params.min_p)));
  return border;
}

// Keep the tokens whose surprise is nearest to the entropy and that hold `typical_p` of the weight.
void drop_untypical(const InstructionSet& set, int vocab_size, double typical_p, SamplingScratch& scratch) {
  const double total = sum_of(scratch.block_sums);
  double mean = 0;  // of the scaled logits; negated, it is the entropy up to a constant that all surprises share
  for (int i = 0; i < vocab_size; ++i)
    if (scratch.weights[i] > 0) mean += static_cast<double>(scratch.weights[i]) * scratch.scaled[i];
  const float nearest = static_cast<float>(mean / total);
  for (float& value : scratch.scaled) value = -std::abs(value - nearest);
  const float border = Distribution(set, vocab_size, scratch).border([&](const Part& part) {
    return part.weight >= typical_p * total;
  });
  set.drop_below(scratch.scaled.data(), vocab_size, border, scratch.weights.data(), scratch.block_sums.data());
}

// The first index at which the running sum exceeds `target`, or the last index with a weight if rounding put the target
// beyond the sum. `target` becomes its remainder within that index.
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

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

int sample_row(const InstructionSet& set, const float* logits, int vocab_size, const DrawParams& params, double uniform,
               SamplingScratch& scratch) {
  const Largest largest = set.largest(logits, vocab_size);
  if (!std::isfinite(largest.logit)) return -1;
  if (params.temperature <= 0) return largest.index;
  scratch.scaled.resize(vocab_size);
  scratch.weights.resize(vocab_size);
  scratch.block_sums.resize((vocab_size + kBlock - 1) / kBlock);
  const float temperature = std::min(std::max(params.temperature, FLT_MIN), FLT_MAX);
  set.weigh(logits, vocab_size, {largest.logit, temperature}, scratch.scaled.data(), scratch.weights.data(),
            scratch.block_sums.data());
  const float border = border_of(set, vocab_size, params, scratch);
  if (border > -INFINITY)
    set.drop_below(scratch.scaled.data(), vocab_size, border, scratch.weights.data(), scratch.block_sums.data());
  if (params.typical_p < 1) drop_untypical(set, vocab_size, params.typical_p, scratch);
  const double total = sum_of(scratch.block_sums);
  double target = std::min(uniform * total, std::nextafter(total, 0.0));
  const int block = first_above(scratch.block_sums.data(), static_cast<int>(scratch.block_sums.size()), target);
  const int from = block * kBlock, count = std::min(kBlock, vocab_size - from);
  return from + first_above(scratch.weights.data() + from, count, target);
}

double uniform_of(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  return static_cast<double>(mix(mix(seed ^ kGolden) + index * kGolden) >> 11) * 0x1p-53;
}

}  // namespace sluice
