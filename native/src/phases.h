// How the threads of a step share its work: phases, one after another, each of a number of chunks.
//
// A phase ends when its chunks are done, not when all threads have come: each thread takes the chunks of its own part
// first and then those of others, so a thread that the system has put aside holds up nobody, unless it has a chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace sluice {

class Phases {
 public:
  // Before a step, by the thread that starts it.
  void reset(int num_threads);

  // A chunk of phase `index`, which has `count`, for `thread`; -1 if none is left. `part` is the caller's note of whose
  // chunks it takes, 0 at first.
  int take(uint32_t index, int count, int thread, int& part);

  // Tell that `done` chunks of the phase are done, and wait for the others'.
  void end(uint32_t index, int count, int done);

 private:
  struct alignas(64) Part {
    std::atomic<uint64_t> next{0};  // the phase in the upper half, how many of its chunks are taken in the lower
  };
  std::unique_ptr<Part[]> parts_;
  int num_threads_ = 0;
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<uint32_t> current_{0};
};

// Spin for a bounded while until `value` is no longer `old`, since phases are short; then sleep until it is changed, so
// that the core is free for whoever is waited for.
template <class T>
void await_change(std::atomic<T>& value, T old);

}  // namespace sluice
