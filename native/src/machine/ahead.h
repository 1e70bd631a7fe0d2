// A thread that makes the system allocate the cache's next memory between steps.
//
// The system allocates memory when it is first touched, and so does a virtual machine's host: a step that touches new
// blocks of the cache would wait for this for up to a tenth of its time. The thread pauses while a step is computed,
// since other changes to the process's memory map wait until an allocation is complete.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sluice {

class Ahead {
 public:
  // The memory is `size` bytes at `data`, and is used from its end downwards.
  Ahead(uint8_t* data, size_t size);
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // Note that a step begins, which uses the memory from offset `lowest` on. As much again is allocated before `lowest`,
  // 8 to 128 MiB.
  void begin(size_t lowest);
  // Note that the step has ended.
  void end();

 private:
  void work();
  size_t wanted_from() const;

  uint8_t* const data_;
  const size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t lowest_;  // lowest offset in use
  size_t given_;   // memory from this offset up to `lowest_` is allocated
  bool steps_ = false, stops_ = false;
  std::chrono::steady_clock::time_point ended_{};
  std::thread thread_;
};

}  // namespace sluice
