// The products of attention: a piece's rows with the keys of a block, and its weights with the block's values.
//
// A row is one query head of one new token; see attention.h.
#pragma once

#include "kernels/attention/cached_bytes.h"
#include "kernels/attention/turn.h"
#include "kernels/registers/activation.h"
#include "kernels/rows.h"
#if defined(SLUICE_SET_amx)
#include "kernels/attention/attention_unit.h"
#endif

namespace sluice {
namespace SLUICE_SET {

#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
constexpr int kAttendRows = 4, kAttendGroups = 4;
#elif defined(SLUICE_SET_avx2)
constexpr int kAttendRows = 2, kAttendGroups = 2;
#else
constexpr int kAttendRows = 1, kAttendGroups = 2;
#endif

// The parts of keys that are bytes, with M rows: there are two sums of each.
template <int M>
constexpr int kByteGroups = kRegisters > 1 ? 1 : M > 2 ? 2 : 4;

// The running softmax state of the rows of one piece, in a thread's scratch memory.
template <class Format>
struct Rows {
  using Input = typename Format::Input;
  Input* queries;  // [rows][width]
  Input* weights;  // [rows][64]
  float* scores;   // [rows][64]
  float* sums;     // [rows][value_width], of weighted values
  float* totals;   // [rows][16], of weights, lane by lane
  float* largest;  // [rows]
  float* rescale;  // [rows]
  ByteRows bytes;  // of CachedBytes

  uint8_t* rest;   // of the scratch memory

  // The widths of queries and of values are padded.
  Rows(uint8_t* scratch, int rows, int width, int value_width) {
    const auto take = [&](size_t bytes) {
      uint8_t* at = scratch;
      scratch += round_up(bytes, 64);
      return at;
    };
    const size_t count = static_cast<size_t>(rows);
    queries = reinterpret_cast<Input*>(take(count * width * sizeof(Input)));
    weights = reinterpret_cast<Input*>(take(count * kKeys * sizeof(Input)));
    scores = reinterpret_cast<float*>(take(count * kKeys * sizeof(float)));
    sums = reinterpret_cast<float*>(take(count * value_width * sizeof(float)));
    totals = reinterpret_cast<float*>(take(count * 16 * sizeof(float)));
    largest = reinterpret_cast<float*>(take(count * sizeof(float)));
    rescale = reinterpret_cast<float*>(take(count * sizeof(float)));
    if constexpr (kIsBytes<Format>) {
      const size_t runs = count * static_cast<size_t>(runs_of(width));
      bytes.queries = reinterpret_cast<int8_t*>(take(runs * kScaledKeys));
      bytes.query_scales = reinterpret_cast<float*>(take(runs * sizeof(float)));
      bytes.offsets = reinterpret_cast<int32_t*>(take(runs * sizeof(int32_t)));
      bytes.weights = take(count * kKeys);
      bytes.weight_scales = reinterpret_cast<float*>(take(count * sizeof(float)));
    }
    rest = scratch;
  }
};

// Prefetch `next` at the same offset as the weights in use, once per cache line of 64 bytes.
template <class Format>
SLUICE_INLINE void prefetch_line(const uint8_t* next, size_t offset, int step) {
  constexpr int kSteps = 64 / (Format::kWeights * sizeof(typename Format::Weight));  // per cache line
  if (next != nullptr && step % kSteps == 0) __builtin_prefetch(next + offset, 0, 2);
}

// Compute the scores of M rows with N parts' keys. Blocks are scattered, so `next`, the block after this one, is
// prefetched meanwhile; it may be null.
template <class Format, int M, int N>
void score_tile(const Rows<Format>& rows, int row, int width, const Slots& slots, int part, const Slots* next) {
  const typename Format::Input* x[M];
  const typename Format::Weight* w[N];
  const uint8_t* ahead[N];
  for (int m = 0; m < M; ++m) x[m] = rows.queries + static_cast<size_t>(row + m) * width;
  for (int n = 0; n < N; ++n) {
    w[n] = reinterpret_cast<const typename Format::Weight*>(slots.keys[part + n]);
    ahead[n] = next == nullptr ? nullptr : next->keys[part + n];
  }
  Lanes sums[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = all16(0); });
  });
  multiply_prefetching<Format>(sums, x, w, width / Format::kColumns,
                               [&](int n, const uint8_t* at, int step) __attribute__((always_inline)) {
                                 prefetch_line<Format>(ahead[n], static_cast<size_t>(at - slots.keys[part + n]), step);
                               });
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      store16(rows.scores + static_cast<size_t>(row + m) * kKeys + (part + n) * 16, sums[m][n]);
    });
  });
}

// Compute sums = sums * rescale + weights · values for M rows and N groups of 16 dimensions.
template <class Format, int M, int N>
void value_tile(const Rows<Format>& rows, int row, int width, const Slots& slots, int group, const Slots* next) {
  Lanes sums[M][N];
  float* at[M];
  for (int m = 0; m < M; ++m) at[m] = rows.sums + static_cast<size_t>(row + m) * width + group * 16;
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    const Lanes factor = all16(rows.rescale[row + m]);
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = load16(at[m] + n * 16) * factor; });
  });
  for (int part = slots.begin; part < slots.end; ++part) {
    const typename Format::Input* x[M];
    const typename Format::Weight* w[N];
    const uint8_t* ahead = next == nullptr ? nullptr : next->values[part];
    for (int m = 0; m < M; ++m) x[m] = rows.weights + static_cast<size_t>(row + m) * kKeys + part * 16;
    for (int n = 0; n < N; ++n)
      w[n] = reinterpret_cast<const typename Format::Weight*>(slots.values[part]) + (group + n) * 256;
    multiply_prefetching<Format>(sums, x, w, 16 / Format::kColumns,
                                 [&](int, const uint8_t* from, int step) __attribute__((always_inline)) {
                                   prefetch_line<Format>(ahead, static_cast<size_t>(from - slots.values[part]), step);
                                 });
  }
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { store16(at[m] + n * 16, sums[m][n]); });
  });
}

