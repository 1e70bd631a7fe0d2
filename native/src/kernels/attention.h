// Attention over the paged cache, and the writing of new keys and values into it.
//
// A row is one query head of one new token. A row meets the keys of its context in blocks of 64 that begin at multiples
// of 64, each whole, with what it must not see at weight zero; so its sums don't depend on the rows beside it.
#pragma once

#include "formats.h"
#include "rows.h"

namespace sluice {
namespace SLUICE_SET {

constexpr int kKeys = 64, kParts = kKeys / 16;
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
constexpr int kAttendRows = 4, kAttendGroups = 4;
#elif defined(SLUICE_SET_avx2)
constexpr int kAttendRows = 2, kAttendGroups = 2;
#else
constexpr int kAttendRows = 1, kAttendGroups = 2;
#endif

// Where 16 slots of one head lie, of the sequence whose blocks `table` lists.
struct Head {
  const Cache* cache;
  const int32_t* table;
  size_t offset;  // of this layer and kv head in a block's place

  uint8_t* keys(int part) const {
    const int slot = part * 16, block = table[slot / cache->block_size];
    return cache->data + offset + static_cast<size_t>(block) * block_stride +
           static_cast<size_t>(slot % cache->block_size / 16) * cache->part_bytes;
  }
  uint8_t* values(int part) const { return keys(part) + cache->head_bytes / 2; }

  size_t block_stride;
};

inline Head head_of(const Step& step, int layer, int sequence, int kv_head) {
  const Cache& cache = *step.cache;
  return {&cache, step.batch.block_tables + static_cast<size_t>(sequence) * step.batch.max_blocks,
          layer * cache.layer_bytes + kv_head * cache.head_bytes, cache.head_bytes * step.shape->num_kv_heads};
}

template <class Format>
SLUICE_INLINE void store_cached(typename Format::Weight* p, float value) {
  if constexpr (sizeof(typename Format::Weight) == 2) {
    *p = float_to_bf16(value);
  } else {
    *p = value;
  }
}

// Put one token's key and value [head_dim] of a head at its slot; with `clears`, zero the values of the slots after it.
// A slot that holds nothing yet must hold a number, since its weight of zero is multiplied with it.
template <class Format>
void write_slot(const Head& head, int slot, const float* key, const float* value, int head_dim, bool clears) {
  constexpr int pair = Format::kColumns;
  auto* keys = reinterpret_cast<typename Format::Weight*>(head.keys(slot / 16));
  auto* values = reinterpret_cast<typename Format::Weight*>(head.values(slot / 16));
  const int place = slot % 16, end = clears ? 16 : place + 1;
  for (int d = 0; d < head_dim; ++d)
    store_cached<Format>(keys + d / pair * 16 * pair + place * pair + d % pair, key[d]);
  for (int s = place; s < end; ++s)
    for (int d = 0; d < head_dim; ++d)
      store_cached<Format>(values + d / 16 * 256 + s / pair * 16 * pair + d % 16 * pair + s % pair,
                           s == place ? value[d] : 0.0f);
}

// The running state of the rows of one piece, in a thread's scratch memory.
template <class Format>
struct Rows {
  using Input = typename Format::Input;
  Input* queries;  // [rows][padded head_dim]
  Input* weights;  // [rows][64]
  float* scores;   // [rows][64]
  float* sums;     // [rows][padded head_dim], of weighted values
  float* totals;   // [rows][16], of weights, lane by lane
  float* largest;  // [rows]
  float* rescale;  // [rows]

  Rows(uint8_t* scratch, int rows, int width) {
    const auto take = [&](size_t bytes) {
      uint8_t* at = scratch;
      scratch += round_up(bytes, 64);
      return at;
    };
    const size_t count = static_cast<size_t>(rows);
    queries = reinterpret_cast<Input*>(take(count * width * sizeof(Input)));
    weights = reinterpret_cast<Input*>(take(count * kKeys * sizeof(Input)));
    scores = reinterpret_cast<float*>(take(count * kKeys * sizeof(float)));
    sums = reinterpret_cast<float*>(take(count * width * sizeof(float)));
    totals = reinterpret_cast<float*>(take(count * 16 * sizeof(float)));
    largest = reinterpret_cast<float*>(take(count * sizeof(float)));
    rescale = reinterpret_cast<float*>(take(count * sizeof(float)));
  }
};

template <class Format, int M, int N>
void score_tile(const Rows<Format>& rows, int row, int width, const uint8_t* const* parts, int part) {
  const typename Format::Input* x[M];
  const typename Format::Weight* w[N];
  for (int m = 0; m < M; ++m) x[m] = rows.queries + static_cast<size_t>(row + m) * width;
  for (int n = 0; n < N; ++n) w[n] = reinterpret_cast<const typename Format::Weight*>(parts[part + n]);
  Lanes sums[M][N];
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = all16(0); });
  });
  multiply<Format, M, N>(sums, x, w, width / Format::kColumns);
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      store16(rows.scores + static_cast<size_t>(row + m) * kKeys + (part + n) * 16, sums[m][n]);
    });
  });
}

