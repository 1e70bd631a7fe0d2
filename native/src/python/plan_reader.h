// Reads a plan from Python's dictionaries and lists.
#pragma once

#include <nanobind/nanobind.h>

#include "model/model.h"

namespace sluice {

// Set the plan, the layers and the rotary tables of the options. Throws BadArgument, whose text begins with the path of
// the field, such as layers[3].attention.num_heads, for a missing or unknown field or one that is out of its range.
void read_plan(const nanobind::dict& given, Options& options);

}  // namespace sluice
