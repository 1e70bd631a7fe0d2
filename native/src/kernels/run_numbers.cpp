// The step of one instruction set with weights that are floating-point numbers.
#include "kernels/step.h"

namespace sluice {
namespace SLUICE_SET {

void run_numbers(const Step& step, int thread) {
  if (step.weights->type == Type::Float32) return run<Float32Format, Float32Format>(step, thread);
  return run<BFloat16Format, BFloat16Format>(step, thread);
}

}  // namespace SLUICE_SET
}  // namespace sluice
