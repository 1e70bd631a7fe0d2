#include "machine/phases.h"

#include "kernels/set.h"

namespace sluice {

namespace {

constexpr int kSpins = 2000;  // 20 to 50 microseconds

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

template <class T>
void await_change(std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

template void await_change(std::atomic<int>&, int);
template void await_change(std::atomic<uint32_t>&, uint32_t);

void Phases::reset(int num_threads) {
  if (num_threads > num_threads_) parts_ = std::make_unique<Part[]>(num_threads);
  num_threads_ = num_threads;
  for (int i = 0; i < num_threads; ++i) parts_[i].next.store(0, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  current_.store(0, std::memory_order_release);
}

int Phases::take(uint32_t index, int count, int thread, int& part) {
  for (; part < num_threads_; ++part) {
    const int owner = thread + part < num_threads_ ? thread + part : thread + part - num_threads_;
    const int begin = static_cast<int>(static_cast<int64_t>(count) * owner / num_threads_);
    const int size = static_cast<int>(static_cast<int64_t>(count) * (owner + 1) / num_threads_) - begin;
    std::atomic<uint64_t>& next = parts_[owner].next;
    uint64_t seen = next.load(std::memory_order_acquire);
    while (true) {
      if (static_cast<uint32_t>(seen >> 32) != index) return -1;  // the others have ended this phase
      const int taken = static_cast<int>(seen & 0xffffffffu);
      if (taken >= size) break;
      if (next.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        return begin + taken;
    }
  }
  return -1;
}

void Phases::end(uint32_t index, int count, int done) {
  // The thread that completes the last chunk opens the next phase. No other thread can still take chunks of this one.
  if (done > 0 && done_.fetch_add(done, std::memory_order_acq_rel) + done == count) {
    done_.store(0, std::memory_order_relaxed);
    for (int i = 0; i < num_threads_; ++i)
      parts_[i].next.store(static_cast<uint64_t>(index + 1) << 32, std::memory_order_release);
    current_.store(index + 1, std::memory_order_release);
    current_.notify_all();
    return;
  }
  await_change(current_, index);
}

int take_chunk(Phases& phases, uint32_t index, int count, int thread, int& part) {
  return phases.take(index, count, thread, part);
}

void end_phase(Phases& phases, uint32_t index, int count, int done) { phases.end(index, count, done); }

}  // namespace sluice
