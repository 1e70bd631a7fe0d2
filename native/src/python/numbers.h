// Checks of the numbers that Python passes.
#pragma once

#include <sstream>
#include <string>

#include "model/model.h"

namespace sluice {

inline std::string shown(double value) {
  std::ostringstream text;
  text.precision(10);
  text << value;
  return text.str();
}

constexpr int kMostThreads = 1024;

// Return a number of threads. Throws BadArgument unless it is from `least` to kMostThreads.
inline int checked_threads(int num_threads, int least) {
  if (num_threads < least || num_threads > kMostThreads)
    throw BadArgument("num_threads must be " + std::to_string(least) + " to " + std::to_string(kMostThreads));
  return num_threads;
}

}  // namespace sluice
