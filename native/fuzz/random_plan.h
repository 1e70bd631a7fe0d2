// Random models for fuzzing: the plan and options of a decoder or an encoder.
#pragma once

#include "model/model.h"

namespace sluice {

// Return random options that `check_plan` accepts. Add the number of rejected ones to `num_rejected`.
Options valid_options(int& num_rejected);

}  // namespace sluice