// Scale and limit a row's scores.
inline void cap_scores(float* scores, float scale, float cap) {
  for (int i = 0; i < kKeys; i += 16) store16(scores + i, soft_capped(load16(scores + i) * all16(scale), cap));
}

// Convert a row's scores to weights and update its running state; only the keys [begin, end) of the block are visible.
template <class Format>
void weigh(const Rows<Format>& rows, int row, int begin, int end, float scale) {
  float* scores = rows.scores + static_cast<size_t>(row) * kKeys;
  auto* weights = rows.weights + static_cast<size_t>(row) * kKeys;
  if (begin >= end) {
    for (int i = 0; i < kKeys; i += 16) store_input(weights + i, all16(0));
    rows.rescale[row] = 1;
    return;
  }
  for (int i = 0; i < begin; ++i) scores[i] = -__builtin_inff();
  for (int i = end; i < kKeys; ++i) scores[i] = -__builtin_inff();
  Lanes scaled[kParts];
  const Lanes factor = all16(scale);
  unroll<kParts>([&](auto i) __attribute__((always_inline)) { scaled[i] = load16(scores + i * 16) * factor; });
  const float highest = largest_of(max16(max16(scaled[0], scaled[1]), max16(scaled[2], scaled[3])));
  const float before = rows.largest[row], largest = highest > before ? highest : before;
  const V drop = set1(largest);
  Lanes sum = all16(0);
  unroll<kParts>([&](auto i) __attribute__((always_inline)) {
    const Lanes weight = map(scaled[i], [&](V x) __attribute__((always_inline)) {
      return kIsBytes<Format> ? quick_exp(x - drop) : exp(x - drop);
    });
    store_input(weights + i * 16, weight);
    sum = sum + weight;
  });
  alignas(64) float lanes[kLanes] = {1};
  if (before != largest) store(lanes, exp(set1(before - largest)));
  rows.rescale[row] = lanes[0];
  rows.largest[row] = largest;
  float* totals = rows.totals + static_cast<size_t>(row) * 16;
  store16(totals, fma16(load16(totals), all16(lanes[0]), sum));
}

// Call body(row, M) for all rows in tiles of M rows, as many as fit the registers; M is a compile-time constant.
template <class Body>
SLUICE_INLINE void each_tile(int num_rows, const Body& body) {
  int row = 0;
  for (; row + kAttendRows <= num_rows; row += kAttendRows) body(row, std::integral_constant<int, kAttendRows>{});
  unroll<kAttendRows - 1>([&](auto less) __attribute__((always_inline)) {
    constexpr int M = decltype(less)::value + 1;
    if (num_rows - row == M) body(row, std::integral_constant<int, M>{});
  });
}

template <class Format>
void meet_keys(const Rows<Format>& rows, int num_rows, int width, const Slots& slots, const Slots* next) {
#if defined(SLUICE_SET_amx)
  if constexpr (std::is_same_v<Format, BFloat16Format>)
    return meet_keys_on_unit(rows.queries, num_rows, width, slots, next, rows.scores);
#endif
  each_tile(num_rows, [&](int row, auto m) __attribute__((always_inline)) {
    constexpr int M = decltype(m)::value, kGroups = kIsBytes<Format> ? kByteGroups<M> : kAttendGroups;
    const Slots* ahead = row == 0 ? next : nullptr;
    for (int part = 0; part < kParts; part += kGroups)
      if constexpr (kIsBytes<Format>)
        score_bytes<M, kGroups>(rows.bytes, row, width, slots, part, ahead, rows.scores);
      else
        score_tile<Format, M, kGroups>(rows, row, width, slots, part, ahead);
  });
}

template <class Format>
void take_values(const Rows<Format>& rows, int num_rows, int width, const Slots& slots, const Slots* next) {
#if defined(SLUICE_SET_amx)
  if constexpr (std::is_same_v<Format, BFloat16Format>)
    return take_values_on_unit(rows.weights, rows.rescale, num_rows, width, slots, next, rows.sums);
#endif
  if constexpr (kIsBytes<Format>) quantize_weights(rows.weights, num_rows, width, slots, rows.bytes);
  each_tile(num_rows, [&](int row, auto m) __attribute__((always_inline)) {
    constexpr int M = decltype(m)::value;
    const Slots* ahead = row == 0 ? next : nullptr;
    const auto multiply = [&](int group, auto count) __attribute__((always_inline)) {
      constexpr int N = decltype(count)::value;
      if constexpr (kIsBytes<Format>)
        value_bytes_tile<M, N>(rows.bytes, rows.rescale, row, width, slots, group, ahead, rows.sums);
      else
        value_tile<Format, M, N>(rows, row, width, slots, group, ahead);
    };
    int group = 0;
    for (; group + kAttendGroups <= width / 16; group += kAttendGroups)
      multiply(group, std::integral_constant<int, kAttendGroups>{});
    for (; group < width / 16; ++group) multiply(group, std::integral_constant<int, 1>{});
  });
}

}  // namespace SLUICE_SET
}  // namespace sluice
