#include "ahead.h"

#include <sys/mman.h>
#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>

namespace sluice {

namespace {

constexpr size_t kLeast = 8 << 20, kMost = 64 << 20, kPiece = 2 << 20;  // a piece is a huge page

// Lets the system give what is not there yet; its contents stay. False where it can't.
bool populate([[maybe_unused]] uint8_t* data, [[maybe_unused]] size_t size) {
#if defined(__linux__)
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14, which older headers lack
  return madvise(data, size, kPopulateWrite) == 0;
#else
  return false;
#endif
}

void run_last() {
#if defined(__linux__)
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
#endif
}

}  // namespace

Ahead::Ahead(uint8_t* data, size_t size) : data_(data), size_(size), lowest_(size), thread_([this] { work(); }) {}

Ahead::~Ahead() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Ahead::used_from(size_t lowest) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lowest >= lowest_) return;
    lowest_ = lowest;
  }
  changed_.notify_one();
}

void Ahead::work() {
  run_last();
  std::unique_lock<std::mutex> lock(mutex_);
  for (size_t given = size_; !stops_;) {  // all from there on is given, or is behind what is in use
    const size_t wanted = std::min(std::clamp(size_ - lowest_, kLeast, kMost), lowest_);
    const size_t from = (lowest_ - wanted) / kPiece * kPiece;
    given = std::min(given, lowest_);
    if (given <= from) {
      changed_.wait(lock);
      continue;
    }
    given = (given - 1) / kPiece * kPiece;
    lock.unlock();
    const bool is_given = populate(data_ + given, std::min(kPiece, size_ - given));
    lock.lock();
    if (!is_given) return;
  }
}

}  // namespace sluice
