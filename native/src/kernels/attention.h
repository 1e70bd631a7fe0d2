// Attention over the paged cache.
//
// A row is one query head of one new token. A row processes the keys of its context in whole blocks of 64 that begin at
// multiples of 64; masked keys have weight zero. So its sums don't depend on other rows.
#pragma once

#include "activation.h"
#include "cached.h"
#include "rows.h"
#include "turn.h"
#if defined(SLUICE_SET_amx)
#include "attention_unit.h"
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
  const float highest = max_of(max16(max16(scaled[0], scaled[1]), max16(scaled[2], scaled[3])));
  const float before = rows.largest[row], largest = highest > before ? highest : before;
  const V drop = set1(largest);
  Lanes sum = all16(0);
  unroll<kParts>([&](auto i) __attribute__((always_inline)) {
    const Lanes weight = map(scaled[i], [&](V x) __attribute__((always_inline)) { return exp(x - drop); });
    store_input(weights + i * 16, weight);
    sum = sum + weight;
  });
  alignas(64) float lanes[kLanes];
  store(lanes, exp(set1(before - largest)));
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
    for (int part = 0; part < kParts; part += kAttendGroups)
      score_tile<Format, decltype(m)::value, kAttendGroups>(rows, row, width, slots, part, row == 0 ? next : nullptr);
  });
}

template <class Format>
void take_values(const Rows<Format>& rows, int num_rows, int width, const Slots& slots, const Slots* next) {
#if defined(SLUICE_SET_amx)
  if constexpr (std::is_same_v<Format, BFloat16Format>)
    return take_values_on_unit(rows.weights, rows.rescale, num_rows, width, slots, next, rows.sums);
#endif
  each_tile(num_rows, [&](int row, auto m) __attribute__((always_inline)) {
    const Slots* ahead = row == 0 ? next : nullptr;
    int group = 0;
    for (; group + kAttendGroups <= width / 16; group += kAttendGroups)
      value_tile<Format, decltype(m)::value, kAttendGroups>(rows, row, width, slots, group, ahead);
    for (; group < width / 16; ++group)
      value_tile<Format, decltype(m)::value, 1>(rows, row, width, slots, group, ahead);
  });
}

// The first slot of a piece's tokens, and the earliest and the last slot that are visible to any of them.
struct Span {
  int first, earliest, last;
};

// The earliest and the last of the slots that the token of a slot attends to.
inline int earliest_of(const AttentionPlan& plan, int slot) {
  return plan.window > 0 && slot >= plan.window ? slot - plan.window + 1 : 0;
}
inline int latest_of(const AttentionPlan& plan, int slot, int length) {
  if (plan.is_causal) return slot;
  return plan.window > 0 && length - slot > plan.window ? slot + plan.window - 1 : length - 1;
}

inline Span span_of(const Step& step, int layer, const Piece& piece) {
  const Batch& batch = step.batch;
  const AttentionPlan& plan = step.weights->layers[layer].plan.attention;
  const int length = batch.context_lengths[piece.sequence];
  const int first = length - batch.row_offsets[piece.sequence + 1] + piece.first_token;
  const int last = first + piece.num_tokens - 1;
  return {first, earliest_of(plan, first), latest_of(plan, last, length)};
}

// Where the queries of a layer are read and its results are written, both [tokens][stride] with adjacent heads, and how
// many query heads of a kv head are one unit of work.
template <class Out>
struct HeadRows {
  const float* queries;
  size_t query_stride;
  Out* out;
  size_t out_stride;
  int out_dim, out_head_stride;  // results of a head; those that are not values are zeros
  int num_heads;                 // of a unit
  int num_units;                 // of a piece
  const Piece* pieces;
};

