// One instruction set: the step's templates, compiled with the flags of the set. Nothing of the standard library's
// templates is used here, since the linker would keep one copy of them for all sets.
#include "set.h"

#include "step.h"

namespace sluice {
namespace SLUICE_SET {

const bool kInputsAreHalf = sizeof(Half) == 2;

void run_step(const Step& step, int thread) {
  switch (step.weights->layers[0].qkv.type) {
    case Type::Float32:
      return run<Float32Format, Float32Format>(step, thread);
    default:
      return run<BFloat16Format, BFloat16Format>(step, thread);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
