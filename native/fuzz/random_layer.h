// Random plans of layers.
#pragma once

#include "model/model.h"

namespace sluice {

// Return the plan of a layer that fits the model's plan and rotary tables. Not every one is valid (check_plan).
LayerPlan random_layer(const Options& options);

}  // namespace sluice
