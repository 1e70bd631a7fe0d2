#include "random_batch.h"

#include <algorithm>
#include <numeric>

#include "chance.h"

namespace sluice {

// A block that is written belongs to one sequence's table, since threads write without locks. The first `num_shared`
// blocks are only read, by any sequence.
RandomBatch::RandomBatch(const DecoderPlan& plan, const Cache& cache) {
  const int vocab_size = plan.vocab_size, block_size = cache.block_size;
  const int num_shared = between(0, cache.num_blocks - cache.num_groups);
  std::vector<int> own(cache.num_blocks - num_shared);
  std::iota(own.begin(), own.end(), num_shared);
  std::shuffle(own.begin(), own.end(), random_bits);
  batch.num_groups = cache.num_groups;
  batch.max_blocks = between(1, 9);
  std::vector<int> slots(kStates);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random_bits);
  const int common = slots.back();  // a state from which several sequences may start
  slots.pop_back();
  const auto take = [&] {
    const int slot = slots.back();
    slots.pop_back();
    return slot;
  };
  std::vector<std::vector<int32_t>> tables(cache.num_groups);
  for (int i = between(1, 6); i > 0; --i) {
    const int most_own = static_cast<int>(own.size()) / cache.num_groups;
    if (most_own == 0) break;
    const int num_read = num_shared == 0 ? 0 : between(0, batch.max_blocks - 1);
    const int num_own = between(1, std::min(batch.max_blocks - num_read, most_own));
    const int read = num_read * block_size;
    const int length = read + between((num_own - 1) * block_size + 1, num_own * block_size);
    const int count = one_in(2) ? 1 : between(1, length - read);
    ++batch.num_sequences;
    for (int j = length - count; j < length; ++j) {
      token_ids.push_back(between(0, vocab_size - 1));
      positions.push_back(one_in(50) ? between(0, 1 << 30) : j);
    }
    row_offsets.push_back(static_cast<int32_t>(token_ids.size()));
    context_lengths.push_back(length);
    adapters.push_back(between(-1, kSlots - 1));
    const int slot = take(), num_last = one_in(2) ? 0 : between(0, count == length ? count - 1 : count);
    const bool writes = num_last < count;
    for (const int number : {writes && one_in(2) ? slot : common, slot, num_last, num_last > 0 ? take() : -1})
      states.push_back(number);
    for (int group = 0; group < cache.num_groups; ++group) {
      const int window = cache.windows[group], first = length - count;
      const int visible = window > 0 && first >= window ? (first - window + 1) / block_size : 0;
      for (int j = 0; j < batch.max_blocks; ++j) {
        const bool is_own = j >= num_read && j < num_read + num_own, is_unused = j < visible || !(is_own || j < num_read);
        tables[group].push_back(is_unused ? between(-5, 1 << 30) : is_own ? own.back() : between(0, num_shared - 1));
        if (is_own) own.pop_back();
      }
    }
  }
  for (const std::vector<int32_t>& each : tables) block_tables.insert(block_tables.end(), each.begin(), each.end());
  const int tokens = static_cast<int>(token_ids.size());
  for (int i = between(0, 5); i > 0; --i) output_rows.push_back(between(0, tokens - 1));
  batch.num_tokens = tokens;
  batch.num_rows = static_cast<int>(output_rows.size());
  for (int i = 0; i < tokens && plan.num_types > 0; ++i) types.push_back(between(0, plan.num_types - 1));
  logits.reset(new float[output_rows.size() * (plan.has_head ? vocab_size : plan.hidden_size)]);
  point();
}

void RandomBatch::point() {
  batch.token_ids = token_ids.data();
  batch.positions = positions.data();
  batch.row_offsets = row_offsets.data();
  batch.context_lengths = context_lengths.data();
  batch.block_tables = block_tables.data();
  batch.output_rows = output_rows.data();
  batch.adapters = one_in(3) ? nullptr : adapters.data();
  batch.states = states.data();
  batch.types = types.empty() || one_in(3) ? nullptr : types.data();
  batch.logits = logits.get();
}

void RandomBatch::spoil() {
  std::vector<int32_t>* const arrays[] = {&token_ids,    &positions,   &row_offsets, &context_lengths,
                                          &block_tables, &output_rows, &adapters,    &types,
                                          &states};
  for (int i = between(1, 3); i > 0; --i) {
    std::vector<int32_t>& array = *arrays[between(0, 8)];
    if (!array.empty())
      array[between(0, static_cast<int>(array.size()) - 1)] =
          one_in(2) ? between(-3, 300) : static_cast<int32_t>(random_bits());
  }
}

}  // namespace sluice
