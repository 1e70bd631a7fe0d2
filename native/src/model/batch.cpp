#include <algorithm>
#include <string>
#include <vector>

#include "model/model.h"

namespace sluice {

namespace {

[[noreturn]] void reject(const char* argument, int64_t index, int64_t value, const std::string& allowed) {
  throw BadArgument(std::string(argument) + "[" + std::to_string(index) + "] is " + std::to_string(value) + "; " +
                    allowed);
}

// Call body(index, block) for each entry of a sequence's block tables that is read.
template <class Body>
void each_visible_block(const Batch& batch, const Cache& cache, int sequence, const Body& body) {
  const int num_blocks = (batch.context_lengths[sequence] + cache.block_size - 1) / cache.block_size;
  for (int group = 0; group < cache.num_groups; ++group) {
    const int64_t table = (static_cast<int64_t>(group) * batch.num_sequences + sequence) * batch.max_blocks;
    for (int i = first_visible_block(batch, cache, group, sequence); i < num_blocks; ++i)
      body(table + i, batch.block_tables[table + i]);
  }
}

void check_sequence(const Batch& batch, const Cache& cache, int sequence) {
  const int begin = batch.row_offsets[sequence], end = batch.row_offsets[sequence + 1];
  if (end <= begin) reject("row_offsets", sequence + 1, end, "each sequence needs at least one token");
  const int64_t most = static_cast<int64_t>(batch.max_blocks) * cache.block_size;
  const int length = batch.context_lengths[sequence];
  if (length < end - begin || length > most)
    reject("context_lengths", sequence, length,
           "it must be at least the sequence's new tokens, " + std::to_string(end - begin) +
               ", and at most what its block table holds, " + std::to_string(most));
  each_visible_block(batch, cache, sequence, [&](int64_t at, int block) {
    if (block < 0 || block >= cache.num_blocks)
      reject("block_tables", at, block, "the cache has the blocks 0 to " + std::to_string(cache.num_blocks - 1));
  });
}

// Sequences are computed at the same time, so a slot that one of them writes can't be used by another.
void check_states(const Batch& batch, const States& states) {
  if (batch.states == nullptr) throw BadArgument("states must be given, since the model keeps states of sequences");
  enum class Use : char { None, Read, Written };
  std::vector<Use> uses(static_cast<size_t>(states.num_slots));
  const auto use = [&](int index, Use use) {
    const int slot = batch.states[index];
    if (slot < 0 || slot >= states.num_slots)
      reject("states", index, slot, "there are the slots 0 to " + std::to_string(states.num_slots - 1));
    Use& found = uses[static_cast<size_t>(slot)];
    if (found != Use::None && (found == Use::Written || use == Use::Written))
      reject("states", index, slot, "a slot that is written can't be used twice");
    found = use;
  };
  for (int i = 0; i < batch.num_sequences; ++i) {
    const int num_tokens = batch.row_offsets[i + 1] - batch.row_offsets[i], at = i * kStateColumns;
    const bool is_start = batch.context_lengths[i] == num_tokens;
    const int num_last = batch.states[at + kNumLast], most = is_start ? num_tokens - 1 : num_tokens;
    if (num_last < 0 || num_last > most)
      reject("states", at + kNumLast, num_last,
             "it must be 0 to " + std::to_string(most) + ", the sequence's new tokens after position 0");
    const bool writes = num_last < num_tokens;
    if (writes) use(at + kStateSlot, Use::Written);
    if (num_last > 0) use(at + kLastSlot, Use::Written);
    if (!is_start && !(writes && batch.states[at + kStateSource] == batch.states[at + kStateSlot]))
      use(at + kStateSource, Use::Read);
  }
}

}  // namespace

void check_batch(const Batch& batch, int vocab_size, const Cache& cache, const States* states,
                 const Adapters& adapters) {
  if (batch.num_tokens < 1) throw BadArgument("token_ids must have at least one token");
  if (batch.num_sequences < 1) throw BadArgument("row_offsets must have at least two elements");
  for (int i = 0; i < batch.num_tokens; ++i) {
    if (batch.token_ids[i] < 0 || batch.token_ids[i] >= vocab_size)
      reject("token_ids", i, batch.token_ids[i],
             "the vocabulary has the ids 0 to " + std::to_string(vocab_size - 1));
    if (batch.positions[i] < 0) reject("positions", i, batch.positions[i], "it must be at least 0");
  }
  if (batch.num_groups != cache.num_groups)
    throw BadArgument("block_tables must have tables of " + std::to_string(cache.num_groups) + " group(s)");
  if (batch.row_offsets[0] != 0) reject("row_offsets", 0, batch.row_offsets[0], "it must be 0");
  // Check the end first: check_sequence requires ascending offsets, so all of them are within the tokens.
  if (batch.row_offsets[batch.num_sequences] != batch.num_tokens)
    reject("row_offsets", batch.num_sequences, batch.row_offsets[batch.num_sequences],
           "it must be the number of tokens, " + std::to_string(batch.num_tokens));
  for (int i = 0; i < batch.num_sequences; ++i) check_sequence(batch, cache, i);
  for (int i = 0; batch.adapters != nullptr && i < batch.num_sequences; ++i)
    if (batch.adapters[i] != -1 && !adapters.has(batch.adapters[i]))
      reject("adapters", i, batch.adapters[i], "it must be the slot of an adapter, or -1 for none");
  if (states != nullptr) check_states(batch, *states);
  for (int i = 0; i < batch.num_rows; ++i)
    if (batch.output_rows[i] < 0 || batch.output_rows[i] >= batch.num_tokens)
      reject("output_rows", i, batch.output_rows[i],
             "the batch has the tokens 0 to " + std::to_string(batch.num_tokens - 1));
}

int first_visible_block(const Batch& batch, const Cache& cache, int group, int sequence) {
  const int window = cache.windows[group];
  const int first =
      batch.context_lengths[sequence] - (batch.row_offsets[sequence + 1] - batch.row_offsets[sequence]);
  return window > 0 && first >= window ? (first - window + 1) / cache.block_size : 0;
}

int lowest_block(const Batch& batch, const Cache& cache) {
  int lowest = cache.num_blocks;
  for (int sequence = 0; sequence < batch.num_sequences; ++sequence)
    each_visible_block(batch, cache, sequence, [&](int64_t, int block) { lowest = std::min(lowest, block); });
  return lowest;
}

}  // namespace sluice
