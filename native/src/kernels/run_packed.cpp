// The step of one instruction set with weights in the blocks of files.
#include "kernels/step.h"

namespace sluice {
namespace SLUICE_SET {

void run_packed(const Step& step, int thread) { run<PackedFormat, PackedFormat>(step, thread); }

}  // namespace SLUICE_SET
}  // namespace sluice
