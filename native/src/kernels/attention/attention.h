// Attention over the paged cache.
//
// A row is one query head of one new token. A row processes the keys of its context in whole blocks of 64 that begin at
// multiples of 64; masked keys have weight zero. So its sums don't depend on other rows.
#pragma once

#include "kernels/attention/attend.h"
#include "kernels/attention/attention_rows.h"

namespace sluice {
namespace SLUICE_SET {

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

// A unit of work: the new tokens of a piece with some query heads of one kv head. Row r is a token's query head.
struct Unit {
  const Piece& piece;
  int kv_head, first_head, group_size, num_rows;
  int dim, width, value_width;  // of a query, and padded: of a query and of a value

  template <class Out>
  Unit(const Layer& layer, int number, const HeadRows<Out>& heads)
      : piece(heads.pieces[number / heads.num_units]) {
    const AttentionPlan& plan = layer.plan.attention;
    first_head = number % heads.num_units * heads.num_heads;
    kv_head = first_head / plan.group_size();
    const int rest = plan.num_heads - first_head;
    group_size = rest < heads.num_heads ? rest : heads.num_heads;
    num_rows = piece.num_tokens * group_size;
    dim = plan.head_dim;
    width = plan.padded_head_dim();
    value_width = layer.latent != nullptr ? (heads.out_dim + 15) / 16 * 16 : width;
  }

  int row_of(int row) const { return piece.first_row + row / group_size; }  // of queries and results
  int head(int row) const { return first_head + row % group_size; }
};

// Read a unit's queries, and begin its rows' sums. `sinks` are the scores of keys that only take weight; may be null.
template <class Format, class Out>
SLUICE_INLINE void begin_rows(const Rows<Format>& rows, const Unit& unit, const HeadRows<Out>& heads,
                              const float* sinks) {
  const int width = unit.width, dim = unit.dim, value_width = unit.value_width;
  for (int row = 0; row < unit.num_rows; ++row) {
    const float* from = heads.queries + static_cast<size_t>(unit.row_of(row)) * heads.query_stride + unit.head(row) * dim;
    for (int d = 0; d < width; d += 16)
      store_input(rows.queries + static_cast<size_t>(row) * width + d, load_some(from + d, dim - d));
    for (int d = 0; d < value_width; d += 16) store16(rows.sums + static_cast<size_t>(row) * value_width + d, all16(0));
    store16(rows.totals + row * 16, all16(0));
    rows.largest[row] = -1e30f;
    rows.rescale[row] = 1;
    if (sinks != nullptr) {  // a key that is seen first, with the weight 1 and a value of zeros
      rows.largest[row] = sinks[unit.head(row)];
      rows.totals[row * 16] = 1;
    }
  }
  if constexpr (kIsBytes<Format>) quantize_queries(rows.queries, unit.num_rows, width, rows.bytes);
}

// Write a unit's results: the sums of values divided by those of weights, times the gate if the layer has one.
template <class Format, class Out>
SLUICE_INLINE void end_rows(const Rows<Format>& rows, const Unit& unit, const HeadRows<Out>& heads, const Step& step,
                            const Layer& layer) {
  const AttentionPlan& plan = layer.plan.attention;
  const int dim = unit.dim;
  for (int row = 0; row < unit.num_rows; ++row) {
    const size_t to_row = static_cast<size_t>(unit.row_of(row));
    const int head = unit.head(row);
    Out* to = heads.out + to_row * heads.out_stride + head * heads.out_head_stride;
    const float* sums = rows.sums + static_cast<size_t>(row) * unit.value_width;
    const float factor = 1.0f / sum_of(load16(rows.totals + static_cast<size_t>(row) * 16));
    int d = 0;
    if (plan.has_gate) {
      const float* gates = step.wide + to_row * step.wide_stride + plan.gate_column() + head * dim;
      for (; d < dim; d += 16) {
        const Lanes gate = map(load_some(gates + d, dim - d), [](V x) __attribute__((always_inline)) { return sigmoid(x); });
        store_some(to + d, load16(sums + d) * all16(factor) * gate, dim - d);
      }
    }
    for (; d + 16 <= heads.out_dim; d += 16) store_input(to + d, load16(sums + d) * all16(factor));
    for (; d < heads.out_dim; ++d) store_input(to + d, sums[d] * factor);
    for (; layer.latent != nullptr && d < heads.out_head_stride; ++d) store_input(to + d, 0.0f);
  }
}

// `attend` for keys and values of a format.
template <class Format, class Out>
void attend_cached(const Step& step, int layer, int number, int after, uint8_t* scratch, const HeadRows<Out>& heads) {
  const Layer& weights = step.weights->layers[layer];
  const AttentionPlan& plan = weights.plan.attention;
  const bool is_latent = weights.latent != nullptr;
  const Unit unit(weights, number, heads);
  const int num_rows = unit.num_rows, width = unit.width, value_width = unit.value_width;
  const int length = step.batch.context_lengths[unit.piece.sequence];
#if defined(SLUICE_SET_amx)
  if constexpr (std::is_same_v<Format, BFloat16Format>) begin_attention_on_unit();
  const Rows<Format> rows(scratch, (num_rows + kUnitRows - 1) / kUnitRows * kUnitRows, width, value_width);
#else
  const Rows<Format> rows(scratch, num_rows, width, value_width);
#endif
  begin_rows(rows, unit, heads, weights.sinks);

  const Span span = span_of(step, layer, unit.piece);
  const Head head = head_of(step, layer, unit.piece.sequence, unit.kv_head);
  int base = span.earliest / kKeys * kKeys;
  Slots slots = slots_of(head, base, span.earliest, span.last), next = slots;
  for (; base <= span.last; base += kKeys) {
    const bool is_last = base + kKeys > span.last;
    if (!is_last) {
      next = slots_of(head, base + kKeys, span.earliest, span.last);
    } else if (after >= 0) {
      const Unit then(weights, after, heads);
      const Span its = span_of(step, layer, then.piece);
      next = slots_of(head_of(step, layer, then.piece.sequence, then.kv_head), its.earliest / kKeys * kKeys,
                      its.earliest, its.last);
    }
    const Slots* ahead = is_last && after < 0 ? nullptr : &next;
    meet_keys<Format>(rows, num_rows, width, slots, ahead);
    for (int row = 0; row < num_rows; ++row) {
      const int slot = span.first + row / unit.group_size;
      const int lowest = earliest_of(plan, slot), end = latest_of(plan, slot, length) + 1;
      const int from = lowest > base ? lowest - base : 0, to = end - base < kKeys ? end - base : kKeys;
      if (plan.soft_cap > 0) cap_scores(rows.scores + static_cast<size_t>(row) * kKeys, plan.scale, plan.soft_cap);
      weigh<Format>(rows, row, from, to, plan.soft_cap > 0 ? 1.0f : plan.scale);
    }
    if constexpr (!kIsBytes<Format>)
      if (is_latent) values_of_keys<Format>(slots, value_width, rows.rest);
    take_values<Format>(rows, num_rows, value_width, slots, is_latent ? nullptr : ahead);
    slots = next;
  }
  end_rows(rows, unit, heads, step, weights);
}

}  // namespace SLUICE_SET
}  // namespace sluice
