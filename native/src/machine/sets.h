// The instruction sets of this build, and which of them this CPU supports.
#pragma once

#include <string>
#include <vector>

#include "kernels/set.h"

namespace sluice {

struct InstructionSet {
  const char* name;
  StepFunction run;
  ReadFunction read;
  MultiplyFunction multiply;
  ProductNameFunction product_name;
  LargestFunction largest;
  WeighFunction weigh;
  PartFunction part_above;
  DropFunction drop_below;
  CollectFunction collect;
  bool is_runnable;
};

// Best first.
const std::vector<InstructionSet>& instruction_sets();

// The set with that name, or the best for "auto"; null if it is not in this build or the CPU does not support it.
const InstructionSet* find_set(const std::string& name);

// The error if find_set returns null.
std::string unsupported_set_text(const std::string& name);

}  // namespace sluice
