// The part of a model that is about its memory of sequences: the cache of keys and values, and the recurrent states.
#include <sys/stat.h>

#include <algorithm>

#include "model/model.h"

namespace sluice {

namespace {

// Return the window of each group of layers, 0 if a layer of the group has none. Throws BadArgument.
std::vector<int> windows_of(const Options& options, const std::vector<int>& groups) {
  const size_t num_layers = options.layers.size();
  if (!groups.empty() && groups.size() != num_layers)
    throw BadArgument("groups must have " + std::to_string(num_layers) + " elements, one for each layer");
  std::vector<int> windows(groups.empty() ? 1 : 0), counts(windows.size());
  for (size_t i = 0; i < num_layers; ++i) {
    const int group = groups.empty() ? 0 : groups[i], window = options.layers[i].attention.window;
    if (group < 0 || group >= static_cast<int>(num_layers))
      throw BadArgument("groups[" + std::to_string(i) + "] must be 0 to " + std::to_string(num_layers - 1));
    const int back = options.layers[i].attention.keys_back;
    if (!groups.empty() && groups[i - back] != group)
      throw BadArgument("groups[" + std::to_string(i) + "] must be that of the layer whose keys the layer reads, " +
                        std::to_string(groups[i - back]));
    const size_t needed = static_cast<size_t>(group) + 1;
    windows.resize(std::max(windows.size(), needed));
    counts.resize(windows.size());
    int& of_group = windows[group];
    of_group = window == 0 || (counts[group] > 0 && of_group == 0) ? 0 : std::max(of_group, window);
    ++counts[group];
  }
  for (const int count : counts)
    if (count == 0) throw BadArgument("groups must number all groups from 0 on; one has no layer");
  return windows;
}

// Return memory of this process or, unless `file` is -1, a part of the file. Throws BadArgument if the file is too short.
Arena memory_of(size_t bytes, int file, size_t offset) {
  if (file == -1) return Arena(bytes);
  if (offset % 4096 != 0) throw BadArgument("offset must be a multiple of 4096");
  struct stat status {};
  if (fstat(file, &status) != 0) throw BadArgument("file must be an open file");
  if (static_cast<size_t>(status.st_size) < offset + round_up(bytes, 4096))
    throw BadArgument("file must have at least " + std::to_string(offset + round_up(bytes, 4096)) + " bytes");
  return Arena(file, offset, bytes);
}

}  // namespace

CachePart cache_part(const Layer& layer, Stored type, int block_size) {
  const int width = layer.plan.attention.padded_head_dim();
  CachePart part;
  part.key_bytes = key_bytes(type, width);
  part.value_bytes = layer.latent != nullptr ? 0 : value_bytes(type, width);
  part.head_bytes = (part.key_bytes + part.value_bytes) * static_cast<size_t>(block_size / kRows);
  return part;
}

std::vector<size_t> Model::bytes_per_slot() const {
  std::vector<size_t> bytes;
  for (const Layer& layer : layers_) {
    const AttentionPlan& attention = layer.plan.attention;
    const CachePart part = cache_part(layer, options_.cache_type, kRows);
    bytes.push_back(attention.keys_back > 0 ? 0 : part.head_bytes * attention.num_kv_heads / kRows);
  }
  return bytes;
}

void Model::allocate(int num_blocks, int block_size, const std::vector<int>& groups, int file, size_t offset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!options_.plan.has_head) throw std::logic_error("allocate() of a plan without a head, which needs no cache");
  if (num_blocks < 1) throw BadArgument("num_blocks must be at least 1");
  if (block_size < kRows || block_size % kRows != 0) throw BadArgument("block_size must be a multiple of 16");
  const std::vector<int> windows = windows_of(options_, groups);
  Cache cache;
  cache.type = options_.cache_type;
  cache.num_blocks = num_blocks;
  cache.block_size = block_size;
  cache.num_groups = static_cast<int>(windows.size());
  std::vector<size_t> used(windows.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const AttentionPlan& attention = layers_[i].plan.attention;
    CachePart& part = layers_[i].cache;
    if (attention.keys_back > 0) {
      part = layers_[i - attention.keys_back].cache;
      continue;
    }
    part = cache_part(layers_[i], cache.type, block_size);
    part.group = groups.empty() ? 0 : groups[i];
    part.offset = used[part.group];
    used[part.group] += part.head_bytes * attention.num_kv_heads;
  }
  cache.block_bytes = *std::max_element(used.begin(), used.end());
  windows_ = windows;
  cache.windows = windows_.data();
  ahead_.reset();
  cache_memory_ = Arena();
  cache_memory_ = memory_of(cache.block_bytes * num_blocks, file, offset);
  cache.data = cache_memory_.data();
  cache_ = cache;
  ahead_ = std::make_unique<Ahead>(cache.data, cache.block_bytes * num_blocks);
}

void Model::allocate_states(int num_states, int file, size_t offset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_states < 1) throw BadArgument("num_states must be at least 1");
  state_memory_ = Arena();
  state_memory_ = memory_of(bytes_per_state() * static_cast<size_t>(num_states), file, offset);
  states_ = {reinterpret_cast<float*>(state_memory_.data()), state_numbers_, num_states};
}

}  // namespace sluice
