// The interface of an instruction set: one thread's part of a step, measurements, and the passes of sampling.
#pragma once

#include "types.h"

namespace sluice {

struct PackedKind;

// The functions of Phases that kernels call, compiled once for all sets.
int take_chunk(Phases& phases, uint32_t index, int count, int thread, int& part);
void end_phase(Phases& phases, uint32_t index, int count, int done);

using StepFunction = void (*)(const Step& step, int thread);
// Read memory and return a value that depends on all of it, to measure the memory-bound limit of a step.
using ReadFunction = uint64_t (*)(const uint8_t* from, size_t bytes);
constexpr int kNumbers = 1024;
// Multiply and add kNumbers bytes of numbers in registers, like products with weights of that type, and return the
// number of multiply-adds, to measure the compute-bound limit of a step. `sum` depends on all of them.
using MultiplyFunction = uint64_t (*)(Type type, const uint8_t* numbers, int rounds, float* sum);

// Describe the products of one step with packed weights of a kind: what is multiplied, and in how many lanes.
using ProductNameFunction = const char* (*)(const PackedKind& kind);

// The largest of `count` logits and its first index; the logit is NaN if one of them is NaN.
struct Largest {
  float logit;
  int index;
};
using LargestFunction = Largest (*)(const float* logits, int count);

constexpr int kBlock = 256;  // weights per block sum, so that a search need not read all weights
// Set scaled[i] = (logits[i] - largest) / divisor, weights[i] = exp(scaled[i]), and the sum of each kBlock weights.
struct Scale {
  float largest, divisor;
};
using WeighFunction = void (*)(const float* logits, int count, Scale scale, float* scaled, float* weights,
                               double* block_sums);

// The number of scaled logits that are at least `border`, and the sum of their weights.
struct Part {
  int count;
  double weight;
};
using PartFunction = Part (*)(const float* scaled, const float* weights, int count, float border);
// Set the weights to 0 where the scaled logit is below `border`, and update the block sums.
using DropFunction = void (*)(const float* scaled, int count, float border, float* weights, double* block_sums);
// Collect the indices of the scaled logits in [low, high). `found` has capacity for `count` + 1 indices.
using CollectFunction = int (*)(const float* scaled, int count, float low, float high, int* found);

#define SLUICE_DECLARE_SET(name)                                                                     \
  namespace name {                                                                                   \
  void run_step(const Step& step, int thread);                                                       \
  uint64_t read_memory(const uint8_t* from, size_t bytes);                                           \
  uint64_t multiply_registers(Type type, const uint8_t* numbers, int rounds, float* sum);            \
  const char* product_name(const PackedKind& kind);                                                  \
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
