// The step of one instruction set with weights that are integer codes.
#include "kernels/step.h"

namespace sluice {
namespace SLUICE_SET {

void run_codes(const Step& step, int thread) {
  if (step.weights->type == Type::Int8) return run<Int8Format, Int8Format>(step, thread);
  return run<Int4Format, Int8Format>(step, thread);
}

}  // namespace SLUICE_SET
}  // namespace sluice