// Compute attention of one piece's tokens with some heads. `after` is the unit that this thread will likely compute
// next, or -1.
template <class Format, class Out>
void attend(const Step& step, int layer, int unit, int after, uint8_t* scratch, const HeadRows<Out>& heads) {
  const Layer& weights = step.weights->layers[layer];
  const AttentionPlan& plan = weights.plan.attention;
  const bool is_latent = weights.latent != nullptr;
  const float* sinks = weights.sinks;
  const Piece& piece = heads.pieces[unit / heads.num_units];
  const int first_head = unit % heads.num_units * heads.num_heads, kv_head = first_head / plan.group_size();
  const int rest = plan.num_heads - first_head, group_size = rest < heads.num_heads ? rest : heads.num_heads;
  const int width = plan.padded_head_dim(), dim = plan.head_dim;
  const int value_width = is_latent ? (heads.out_dim + 15) / 16 * 16 : width;
  const int length = step.batch.context_lengths[piece.sequence];
  const int num_rows = piece.num_tokens * group_size;
#if defined(SLUICE_SET_amx)
  if constexpr (std::is_same_v<Format, BFloat16Format>) begin_attention_on_unit();
  const Rows<Format> rows(scratch, (num_rows + kUnitRows - 1) / kUnitRows * kUnitRows, width, value_width);
#else
  const Rows<Format> rows(scratch, num_rows, width, value_width);
#endif
  const Span span = span_of(step, layer, piece);

  for (int row = 0; row < num_rows; ++row) {
    const int from_row = piece.first_row + row / group_size, head = first_head + row % group_size;
    const float* from = heads.queries + static_cast<size_t>(from_row) * heads.query_stride + head * dim;
    for (int d = 0; d < width; d += 16)
      store_input(rows.queries + static_cast<size_t>(row) * width + d, load_some(from + d, dim - d));
    for (int d = 0; d < value_width; d += 16) store16(rows.sums + static_cast<size_t>(row) * value_width + d, all16(0));
    store16(rows.totals + row * 16, all16(0));
    rows.largest[row] = -1e30f;
    rows.rescale[row] = 1;
    if (sinks != nullptr) {  // a key that is seen first, with the weight 1 and a value of zeros
      rows.largest[row] = sinks[head];
      rows.totals[row * 16] = 1;
    }
  }

  const Head head = head_of(step, layer, piece.sequence, kv_head);
  int base = span.earliest / kKeys * kKeys;
  Slots slots = slots_of(head, base, span.earliest, span.last), next = slots;
  for (; base <= span.last; base += kKeys) {
    const bool is_last = base + kKeys > span.last;
    if (!is_last) {
      next = slots_of(head, base + kKeys, span.earliest, span.last);
    } else if (after >= 0) {
      const Piece& then = heads.pieces[after / heads.num_units];
      const Span its = span_of(step, layer, then);
      const int its_head = after % heads.num_units * heads.num_heads / plan.group_size();
      next = slots_of(head_of(step, layer, then.sequence, its_head), its.earliest / kKeys * kKeys, its.earliest,
                      its.last);
    }
    const Slots* ahead = is_last && after < 0 ? nullptr : &next;
    meet_keys<Format>(rows, num_rows, width, slots, ahead);
    for (int row = 0; row < num_rows; ++row) {
      const int slot = span.first + row / group_size;
      const int lowest = earliest_of(plan, slot), end = latest_of(plan, slot, length) + 1;
      const int from = lowest > base ? lowest - base : 0, to = end - base < kKeys ? end - base : kKeys;
      if (plan.soft_cap > 0) cap_scores(rows.scores + static_cast<size_t>(row) * kKeys, plan.scale, plan.soft_cap);
      weigh<Format>(rows, row, from, to, plan.soft_cap > 0 ? 1.0f : plan.scale);
    }
    if (is_latent) values_of_keys<Format>(slots, value_width, rows.rest);
    take_values<Format>(rows, num_rows, value_width, slots, is_latent ? nullptr : ahead);
    slots = next;
  }

  for (int row = 0; row < num_rows; ++row) {
    const int to_row = piece.first_row + row / group_size, h = first_head + row % group_size;
    Out* to = heads.out + static_cast<size_t>(to_row) * heads.out_stride + h * heads.out_head_stride;
    const float* sums = rows.sums + static_cast<size_t>(row) * value_width;
    const float factor = 1.0f / sum_of(load16(rows.totals + static_cast<size_t>(row) * 16));
    int d = 0;
    if (plan.has_gate) {
      const float* gates = step.wide + static_cast<size_t>(to_row) * step.wide_stride + plan.gate_column() + h * dim;
      for (; d < dim; d += 16) {
        const Lanes gate = map(load_some(gates + d, dim - d), [](V x) __attribute__((always_inline)) { return sigmoid(x); });
        store_some(to + d, load16(sums + d) * all16(factor) * gate, dim - d);
      }
    }
    for (; d + 16 <= heads.out_dim; d += 16) store_input(to + d, load16(sums + d) * all16(factor));
    for (; d < heads.out_dim; ++d) store_input(to + d, sums[d] * factor);
    for (; is_latent && d < heads.out_head_stride; ++d) store_input(to + d, 0.0f);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
