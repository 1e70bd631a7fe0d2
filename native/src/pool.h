// The threads that share a step: one pool for the process, so that several models never contend for the cores.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

// A meeting point of a fixed number of threads. A thread spins for a bounded while, since phases are short, and then
// sleeps, so that it doesn't take a core from whoever the others wait for.
class Barrier {
 public:
  void reset(int num_threads);
  void wait();

 private:
  alignas(64) std::atomic<int> missing_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
  int num_threads_ = 1;
};

class Pool {
 public:
  static Pool& shared();
  ~Pool();

  // Run task(0) on the caller and task(1) … task(num_threads - 1) on the pool's threads; return when all are done.
  // Callers take turns.
  void run(int num_threads, Barrier& barrier, const std::function<void(int)>& task);

 private:
  struct Worker {
    std::thread thread;
    alignas(64) std::atomic<uint32_t> round{0};
  };
  void work(int index, Worker& worker);

  std::mutex turn_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const std::function<void(int)>* task_ = nullptr;
  alignas(64) std::atomic<int> unfinished_{0};
  std::atomic<bool> stops_{false};
};

}  // namespace sluice
