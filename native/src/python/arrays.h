// Checks of the arrays that Python passes: type, shape and layout.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "model/model.h"

namespace sluice {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using WritableArray = nb::ndarray<nb::device::cpu>;

template <class A>
bool is_contiguous(const A& array) {
  if (array.size() == 0) return true;  // strides of an empty array are irrelevant
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

// Return the data of an int32 array. Throws BadArgument unless it is contiguous and has `ndim` dimensions.
inline const int32_t* ints(const Array& array, const char* name, size_t ndim) {
  const std::string argument = name;
  if (array.dtype() != nb::dtype<int32_t>()) throw BadArgument(argument + " must be int32");
  if (array.ndim() != ndim) throw BadArgument(argument + " must have " + std::to_string(ndim) + " dimension(s)");
  if (!is_contiguous(array)) throw BadArgument(argument + " must be contiguous");
  if (array.size() > INT32_MAX) throw BadArgument(argument + " is too large");
  return static_cast<const int32_t*>(array.data());
}

inline const int32_t* ints_of_length(const Array& array, const char* name, size_t length) {
  const int32_t* data = ints(array, name, 1);
  if (array.shape(0) != length)
    throw BadArgument(std::string(name) + " must have " + std::to_string(length) + " elements, not " +
                      std::to_string(array.shape(0)));
  return data;
}

}  // namespace sluice
