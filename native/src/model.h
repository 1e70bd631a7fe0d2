// A decoder: its packed weights, its cache, its buffers. One step at a time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "adapter.h"
#include "ahead.h"
#include "arena.h"
#include "pack.h"
#include "phases.h"
#include "places.h"
#include "pool.h"
#include "sets.h"
#include "types.h"

namespace sluice {

// What a caller gave is wrong; the text begins with the argument's name.
struct BadArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A caller's array of weights.
struct StoredTensor {
  const void* data;
  Stored stored;
  std::vector<size_t> shape;
};

// A caller's change of one module, [rank, inputs] and [outputs, rank] in float32.
struct GivenLowRank {
  std::string module;  // model.layers.0.self_attn.q_proj
  int rank;
  size_t inputs, outputs;
  const float* down;
  const float* up;
};

struct Options {
  Shape shape;
  Type type;
  Stored cache_type;
  std::vector<float> inverse_frequencies;
  std::vector<int> windows;    // for each layer, 0: all
  std::vector<bool> has_rope;  // for each layer
  int num_threads;
  const InstructionSet* set;
};

class Model {
 public:
  explicit Model(const Options& options);

  // Pack one tensor, named as in checkpoints of Llama and its kin. Throws BadArgument for a name or shape that the
  // model has no place for.
  void load(const std::string& name, const StoredTensor& tensor);
  std::vector<std::string> missing() const;
  std::vector<size_t> shape_of(const std::string& name);

  void allocate(int num_blocks, int block_size);

  // Hold an adapter at a place for the batches that name it, instead of what was there. Throws BadArgument.
  void put_adapter(int place, const std::vector<GivenLowRank>& modules);
  // Forget it, and give its memory back. Throws BadArgument if there is none.
  void drop_adapter(int place);

  // Store the batch's keys and values, write its logits. Throws BadArgument before anything is read out of bounds.
  void step(const Batch& batch, int num_threads);

  // Seconds to read all packed weights once: what a decode step takes at least.
  double read_weights(int num_threads);

  // How many products of two numbers a second the threads add up, of the type that the layers' weights take, where
  // registers hold all of them: what a step of many tokens does at most.
  double multiply_rate(int num_threads);

  const Options& options() const { return options_; }
  size_t bytes_per_slot() const;
  size_t weight_bytes() const { return weight_memory_.size() + row_memory_.size(); }
  size_t adapter_bytes();

 private:
  // Seconds that the threads take for body(0) … body(count - 1).
  double time_chunks(int num_threads, int count, const std::function<void(int)>& body);
  Place find(const std::string& name);
  void reserve(const Batch& batch, int num_threads);
  void cut_into_pieces(const Batch& batch);

  Options options_;
  Weights weights_;
  Matrix rows_;  // an embedding that is not the head: its type and shape
  std::vector<Layer> layers_;
  Cache cache_;
  Adapters adapters_;
  Arena weight_memory_, row_memory_, cache_memory_, buffer_memory_;
  size_t reserved_rows_ = 0;
  int reserved_threads_ = 0;
  std::vector<std::string> wanted_;  // names not yet loaded
  std::vector<Piece> pieces_;
  std::vector<int32_t> sequence_of_;
  Step step_{};
  Phases phases_;
  std::mutex mutex_;
  std::unique_ptr<Ahead> ahead_;  // of the cache, whose blocks are given out from its end
};

// Throws BadArgument unless every index of the batch is within the model, its cache and its adapters.
void check_batch(const Batch& batch, const Shape& shape, const Cache& cache, const Adapters& adapters);

// Of the blocks that a batch, which was checked, reads and writes.
int lowest_block(const Batch& batch, int block_size);

// The names of all tensors that a model of this shape has.
std::vector<std::string> tensor_names(const Shape& shape);

}  // namespace sluice
