// Zeroed memory from the system, which is allocated when it is first touched, in huge pages if the system has them; or
// a part of a file in memory, which other processes can map too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes);
  // Map `bytes` of a file from `offset` on, a multiple of the size of a page. The file must be long enough.
  Arena(int file, size_t offset, size_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  // Reserve addresses for `size_` bytes, which begin at a huge page boundary if they are as large as a huge page.
  void reserve(int protection);
  // Ask for huge pages.
  void advise();

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sluice
