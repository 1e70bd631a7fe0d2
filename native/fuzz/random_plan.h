// A random plan of a decoder or an encoder, with the options of its model.
#pragma once

#include "model/model.h"

namespace sluice {

// Return options that a model accepts. Plans that `check_plan` rejects on the way are counted.
Options valid_options(int& num_rejected);

}  // namespace sluice
