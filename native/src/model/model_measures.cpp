// The part of a model that measures the limits of its speed on this machine: of memory, and of arithmetic.
#include <atomic>
#include <chrono>

#include "model/model.h"

namespace sluice {

double Model::time_chunks(int num_threads, int count, const std::function<void(int)>& body) {
  phases_.reset(num_threads);
  const auto began = std::chrono::steady_clock::now();
  Pool::shared().run(num_threads, [&](int thread) {
    int part = 0, done = 0;
    for (int chunk; (chunk = phases_.take(0, count, thread, part)) >= 0; ++done) body(chunk);
    phases_.end(0, count, done);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double Model::read_weights(int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  const int count = 32 * num_threads;
  const size_t each = weight_memory_.size() / static_cast<size_t>(count);
  std::atomic<uint64_t> sum{0};
  return time_chunks(num_threads, count, [&](int chunk) {
    sum += options_.set->read(weight_memory_.data() + each * static_cast<size_t>(chunk), each);
  });
}

double Model::multiply_rate(int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  constexpr int kRounds = 20'000;
  const std::vector<uint8_t> numbers(kNumbers);
  std::atomic<uint64_t> products{0};
  std::atomic<float> sum{0};
  const double seconds = time_chunks(num_threads, 8 * num_threads, [&](int) {
    float part;
    products += options_.set->multiply(options_.type, numbers.data(), kRounds, &part);
    sum.store(part, std::memory_order_relaxed);
  });
  return static_cast<double>(products) / seconds;
}

}  // namespace sluice
