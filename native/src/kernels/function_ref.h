// A reference to a function object, which is called through a pointer: the caller's code is compiled once for all of
// them.
#pragma once

#include "kernels/registers/lanes.h"

namespace sluice {
namespace SLUICE_SET {

// The function object must outlive the reference.
template <class... Arguments>
class FunctionRef {
 public:
  template <class F>
  SLUICE_INLINE FunctionRef(const F& function)
      : object_(&function),
        call_([](const void* object, Arguments... arguments) { (*static_cast<const F*>(object))(arguments...); }) {}

  SLUICE_INLINE void operator()(Arguments... arguments) const { call_(object_, arguments...); }

 private:
  const void* object_;
  void (*call_)(const void* object, Arguments... arguments);
};

}  // namespace SLUICE_SET
}  // namespace sluice
