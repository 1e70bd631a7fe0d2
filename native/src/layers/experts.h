// A feed-forward part of experts: its packed weights, and the rows of a step sorted by expert. Plain data, which the
// kernels read.
#pragma once

#include "types.h"

namespace sluice {

struct Expert {
  Matrix gate_up;  // hidden -> 2 * width: 16 rows of gate, 16 of up, and so on; or hidden -> width
  Matrix down;     // width -> hidden
};

struct Experts {
  ExpertsPlan plan;
  Matrix router;                // Float32, hidden -> experts, then the shared expert's gate
  float* correction = nullptr;  // [experts] or null
  Norm router_norm;             // [hidden], of the router's inputs, or null
  float* scales = nullptr;      // [experts] or null
  Expert* experts = nullptr;    // [experts], then the shared expert
};

// The entries of one expert in a step. An entry is a row of one of its experts.
struct ExpertPart {
  int expert, first, count;
};

// The buffers of a step's experts, 64-byte aligned. Strides in elements.
struct Routing {
  float* logits;  // [rows][logits_stride], then scores
  float* scores;  // [rows][logits_stride], by which experts are chosen
  int logits_stride;
  int32_t* chosen;    // [rows][num_chosen], in ascending order
  float* weights;     // [rows][num_chosen]
  int chosen_stride;
  void* inputs;         // [rows][input_stride], in the type of inputs, unless that is Float32
  float* input_scales;  // [rows], of Int8 inputs
  void* gathered;       // [entries][input_stride], the inputs of each entry
  float* gathered_scales;
  int32_t* row_of_entry;
  float* weight_of_entry;
  ExpertPart* parts;  // in ascending order of experts
  int32_t* counts;    // [experts], entries of each; then the position of the next
  int* num_parts;     // of experts that have entries
  float* wide_inner;  // [entries][inner_stride], before it is quantized to Int8
  void* inner;        // [entries][inner_stride], in the type of inputs
  float* inner_scales;
  int inner_stride;
  float* sums;  // [rows][residual_stride], weighted sums over experts
};

}  // namespace sluice
