// Computes whole texts with a plan without a head. Keys and values are kept in a cache of one layer, which the next
// layer overwrites.
#include <algorithm>

#include "model/model.h"

namespace sluice {

namespace {

constexpr int kTextBlock = 64;  // slots of a block of the cache

[[noreturn]] void reject(const std::string& argument, int64_t index, int64_t value, const std::string& allowed) {
  throw BadArgument(argument + "[" + std::to_string(index) + "] is " + std::to_string(value) + "; " + allowed);
}

void check_indices(const char* argument, const int32_t* values, int count, int limit, const char* things) {
  for (int i = 0; i < count; ++i)
    if (values[i] < 0 || values[i] >= limit)
      reject(argument, i, values[i], std::string(things) + " 0 to " + std::to_string(limit - 1));
}

// Throws BadArgument unless the offsets divide all tokens into texts of at least one token each, and every index is
// within the model.
void check_texts(const Batch& batch, const DecoderPlan& plan) {
  if (batch.num_tokens < 1) throw BadArgument("token_ids must have at least one token");
  if (batch.num_sequences < 1) throw BadArgument("row_offsets must have at least two elements");
  if (batch.row_offsets[0] != 0) reject("row_offsets", 0, batch.row_offsets[0], "the first text begins at 0");
  for (int i = 0; i < batch.num_sequences; ++i) {
    const int64_t begin = batch.row_offsets[i], end = batch.row_offsets[i + 1];
    if (end <= begin || end > batch.num_tokens)
      reject("row_offsets", i + 1, end, "each text needs a token, and there are " + std::to_string(batch.num_tokens));
    const int longest = plan.num_positions - plan.first_position;
    if (plan.num_positions > 0 && end - begin > longest)
      reject("row_offsets", i + 1, end, "a text has at most " + std::to_string(longest) + " tokens");
  }
  if (batch.row_offsets[batch.num_sequences] != batch.num_tokens)
    reject("row_offsets", batch.num_sequences, batch.row_offsets[batch.num_sequences], "the last text ends at the end");
  check_indices("token_ids", batch.token_ids, batch.num_tokens, plan.vocab_size, "the vocabulary has the ids");
  check_indices("output_rows", batch.output_rows, batch.num_rows, batch.num_tokens, "the batch has the tokens");
  if (batch.types == nullptr) return;
  if (plan.num_types == 0) throw BadArgument("types must be none for a plan without token types");
  check_indices("types", batch.types, batch.num_tokens, plan.num_types, "the model has the types");
}

}  // namespace

// Set the cache's memory to at least `num_blocks` blocks. All layers use the same memory.
void Model::reserve_text_cache(int num_blocks) {
  cache_.type = options_.cache_type;
  cache_.block_size = kTextBlock;
  cache_.num_blocks = num_blocks;
  cache_.num_groups = 1;
  cache_.block_bytes = 0;
  for (Layer& layer : layers_) {
    const AttentionPlan& attention = layer.plan.attention;
    layer.cache = cache_part(layer, cache_.type, kTextBlock);
    cache_.block_bytes = std::max(cache_.block_bytes, layer.cache.head_bytes * attention.num_kv_heads);
  }
  const size_t bytes = cache_.block_bytes * static_cast<size_t>(num_blocks);
  if (cache_memory_.size() < bytes) {
    cache_memory_ = Arena();
    cache_memory_ = Arena(bytes);
  }
  cache_.data = cache_memory_.data();
}

void Model::encode(Batch batch, int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!wanted_.empty()) throw std::logic_error("encode() before " + tensors_[*wanted_.begin()].name + " was loaded");
  if (options_.plan.has_head) throw std::logic_error("encode() of a plan with a head");
  check_texts(batch, options_.plan);
  text_positions_.resize(batch.num_tokens);
  text_lengths_.resize(batch.num_sequences);
  int longest = 0, num_blocks = 0;
  for (int text = 0; text < batch.num_sequences; ++text) {
    const int begin = batch.row_offsets[text], length = batch.row_offsets[text + 1] - begin;
    for (int i = 0; i < length; ++i) text_positions_[begin + i] = options_.plan.first_position + i;
    text_lengths_[text] = length;
    longest = std::max(longest, length);
    num_blocks += (length + kTextBlock - 1) / kTextBlock;
  }
  batch.max_blocks = (longest + kTextBlock - 1) / kTextBlock;
  text_blocks_.assign(static_cast<size_t>(batch.num_sequences) * batch.max_blocks, 0);
  int next = 0;
  for (int text = 0; text < batch.num_sequences; ++text)
    for (int i = 0; i * kTextBlock < text_lengths_[text]; ++i)
      text_blocks_[static_cast<size_t>(text) * batch.max_blocks + i] = next++;
  reserve_text_cache(num_blocks);
  batch.positions = text_positions_.data();
  batch.context_lengths = text_lengths_.data();
  batch.block_tables = text_blocks_.data();
  batch.num_groups = 1;
  batch.adapters = nullptr;
  compute(batch, num_threads > 0 ? num_threads : options_.num_threads);
}

}  // namespace sluice
