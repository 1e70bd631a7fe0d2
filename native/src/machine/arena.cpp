#include "machine/arena.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "types.h"

namespace sluice {

namespace {
constexpr size_t kHugePage = 2 << 20, kPage = 4096;
}

Arena::Arena(size_t bytes) : size_(round_up(bytes > 0 ? bytes : 1, bytes < kHugePage ? kPage : kHugePage)) {
  reserve(PROT_READ | PROT_WRITE);
  advise();
}

Arena::Arena(int file, size_t offset, size_t bytes) : size_(round_up(bytes, kPage)) {
  reserve(PROT_NONE);
  void* at = mmap(data_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    munmap(data_, size_);
    throw std::bad_alloc();
  }
  advise();
}

void Arena::reserve(int protection) {
  // Reserve one huge page more than is needed, so that the used part can begin at a huge page boundary.
  const size_t reserved = size_ < kHugePage ? size_ : size_ + kHugePage;
  void* at = mmap(nullptr, reserved, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<uint8_t*>(at);
  data_ = begin;
  if (reserved == size_) return;
  data_ += (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (data_ > begin) munmap(begin, static_cast<size_t>(data_ - begin));
  const size_t behind = static_cast<size_t>(begin + reserved - (data_ + size_));
  if (behind > 0) munmap(data_ + size_, behind);
}

void Arena::advise() {
#if defined(MADV_HUGEPAGE)
  if (size_ >= kHugePage) madvise(data_, size_, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace sluice
