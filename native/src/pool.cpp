#include "pool.h"

#include "kernels/set.h"

namespace sluice {

namespace {

constexpr int kSpins = 4000;  // about 50 microseconds

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spin for a while until `value` is no longer `old`, then sleep until it is changed.
template <class T>
void await_change(std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

void Barrier::reset(int num_threads) {
  num_threads_ = num_threads;
  missing_.store(num_threads, std::memory_order_relaxed);
}

void Barrier::wait() {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    missing_.store(num_threads_, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    round_.notify_all();
  } else {
    await_change(round_, round);
  }
}

void meet(Barrier& barrier) { barrier.wait(); }

Pool& Pool::shared() {
  static Pool pool;
  return pool;
}

Pool::~Pool() {
  stops_.store(true);
  for (auto& worker : workers_) {
    worker->round.fetch_add(1);
    worker->round.notify_one();
  }
  for (auto& worker : workers_) worker->thread.join();
}

void Pool::run(int num_threads, Barrier& barrier, const std::function<void(int)>& task) {
  const std::lock_guard<std::mutex> turn(turn_);
  while (static_cast<int>(workers_.size()) < num_threads - 1) {
    const int index = static_cast<int>(workers_.size()) + 1;
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = std::thread([this, index, &worker] { work(index, worker); });
  }
  barrier.reset(num_threads);
  task_ = &task;
  unfinished_.store(num_threads - 1, std::memory_order_relaxed);
  for (int i = 0; i < num_threads - 1; ++i) {
    workers_[i]->round.fetch_add(1, std::memory_order_release);
    workers_[i]->round.notify_one();
  }
  task(0);
  for (int left = unfinished_.load(std::memory_order_acquire); left > 0;
       left = unfinished_.load(std::memory_order_acquire))
    await_change(unfinished_, left);
}

void Pool::work(int index, Worker& worker) {
  uint32_t round = 0;
  while (true) {
    await_change(worker.round, round);
    ++round;
    if (stops_.load()) return;
    (*task_)(index);
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    unfinished_.notify_one();
  }
}

}  // namespace sluice
