// A decoder with its packed weights, cache and buffers. It computes one step at a time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "layers/adapter.h"
#include "layers/expert_layer.h"
#include "layers/latent_layer.h"
#include "machine/ahead.h"
#include "machine/arena.h"
#include "machine/phases.h"
#include "machine/pool.h"
#include "machine/sets.h"
#include "plan/plan_fields.h"
#include "types.h"
#include "weights/destination.h"
#include "weights/pack.h"
#include "weights/packed_pack.h"

namespace sluice {

// An argument is invalid; the text begins with the argument's name.
struct BadArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A caller's array of weights.
struct StoredTensor {
  const void* data;
  Stored stored;
  std::vector<size_t> shape;
};

// A caller's low-rank change of one module: down [rank, inputs] and up [outputs, rank], float32.
struct GivenLowRank {
  std::string module;  // model.layers.0.self_attn.q_proj
  int rank;
  size_t inputs, outputs;
  const float* down;
  const float* up;
};

// A table of rotary positions: the inverse frequencies of the first dimensions of a head, and a factor on cosine and
// sine. Both include any scaling of positions.
struct RotaryPlan {
  std::vector<float> inverse_frequencies;
  float factor;
};

struct Options {
  DecoderPlan plan;
  std::vector<LayerPlan> layers;
  std::vector<RotaryPlan> rotary;
  Type type;
  Stored cache_type;
  int num_threads;
  const InstructionSet* set;
  std::function<std::string(const std::string&)> kind_of;  // of Packed: a matrix' format by the tensor's name
};

// The largest sizes of all layers, from which the buffers of a step follow.
struct Extent {
  // mixed_width: of the results of attention and of recurrent parts. wide_width: of their projected inputs.
  int mixed_width = 0, wide_width = 0, inner_width = 0, padded_head_dim = 0, group_size = 1, latent_width = 0;
  int wide_inner_width = 0;  // of feed-forward parts with a norm of their inner numbers
  bool has_branch = false;
};
Extent extent_of(const Options& options);

// The sizes of a layer's part of a block of the cache.
CachePart cache_part(const Layer& layer, Stored type, int block_size);

// Throws BadArgument, whose text begins with a field's name, unless the fields of the plan fit each other. Each number
// must already be in its range.
void check_plan(const Options& options);

class Model {
 public:
  explicit Model(const Options& options);

  // Pack one tensor. Throws BadArgument for an unknown name or a wrong shape.
  void load(const std::string& name, const StoredTensor& tensor);
  // Pack one matrix of a model with Packed weights from the blocks of its rows. Throws BadArgument.
  // `order`, which may be null, has the input of each column, [num_inputs].
  void load_blocks(const std::string& name, const uint8_t* blocks, size_t num_rows, size_t row_bytes,
                   const int32_t* order = nullptr, size_t num_inputs = 0);
  std::vector<std::string> missing() const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  static std::vector<size_t> shape_of(const Destination& destination);

  // Create the cache. `groups` has a number for each layer, from 0 on; layers of different groups have different blocks.
  // The cache is in `file` from `offset` on, or in this process's own memory if `file` is -1. Throws BadArgument.
  void allocate(int num_blocks, int block_size, const std::vector<int>& groups, int file = -1, size_t offset = 0);

  // Create slots for the states of sequences, in a file as the cache.
  void allocate_states(int num_states, int file = -1, size_t offset = 0);

  // Store an adapter in a slot, replacing the slot's adapter. Throws BadArgument.
  void put_adapter(int slot, const std::vector<GivenLowRank>& modules);
  // Remove the adapter of a slot and free its memory. Throws BadArgument if the slot is empty.
  void drop_adapter(int slot);

  // Compute whole texts with a plan without a head, and write the states of the output rows. Of the batch, only the
  // tokens, types, row offsets, output rows and logits are given. Throws BadArgument before anything is read out of
  // bounds.
  void encode(Batch batch, int num_threads);

