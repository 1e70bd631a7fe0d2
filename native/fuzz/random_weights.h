// Random weights and adapters for the tensors of a model.
#pragma once

#include "model/model.h"

namespace sluice {

// Load all tensors of a model, in random types. Some numbers are large, infinite or not numbers.
void load_all(Model& model);

// Put an adapter of a random choice of modules into a slot; each module has its own random rank.
void put_random_adapter(Model& model, int slot);

}  // namespace sluice
