// What each instruction set offers to the rest: one thread's part of a step.
#pragma once

#include "../types.h"

namespace sluice {

// The calls of Phases that kernels make; compiled once, for every CPU.
int take_chunk(Phases& phases, uint32_t index, int count, int thread, int& part);
void end_phase(Phases& phases, uint32_t index, int count, int done);

using StepFunction = void (*)(const Step& step, int thread);
// Reads memory and returns something that depends on all of it: how fast a step could be at best.
using ReadFunction = uint64_t (*)(const uint8_t* from, size_t bytes);
constexpr int kNumbers = 1024;
// Multiplies kNumbers bytes of numbers in registers, as products with weights of that type do, adds the products up and
// tells how many there were: how fast a step is at best where memory holds nothing up. `sum` depends on all of them.
using MultiplyFunction = uint64_t (*)(Type type, const uint8_t* numbers, int rounds, float* sum);

// The largest of `count` logits, and where it lies first; not a number if one of them isn't.
struct Largest {
  float logit;
  int index;
};
using LargestFunction = Largest (*)(const float* logits, int count);

constexpr int kBlock = 256;  // weights whose sum is told, so that a search need not read them all
// scaled[i] = (logits[i] - largest) / divisor, weights[i] = e to the power of it; the sums of kBlock at a time.
struct Scale {
  float largest, divisor;
};
using WeighFunction = void (*)(const float* logits, int count, Scale scale, float* scaled, float* weights,
                               double* block_sums);

// How many of the scaled logits are at least `border`, and their weights' sum.
struct Part {
  int count;
  double weight;
};
using PartFunction = Part (*)(const float* scaled, const float* weights, int count, float border);
// Make the weights 0 where the scaled logit is below `border`, and sum up what is left.
using DropFunction = void (*)(const float* scaled, int count, float border, float* weights, double* block_sums);
// The places of the scaled logits from `low` up to, but not with, `high`; `found` has room for one more than `count`.
using CollectFunction = int (*)(const float* scaled, int count, float low, float high, int* found);

#define SLUICE_DECLARE_SET(name)                                                                     \
  namespace name {                                                                                   \
  void run_step(const Step& step, int thread);                                                       \
  uint64_t read_memory(const uint8_t* from, size_t bytes);                                           \
  uint64_t multiply_registers(Type type, const uint8_t* numbers, int rounds, float* sum);            \
  Largest largest_logit(const float* logits, int count);                                             \
  void weigh_logits(const float* logits, int count, Scale scale, float* scaled, float* weights,      \
                    double* block_sums);                                                             \
  Part part_above(const float* scaled, const float* weights, int count, float border);               \
  void drop_below(const float* scaled, int count, float border, float* weights, double* block_sums); \
  int collect_between(const float* scaled, int count, float low, float high, int* found);            \
  }
SLUICE_DECLARE_SET(portable)
SLUICE_DECLARE_SET(avx2)
SLUICE_DECLARE_SET(avx512)
SLUICE_DECLARE_SET(avx512bf16)
SLUICE_DECLARE_SET(amx)
SLUICE_DECLARE_SET(neonbf16)
#undef SLUICE_DECLARE_SET

}  // namespace sluice