  // Store the batch's keys and values and write its logits. Throws BadArgument before anything is read out of bounds.
  // Return whether the step was computed to its end, see Batch::arrivals.
  bool step(const Batch& batch, int num_threads);

  // Measure the seconds to read all packed weights once, the lower bound of a decode step.
  double read_weights(int num_threads);

  // Measure the threads' multiply-adds per second, in the type of the layers' weights and with all operands in
  // registers: the upper bound of a step of many tokens.
  double multiply_rate(int num_threads);

  const Options& options() const { return options_; }
  // The bytes of a token's keys and values in each layer.
  std::vector<size_t> bytes_per_slot() const;
  size_t bytes_per_state() const { return state_numbers_ * sizeof(float); }
  const Cache& cache() const { return cache_; }
  const States& states() const { return states_; }
  size_t weight_bytes() const { return weight_memory_.size() + row_memory_.size() + layer_row_memory_.size(); }
  size_t adapter_bytes();

 private:
  // Measure the seconds that the threads take for body(0) … body(count - 1).
  double time_chunks(int num_threads, int count, const std::function<void(int)>& body);
  // Set the formats of all groups of packed matrices. Throws BadArgument.
  void assign_kinds();
  // Set the order of a matrix' inputs, which all of its tensors share. Throws BadArgument.
  void set_order(const Destination& to, const std::string& name, const int32_t* order, size_t num_inputs);
  // Call pack(begin, end) for all rows, in chunks shared by the threads.
  void pack_in_chunks(int count, const std::function<void(int, int)>& pack);
  // Return the index of a tensor. Throws BadArgument if the model has no such tensor.
  size_t index_of(const std::string& name) const;
  // Return the destination of a tensor. Null if the model has no such tensor.
  const Destination* find(const std::string& name) const;
  void reserve(const Batch& batch, int num_threads);
  void cut_into_pieces(const Batch& batch);
  void compute(const Batch& batch, int num_threads);
  void reserve_text_cache(int num_blocks);

  Options options_;
  Extent extent_;
  Weights weights_;
  RowTables rows_;
  PackedGroups packed_groups_;
  std::unordered_map<const Matrix*, std::vector<int32_t>> orders_;  // of packed matrices; empty: their columns'
  std::unordered_map<std::string, const PackedKind*> kinds_;  // of packed matrices by the tensor's name
  std::vector<Layer> layers_;
  std::vector<std::unique_ptr<ExpertLayer>> expert_layers_;
  ExpertBuffers expert_buffers_;
  std::vector<Latent> latents_;
  LatentBuffers latent_buffers_;
  std::vector<Rotary> rotary_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, size_t> indices_;  // of tensors by name
  Cache cache_;
  std::vector<int> windows_;  // of the cache's groups
  States states_;
  size_t state_numbers_ = 0;  // of a sequence's state in all layers
  Adapters adapters_;
  Arena weight_memory_, row_memory_, layer_row_memory_, cache_memory_, state_memory_, buffer_memory_;
  size_t reserved_rows_ = 0;
  int reserved_threads_ = 0;
  std::set<size_t> wanted_;  // indices of tensors not yet loaded
  std::vector<Piece> pieces_, kept_pieces_;
  std::vector<int32_t> sequence_of_;
  std::vector<int32_t> text_positions_, text_lengths_, text_blocks_;  // of encode()
  std::vector<Choice> choices_;  // of a step that may end early, by layer
  Step step_{};
  Phases phases_;
  std::mutex mutex_;
  std::unique_ptr<Ahead> ahead_;  // for the cache, whose blocks are allocated from its end
};

// Throws BadArgument unless every index of the batch is within the model, its cache, its states (null: it has none) and its adapters.
void check_batch(const Batch& batch, int vocab_size, const Cache& cache, const States* states,
                 const Adapters& adapters);

// The index in a block table of the first block that a sequence's new tokens attend to. Earlier entries are not read.
int first_visible_block(const Batch& batch, const Cache& cache, int group, int sequence);

// The lowest block that a checked batch reads or writes.
int lowest_block(const Batch& batch, const Cache& cache);

}  // namespace sluice
