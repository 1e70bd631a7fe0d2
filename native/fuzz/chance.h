// The fuzzer's random choices, which all follow from one seed.
#pragma once

#include <random>

namespace sluice {

inline std::mt19937 random_bits;

inline int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }
inline bool one_in(int n) { return between(1, n) == 1; }

}  // namespace sluice
