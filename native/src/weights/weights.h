// The memory of a model's packed weights.
#pragma once

#include <vector>

#include "types.h"

namespace sluice {

struct Options;

// Set the sizes of all matrices of the layers and of the head, without memory.
void plan_weights(const Options& options, Weights& weights, std::vector<Layer>& layers);

// The bytes of everything that place_weights places. plan_weights must have been called.
size_t weight_bytes(const Options& options, Weights& weights, std::vector<Layer>& layers);

// Set all pointers into `memory`, which must be zeros, and fill the rotary tables.
void place_weights(const Options& options, Weights& weights, std::vector<Layer>& layers, uint8_t* memory);

}  // namespace sluice
