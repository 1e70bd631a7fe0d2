#include "machine/pool.h"

#include "machine/phases.h"

namespace sluice {

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

void Pool::run(int num_threads, const std::function<void(int)>& task) {
  const std::lock_guard<std::mutex> turn(turn_);
  while (static_cast<int>(workers_.size()) < num_threads - 1) {
    const int index = static_cast<int>(workers_.size()) + 1;
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = std::thread([this, index, &worker] { work(index, worker); });
  }
  if (num_threads == 1) return task(0);
  task_ = &task;
  num_threads_ = num_threads;
  joined_.store(0, std::memory_order_release);
  for (int i = 0; i < num_threads - 1; ++i) {
    workers_[i]->round.fetch_add(1, std::memory_order_release);
    workers_[i]->round.notify_one();
  }
  task(0);
  joined_.fetch_add(kClosed, std::memory_order_acq_rel);
  for (int joined = joined_.load(std::memory_order_acquire); joined != kClosed;
       joined = joined_.load(std::memory_order_acquire))
    await_change(joined_, joined);
}

void Pool::work(int index, Worker& worker) {
  uint32_t round = 0;
  while (true) {
    await_change(worker.round, round);
    round = worker.round.load(std::memory_order_acquire);  // rounds missed during sleep are skipped
    if (stops_.load()) return;
    int joined = joined_.load(std::memory_order_acquire);
    while (joined >= 0 && !joined_.compare_exchange_weak(joined, joined + 1, std::memory_order_acq_rel)) {
    }
    if (joined < 0) continue;                   // the task is complete
    if (index < num_threads_) (*task_)(index);  // the thread may have been woken for an earlier task of more threads
    joined_.fetch_sub(1, std::memory_order_acq_rel);
    joined_.notify_one();
  }
}

}  // namespace sluice