// sums = sums * rescale + weights · values, for N groups of 16 dimensions.
template <class Format, int M, int N>
void value_tile(const Rows<Format>& rows, int row, int width, const uint8_t* const* parts, int begin, int end,
                int group) {
  Lanes sums[M][N];
  float* at[M];
  for (int m = 0; m < M; ++m) at[m] = rows.sums + static_cast<size_t>(row + m) * width + group * 16;
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    const Lanes factor = all16(rows.rescale[row + m]);
    unroll<N>([&](auto n) __attribute__((always_inline)) { sums[m][n] = load16(at[m] + n * 16) * factor; });
  });
  for (int part = begin; part < end; ++part) {
    const typename Format::Input* x[M];
    const typename Format::Weight* w[N];
    for (int m = 0; m < M; ++m) x[m] = rows.weights + static_cast<size_t>(row + m) * kKeys + part * 16;
    for (int n = 0; n < N; ++n)
      w[n] = reinterpret_cast<const typename Format::Weight*>(parts[part]) + (group + n) * 256;
    multiply<Format, M, N>(sums, x, w, 16 / Format::kColumns);
  }
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    unroll<N>([&](auto n) __attribute__((always_inline)) { store16(at[m] + n * 16, sums[m][n]); });
  });
}

// From scores to weights: a row sees the keys [begin, end) of this block's 64.
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

template <class Format, int M>
void meet_keys(const Rows<Format>& rows, int row, int width, const uint8_t* const* keys) {
  for (int part = 0; part < kParts; part += kAttendGroups)
    score_tile<Format, M, kAttendGroups>(rows, row, width, keys, part);
}

template <class Format, int M>
void take_values(const Rows<Format>& rows, int row, int width, const uint8_t* const* values, int begin, int end) {
  int group = 0;
  for (; group + kAttendGroups <= width / 16; group += kAttendGroups)
    value_tile<Format, M, kAttendGroups>(rows, row, width, values, begin, end, group);
  for (; group < width / 16; ++group) value_tile<Format, M, 1>(rows, row, width, values, begin, end, group);
}

// Attention of one piece's tokens with the heads of one kv head: queries come from step.wide, results go to `out`
// [tokens][out_stride], heads side by side.
template <class Format, class Out>
void attend(const Step& step, int layer, const Piece& piece, int kv_head, uint8_t* scratch, Out* out,
            size_t out_stride) {
  const Shape& shape = *step.shape;
  const Batch& batch = step.batch;
  const int group_size = shape.num_heads / shape.num_kv_heads, width = shape.padded_head_dim(), dim = shape.head_dim;
  const int num_rows = piece.num_tokens * group_size;
  const int tile = num_rows == 1 ? 1 : kAttendRows;
  const int padded_rows = (num_rows + tile - 1) / tile * tile;
  const Rows<Format> rows(scratch, padded_rows, width);
  const int window = step.weights->layers[layer].window;
  const int new_tokens = batch.row_offsets[piece.sequence + 1] - batch.row_offsets[piece.sequence];
  const int first_slot =
      batch.context_lengths[piece.sequence] - new_tokens + piece.first_token - batch.row_offsets[piece.sequence];
  const int last_slot = first_slot + piece.num_tokens - 1;

  for (int row = 0; row < padded_rows; ++row) {
    auto* query = rows.queries + static_cast<size_t>(row) * width;
    const int token = piece.first_token + row / group_size, head = kv_head * group_size + row % group_size;
    const float* from = step.wide + static_cast<size_t>(token) * step.wide_stride + head * dim;
    for (int d = 0; d < width; ++d) store_input(query + d, row < num_rows && d < dim ? from[d] : 0.0f);
    for (int d = 0; d < width; ++d) rows.sums[static_cast<size_t>(row) * width + d] = 0;
    for (int i = 0; i < 16; ++i) rows.totals[row * 16 + i] = 0;
    rows.largest[row] = -1e30f;
    rows.rescale[row] = 1;
  }

  const Head head = head_of(step, layer, piece.sequence, kv_head);
  const int earliest = window > 0 && first_slot >= window ? first_slot - window + 1 : 0;
  for (int base = earliest / kKeys * kKeys; base <= last_slot; base += kKeys) {
    const int begin = earliest > base ? (earliest - base) / 16 : 0;
    const int end = last_slot - base >= kKeys ? kParts : (last_slot - base) / 16 + 1;
    const uint8_t *keys[kParts], *values[kParts];
    for (int part = 0; part < kParts; ++part) {  // outside of the context any part will do: its scores are masked
      const int used = part < begin ? begin : part < end ? part : end - 1;
      keys[part] = head.keys(base / 16 + used);
      values[part] = head.values(base / 16 + used);
    }
    for (int row = 0; row < padded_rows; row += tile) {
      if (tile == 1)
        meet_keys<Format, 1>(rows, row, width, keys);
      else
        meet_keys<Format, kAttendRows>(rows, row, width, keys);
    }
    for (int row = 0; row < padded_rows; ++row) {
      const int slot = row < num_rows ? first_slot + row / group_size : last_slot;
      const int lowest = window > 0 && slot >= window ? slot - window + 1 : 0;
      const int from = lowest > base ? lowest - base : 0, to = slot + 1 - base < kKeys ? slot + 1 - base : kKeys;
      weigh<Format>(rows, row, from, to, shape.attention_scale);
    }
    for (int row = 0; row < padded_rows; row += tile) {
      if (tile == 1)
        take_values<Format, 1>(rows, row, width, values, begin, end);
      else
        take_values<Format, kAttendRows>(rows, row, width, values, begin, end);
    }
  }

  for (int row = 0; row < num_rows; ++row) {
    const int token = piece.first_token + row / group_size, h = kv_head * group_size + row % group_size;
    Out* to = out + static_cast<size_t>(token) * out_stride + h * dim;
    const float* sums = rows.sums + static_cast<size_t>(row) * width;
    const float factor = 1.0f / sum_of(load16(rows.totals + static_cast<size_t>(row) * 16));
    int d = 0;
    for (; d + 16 <= dim; d += 16) store_input(to + d, load16(sums + d) * all16(factor));
    for (; d < dim; ++d) store_input(to + d, sums[d] * factor);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
