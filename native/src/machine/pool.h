// The threads that compute steps: one pool per process, so that several models never contend for the cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class Pool {
 public:
  static Pool& shared();
  ~Pool();

  // Run task(0) on the calling thread, and task(1) … task(num_threads - 1) on the pool's threads that join before
  // task(0) returns. Return when none of them is still running it. Calls are serialized.
  void run(int num_threads, const std::function<void(int)>& task);

 private:
  struct Worker {
    std::thread thread;
    alignas(64) std::atomic<uint32_t> round{0};
  };
  void work(int index, Worker& worker);

  std::mutex turn_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const std::function<void(int)>* task_ = nullptr;
  int num_threads_ = 0;  // of the task
  // The number of pool threads running the task; negative while there is no task to join.
  alignas(64) std::atomic<int> joined_{kClosed};
  std::atomic<bool> stops_{false};
  static constexpr int kClosed = -(1 << 20);
};

}  // namespace sluice
