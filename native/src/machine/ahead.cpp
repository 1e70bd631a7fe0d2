#include "machine/ahead.h"

#include <sys/mman.h>

#include <algorithm>

namespace sluice {

namespace {

constexpr size_t kLeast = 8 << 20, kMost = 128 << 20, kPiece = 2 << 20;  // a piece is a huge page
constexpr std::chrono::milliseconds kPause{10};  // idle time after a step before memory is touched

// Make the system allocate the pages that are not allocated yet; contents do not change. False if it can't.
bool populate([[maybe_unused]] uint8_t* data, [[maybe_unused]] size_t size) {
#if defined(__linux__)
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14; older headers lack it
  return madvise(data, size, kPopulateWrite) == 0;
#else
  return false;
#endif
}

}  // namespace

Ahead::Ahead(uint8_t* data, size_t size)
    : data_(data), size_(size), lowest_(size), given_(size), thread_([this] { work(); }) {}

Ahead::~Ahead() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Ahead::begin(size_t lowest) {
  const std::lock_guard<std::mutex> lock(mutex_);
  steps_ = true;
  if (lowest >= lowest_) return;
  const bool had_enough = given_ <= wanted_from();
  lowest_ = lowest;
  given_ = std::min(given_, lowest);
  if (had_enough && given_ > wanted_from()) changed_.notify_one();
}

void Ahead::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  steps_ = false;
  ended_ = std::chrono::steady_clock::now();
}

size_t Ahead::wanted_from() const {
  return (lowest_ - std::min(std::clamp(size_ - lowest_, kLeast, kMost), lowest_)) / kPiece * kPiece;
}

void Ahead::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stops_) {
    if (given_ <= wanted_from()) {
      changed_.wait(lock);
    } else if (steps_ || std::chrono::steady_clock::now() - ended_ < kPause) {
      changed_.wait_for(lock, kPause);
    } else {
      const size_t from = (given_ - 1) / kPiece * kPiece;
      lock.unlock();
      const bool is_given = populate(data_ + from, std::min(kPiece, size_ - from));
      lock.lock();
      if (!is_given) return;
      given_ = std::min(given_, from);
    }
  }
}

}  // namespace sluice
