// Memory that will be wanted next is asked of the system before, by a thread that runs where nothing else does.
//
// A system gives memory when it is first touched, and a virtual machine's host once more: a step that touches new blocks
// of the cache waited for that for up to a tenth of its time.
#pragma once

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

  // What lies at `lowest` and behind it is in use: as much again is wanted before it, between 8 and 64 MiB.
  void used_from(size_t lowest);

 private:
  void work();

  uint8_t* const data_;
  const size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t lowest_;  // in use
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace sluice
