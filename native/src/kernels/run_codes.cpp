// The step of one instruction set with weights whose inputs are quantized.
#include "kernels/step.h"

namespace sluice {
namespace SLUICE_SET {

void run_codes(const Step& step, int thread) {
  step.weights->type == Type::Int8 ? run<Int8Format>(step, thread) : run<PackedFormat>(step, thread);
}

}  // namespace SLUICE_SET
}  // namespace sluice
