// The work of a step, shared by its threads: consecutive phases, each of a number of chunks.
//
// A phase ends when its chunks are done, even if a thread has not arrived: each thread takes the chunks of its own part
// first and then steals those of others, so a descheduled thread delays the others only if it holds a chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace sluice {

class Phases {
 public:
  // Start over. Called before a step by the thread that starts it.
  void reset(int num_threads);

  // Take a chunk of phase `index`, which has `count` chunks, for `thread`; -1 if none is left. `part` is the caller's
  // state of the search, initially 0: how many threads' parts were exhausted.
  int take(uint32_t index, int count, int thread, int& part);

  // Report that `done` chunks of the phase are done, and wait for the rest.
  void end(uint32_t index, int count, int done);

 private:
  struct alignas(64) Part {
    std::atomic<uint64_t> next{0};  // upper half: the phase; lower half: the number of its chunks taken
  };
  std::unique_ptr<Part[]> parts_;
  int num_threads_ = 0;
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<uint32_t> current_{0};
};

// Wait until `value` is no longer `old`: spin for a bounded time, since phases are short, and then sleep, so that the
// core is free for the thread that is waited for.
template <class T>
void await_change(std::atomic<T>& value, T old);

}  // namespace sluice
