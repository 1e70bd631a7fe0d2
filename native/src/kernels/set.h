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

// The largest of `count` logits, and where it lies first; not a number if one of them isn't.
struct Largest {
  float logit;
  int index;
};
using LargestFunction = Largest (*)(const float* logits, int count);

// scaled[i] = (logits[i] - largest) / temperature.
struct Scale {
  float largest, temperature;
};
using ScaleFunction = void (*)(const float* logits, int count, Scale scale, float* scaled);
// weights[i] = e to the power of scaled[i], or 0 where that is below `border`; and their sums, of 256 at a time.
using WeighFunction = void (*)(const float* scaled, int count, float border, float* weights, double* block_sums);

#define SLUICE_DECLARE_SET(name)                                                                       \
  namespace name {                                                                                     \
  void run_step(const Step& step, int thread);                                                         \
  uint64_t read_memory(const uint8_t* from, size_t bytes);                                             \
  Largest largest_logit(const float* logits, int count);                                               \
  void scale_logits(const float* logits, int count, Scale scale, float* scaled);                       \
  void weigh_logits(const float* scaled, int count, float border, float* weights, double* block_sums); \
  }
SLUICE_DECLARE_SET(portable)
SLUICE_DECLARE_SET(avx2)
SLUICE_DECLARE_SET(avx512)
SLUICE_DECLARE_SET(avx512bf16)
SLUICE_DECLARE_SET(neonbf16)
#undef SLUICE_DECLARE_SET

}  // namespace sluice
