// The step of one instruction set with weights whose inputs are floating-point numbers.
#include "kernels/step.h"

namespace sluice {
namespace SLUICE_SET {

void run_numbers(const Step& step, int thread) {
  step.weights->type == Type::Float32 ? run<Float32Format>(step, thread) : run<HalfFormat>(step, thread);
}

}  // namespace SLUICE_SET
}  // namespace sluice
