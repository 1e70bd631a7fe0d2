// One instruction set: its functions, compiled with the flags of the set, as are the other sources of add_set in
// CMakeLists.txt, which compile at the same time. Templates of the standard library must not be used in these files,
// since the linker would keep one copy of them for all sets.
#include "kernels/set.h"

#include "kernels/formats.h"
#include "kernels/packed/packed_lanes.h"
#include "kernels/sampling.h"
#if defined(SLUICE_SET_amx)
#include "kernels/registers/tile_unit.h"
#endif

namespace sluice {
namespace SLUICE_SET {

void run_numbers(const Step& step, int thread);
void run_codes(const Step& step, int thread);

void run_step(const Step& step, int thread) {
  switch (step.weights->type) {
    case Type::Float32:
    case Type::BFloat16:
    case Type::Int4:
      return run_numbers(step, thread);
    case Type::Int8:
    case Type::Packed:
      return run_codes(step, thread);
  }
}

uint64_t read_memory(const uint8_t* from, size_t bytes) {
  constexpr int kStreams = 8;  // the number of groups that a decode reads at a time
  const size_t each = bytes / kStreams / 64 * 64;
  IntLanes sums[kStreams] = {};
  for (size_t at = 0; at < each; at += 64) {
    unroll<kStreams>([&](auto s) __attribute__((always_inline)) {
      const IntLanes value = load16_int(from + s * each + at);
      unroll<kRegisters>([&](auto r)
                             __attribute__((always_inline)) { sums[s].v[r] = add_int(sums[s].v[r], value.v[r]); });
    });
  }
  uint64_t result = 0;
  for (const IntLanes& sum : sums) {
    int32_t lanes[16];
    for (int r = 0; r < kRegisters; ++r) store_int(lanes + r * kLanes, sum.v[r]);
    for (const int32_t lane : lanes) result += static_cast<uint32_t>(lane);
  }
  return result;
}

namespace {

// Sums have different initial values and the input changes, so that compilers cannot eliminate products.
template <class Format>
uint64_t multiply_many(const uint8_t* numbers, int rounds, float* sum) {
  constexpr int kSums = kRegisters == 1 ? 16 : kRegisters == 2 ? 5 : 2;  // enough to hide the latency of an addition
  const auto weight = Format::load(reinterpret_cast<const typename Format::Weight*>(numbers));
  Lanes sums[kSums];
  unroll<kSums>([&](auto n) __attribute__((always_inline)) {
    sums[n] = load16(reinterpret_cast<const float*>(numbers) + n * 16);
  });
  for (int round = 0; round < rounds; ++round) {
    const auto input = Format::broadcast(reinterpret_cast<const typename Format::Input*>(numbers + round % 8 * 64));
    unroll<kSums>([&](auto n) __attribute__((always_inline)) { Format::add(sums[n], weight, input); });
  }
  *sum = 0;
  unroll<kSums>([&](auto n) __attribute__((always_inline)) { *sum += sum_of(sums[n]); });
  return static_cast<uint64_t>(rounds) * kSums * 16 * Format::kColumns;
}

uint64_t multiply_codes_many(const uint8_t* numbers, int rounds, float* sum) {
  constexpr int kSums = 12;
  const VI weight = low_bytes(load_int(numbers));
  VI sums[kSums];
  unroll<kSums>([&](auto n) __attribute__((always_inline)) { sums[n] = load_int(numbers + n * 64); });
  for (int round = 0; round < rounds; ++round) {
    const VI input = set1_int(numbers[round % 8 * 64]);
    unroll<kSums>([&](auto n) __attribute__((always_inline)) { sums[n] = add_products(sums[n], weight, input); });
  }
  VI total = set1_int(0);
  unroll<kSums>([&](auto n) __attribute__((always_inline)) { total = add_int(total, sums[n]); });
  int32_t lanes[kLanes];
  store_int(lanes, total);
  *sum = static_cast<float>(lanes[0]);
  return static_cast<uint64_t>(rounds) * kSums * kLanes * 2;
}

#if defined(SLUICE_SET_amx)
template <class Format>
uint64_t count_on_unit(const uint8_t* numbers, int rounds, float* sum) {
  alignas(64) float out[256];
  multiply_on_unit<Format>(numbers, rounds, out);
  *sum = sum_of(load16(out));
  return static_cast<uint64_t>(rounds) * 4 * kUnitRows * 16 * (64 / sizeof(typename Format::Input));
}
#endif

}  // namespace

uint64_t multiply_registers(Type type, const uint8_t* numbers, int rounds, float* sum) {
#if defined(SLUICE_SET_amx)
  if (type == Type::BFloat16 || type == Type::Int4) return count_on_unit<BFloat16Format>(numbers, rounds, sum);
  if (type == Type::Int8) return count_on_unit<Int8Format>(numbers, rounds, sum);
#endif
  switch (type) {
    case Type::Float32:
      return multiply_many<Float32Format>(numbers, rounds, sum);
    case Type::BFloat16:
    case Type::Int4:  // uses the products of bf16
      return multiply_many<BFloat16Format>(numbers, rounds, sum);
    case Type::Int8:
      return multiply_many<Int8Format>(numbers, rounds, sum);
    case Type::Packed:
      return multiply_codes_many(numbers, rounds, sum);
  }
  return 0;
}

}  // namespace SLUICE_SET
}  // namespace sluice
