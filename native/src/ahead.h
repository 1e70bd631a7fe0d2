// Memory that will be wanted next is asked of the system between steps, by a thread of its own.
//
// A system gives memory when it is first touched, and a virtual machine's host once more: steps that touch new blocks of
// the cache wait for that for up to a tenth of their time. Not while a step is computed: whoever changes the process's
// memory waits until what was asked for is given.
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
  // Of `size` bytes at `data`, whose use goes down from the end.
  Ahead(uint8_t* data, size_t size);
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  // A step begins. What lies at `lowest` and behind it is in use: as much again is wanted before it, 8 to 128 MiB.
  void begin(size_t lowest);
  // It has ended.
  void end();

 private:
  void work();
  size_t wanted_from() const;

  uint8_t* const data_;
  const size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t lowest_;  // in use
  size_t given_;   // all from there on is given, or behind what is in use
  bool steps_ = false, stops_ = false;
  std::chrono::steady_clock::time_point ended_{};
  std::thread thread_;
};

}  // namespace sluice
