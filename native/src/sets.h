// The instruction sets this build has, and which of them this CPU can run.
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
  LargestFunction largest;
  WeighFunction weigh;
  PartFunction part_above;
  DropFunction drop_below;
  CollectFunction collect;
  bool is_runnable;
};

// Best first.
const std::vector<InstructionSet>& instruction_sets();

// By name, or the best for "auto"; null if there is none that can run.
const InstructionSet* find_set(const std::string& name);

}  // namespace sluice
