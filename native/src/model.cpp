#include "model.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "destination.h"

namespace sluice {

namespace {

size_t floats(int count) { return round_up(static_cast<size_t>(count) * sizeof(float), 64); }

// Call vector(pointer to a float vector, its size) and matrix(matrix, has bias) for everything in the weights' memory.
template <class OnVector, class OnMatrix>
void each_part(const Options& options, Weights& weights, std::vector<Layer>& layers, OnVector vector, OnMatrix matrix) {
  const Shape& shape = options.shape;
  const int hidden = padded(shape.hidden_size), head = shape.padded_head_dim();
  vector(weights.norm, hidden);
  vector(weights.inverse_frequencies, static_cast<int>(options.inverse_frequencies.size()));
  for (Layer& layer : layers) {
    vector(layer.attention_norm, hidden);
    vector(layer.mlp_norm, hidden);
    if (shape.has_head_norm) {
      vector(layer.query_norm, head);
      vector(layer.key_norm, head);
    }
    matrix(layer.qkv, shape.has_qkv_bias);
    matrix(layer.output, shape.has_output_bias);
    matrix(layer.gate_up, shape.has_mlp_bias);
    matrix(layer.down, shape.has_mlp_bias);
  }
  matrix(weights.head, false);
}

}  // namespace

Model::Model(const Options& options)
    : options_(options), layers_(options.shape.num_layers), wanted_(tensor_names(options.shape)) {
  const Shape& shape = options_.shape;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    layer = {};
    layer.qkv = plan_matrix(options_.type, shape.qkv_width(), shape.hidden_size);
    layer.output = plan_matrix(options_.type, shape.hidden_size, shape.query_width());
    layer.gate_up = plan_matrix(options_.type, 2 * groups_of(shape.intermediate_size) * kRows, shape.hidden_size);
    layer.down = plan_matrix(options_.type, shape.hidden_size, shape.intermediate_size);
    layer.window = options_.windows[i];
    layer.has_rope = options_.has_rope[i];
  }
  // The head has eight bits, since it determines the token and is also the embedding if both are tied.
  const Type head = options_.type == Type::Int4 ? Type::Int8 : options_.type;
  weights_.head = plan_matrix(head, shape.vocab_size, shape.hidden_size);
  size_t bytes = 0;
  each_part(
      options_, weights_, layers_, [&](float*&, int count) { bytes += floats(count); },
      [&](Matrix& matrix, bool has_bias) { bytes += matrix_bytes(matrix, has_bias); });
  weight_memory_ = Arena(bytes);
  uint8_t* memory = weight_memory_.data();
  each_part(
      options_, weights_, layers_,
      [&](float*& vector, int count) {
        vector = reinterpret_cast<float*>(memory);
        memory += floats(count);
      },
      [&](Matrix& matrix, bool has_bias) {
        place_matrix(matrix, has_bias, memory);
        memory += matrix_bytes(matrix, has_bias);
      });
  weights_.layers = layers_.data();
  std::copy(options_.inverse_frequencies.begin(), options_.inverse_frequencies.end(), weights_.inverse_frequencies);
  if (!shape.is_tied) {
    weights_.rows_type = options_.type == Type::Float32 ? Type::Float32 : Type::BFloat16;
    rows_ = plan_matrix(weights_.rows_type, shape.vocab_size, shape.hidden_size);
    const size_t element = weights_.rows_type == Type::Float32 ? 4 : 2;
    row_memory_ = Arena(element * shape.vocab_size * shape.hidden_size);
    weights_.rows = row_memory_.data();
  }
}

Destination Model::find(const std::string& name) {
  const Shape& shape = options_.shape;
  const Destination head{&weights_.head, nullptr, 0, shape.vocab_size, RowOrder::Plain};
  if (name == "model.norm.weight") return {nullptr, weights_.norm, 0, shape.hidden_size, RowOrder::Plain};
  if (name == "model.embed_tokens.weight")
    return shape.is_tied ? head : Destination{&rows_, nullptr, 0, shape.vocab_size, RowOrder::Plain};
  if (name == "lm_head.weight") return shape.is_tied ? Destination{} : head;
  if (name.rfind("model.layers.", 0) != 0) return {};
  const size_t dot = name.find('.', 13);
  const std::string number = dot == std::string::npos ? "" : name.substr(13, dot - 13);
  if (number.empty() || number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos) return {};
  if (std::stoi(number) >= shape.num_layers) return {};
  return find_in_layer(layers_[std::stoi(number)], shape, name.substr(dot + 1));
}

std::vector<size_t> Model::shape_of(const std::string& name) {
  const Destination destination = find(name);
  if (!destination.is_found()) throw BadArgument("name: the model has no tensor " + name);
  std::vector<size_t> shape{static_cast<size_t>(destination.count)};
  if (destination.matrix != nullptr) shape.push_back(static_cast<size_t>(destination.matrix->cols));
  return shape;
}

void Model::load(const std::string& name, const StoredTensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<size_t> expected = shape_of(name);
  if (tensor.shape != expected) {
    std::string text = "tensor: " + name + " must have the shape [";
    for (size_t i = 0; i < expected.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(expected[i]);
    throw BadArgument(text + "]");
  }
  const Destination destination = find(name);
  if (destination.matrix == &rows_) {
    store_rows(rows_.type, row_memory_.data(), tensor.data, tensor.stored, expected[0] * expected[1]);
  } else if (destination.matrix != nullptr) {
    constexpr int kChunk = 8 * kRows;
    std::atomic<int> next{0};
    Pool::shared().run(options_.num_threads, [&](int) {
      for (int begin; (begin = next.fetch_add(kChunk)) < destination.count;)
        pack_rows(*destination.matrix, destination.first, destination.order, tensor.data, tensor.stored, begin,
                  std::min(begin + kChunk, destination.count));
    });
  } else {
    for (int i = 0; i < destination.count; ++i)
      destination.vector[target_row(destination.order, destination.first + i)] =
          read_stored(tensor.data, tensor.stored, i);
  }
  wanted_.erase(std::remove(wanted_.begin(), wanted_.end(), name), wanted_.end());
}

std::vector<std::string> Model::missing() const { return wanted_; }

size_t Model::bytes_per_slot() const {
  const Shape& shape = options_.shape;
  return bytes_of(options_.cache_type) * 2 * shape.padded_head_dim() * shape.num_kv_heads * shape.num_layers;
}

void Model::allocate(int num_blocks, int block_size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_blocks < 1) throw BadArgument("num_blocks must be at least 1");
  if (block_size < kRows || block_size % kRows != 0) throw BadArgument("block_size must be a multiple of 16");
  const Shape& shape = options_.shape;
  Cache cache;
  cache.type = options_.cache_type;
  cache.num_blocks = num_blocks;
  cache.block_size = block_size;
  cache.part_bytes = bytes_of(cache.type) * kRows * shape.padded_head_dim();
  cache.head_bytes = 2 * cache.part_bytes * (block_size / kRows);
  cache.layer_bytes = cache.head_bytes * shape.num_kv_heads;
  cache.block_bytes = cache.layer_bytes * shape.num_layers;
  ahead_.reset();
  cache_memory_ = Arena();
  cache_memory_ = Arena(cache.block_bytes * num_blocks);
  cache.data = cache_memory_.data();
  cache_ = cache;
  ahead_ = std::make_unique<Ahead>(cache.data, cache.block_bytes * num_blocks);
}

// Reserve buffers for the batch. They grow by half their size at least, and never shrink.
void Model::reserve(const Batch& batch, int num_threads) {
  const Shape& shape = options_.shape;
  const size_t needed = static_cast<size_t>(batch.num_tokens) + batch.num_rows;
  if (needed <= reserved_rows_ && num_threads <= reserved_threads_) return;
  const size_t rows = std::max(needed, reserved_rows_ > 0 ? reserved_rows_ * 3 / 2 : 64);
  const int threads = std::max(num_threads, reserved_threads_);
  // A row's width is padded so that consecutive rows don't map to the same sets of the L1 cache.
  const auto stride = [](int width) { return padded(width) % 1024 == 0 ? padded(width) + kPad : padded(width); };
  step_.residual_stride = stride(shape.hidden_size);
  step_.input_stride = stride(std::max(shape.hidden_size, shape.query_width()));
  step_.wide_stride = stride(std::max(shape.qkv_width(), options_.type == Type::Int8 ? shape.intermediate_size : 0));
  step_.inner_stride = stride(shape.intermediate_size);
  const int group_size = shape.num_heads / shape.num_kv_heads;
  const size_t piece_rows = std::max(kPieceRows, group_size) + 16, width = shape.padded_head_dim();
  const size_t attention_bytes = piece_rows * (8 * width + 8 * 64 + 64 + 8) + 7 * 64;
  step_.scratch_bytes = round_up(std::max(attention_bytes, 4 * static_cast<size_t>(padded(shape.hidden_size))), 4096);
  const size_t sizes[] = {rows * step_.residual_stride * 4, rows * step_.input_stride * 4, rows * 4,
                          rows * step_.wide_stride * 4,     rows * step_.inner_stride * 4, rows * 4,
                          rows * shape.rotary_dim * 4,      threads * step_.scratch_bytes};
  size_t bytes = 0;
  for (const size_t size : sizes) bytes += round_up(size, 64);
  buffer_memory_ = Arena();
  buffer_memory_ = Arena(bytes);
  uint8_t* memory = buffer_memory_.data();
  uint8_t* parts[8];
  for (int i = 0; i < 8; ++i) {
    parts[i] = memory;
    memory += round_up(sizes[i], 64);
  }
  step_.residual = reinterpret_cast<float*>(parts[0]);
  step_.input = parts[1];
  step_.input_scales = reinterpret_cast<float*>(parts[2]);
  step_.wide = reinterpret_cast<float*>(parts[3]);
  step_.inner = parts[4];
  step_.inner_scales = reinterpret_cast<float*>(parts[5]);
  step_.rotation = reinterpret_cast<float*>(parts[6]);
  step_.scratch = parts[7];
  reserved_rows_ = rows;
  reserved_threads_ = threads;
}

void Model::cut_into_pieces(const Batch& batch) {
  const int group_size = options_.shape.num_heads / options_.shape.num_kv_heads;
  const int tokens_each = std::max(1, kPieceRows / group_size);
  pieces_.clear();
  sequence_of_.resize(batch.num_tokens);
  for (int sequence = 0; sequence < batch.num_sequences; ++sequence) {
    const int begin = batch.row_offsets[sequence], end = batch.row_offsets[sequence + 1];
    for (int token = begin; token < end; ++token) sequence_of_[token] = sequence;
    for (int token = begin; token < end; token += tokens_each)
      pieces_.push_back({sequence, token, std::min(tokens_each, end - token)});
  }
}

void Model::step(const Batch& batch, int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!wanted_.empty()) throw std::logic_error("step() before " + wanted_.front() + " was loaded");
  if (cache_.data == nullptr) throw std::logic_error("step() before allocate()");
  check_batch(batch, options_.shape, cache_, adapters_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  ahead_->begin(cache_.block_bytes * static_cast<size_t>(lowest_block(batch, cache_.block_size)));
  reserve(batch, num_threads);
  cut_into_pieces(batch);
  step_.shape = &options_.shape;
  step_.weights = &weights_;
  step_.cache = &cache_;
  step_.batch = batch;
  step_.pieces = pieces_.data();
  step_.num_pieces = static_cast<int>(pieces_.size());
  step_.sequence_of = sequence_of_.data();
  step_.adapted = adapters_.prepare(step_, options_.type);
  step_.num_threads = num_threads;
  step_.phases = &phases_;
  phases_.reset(num_threads);
  Pool::shared().run(num_threads, [&](int thread) { options_.set->run(step_, thread); });
  ahead_->end();
}

double Model::time_chunks(int num_threads, int count, const std::function<void(int)>& body) {
  phases_.reset(num_threads);
  const auto began = std::chrono::steady_clock::now();
  Pool::shared().run(num_threads, [&](int thread) {
    int part = 0, done = 0;
    for (int chunk; (chunk = phases_.take(0, count, thread, part)) >= 0; ++done) body(chunk);
    phases_.end(0, count, done);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double Model::read_weights(int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  const int count = 32 * num_threads;
  const size_t each = weight_memory_.size() / static_cast<size_t>(count);
  std::atomic<uint64_t> sum{0};
  return time_chunks(num_threads, count, [&](int chunk) {
    sum += options_.set->read(weight_memory_.data() + each * static_cast<size_t>(chunk), each);
  });
}

double Model::multiply_rate(int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  constexpr int kRounds = 20'000;
  const std::vector<uint8_t> numbers(kNumbers);
  std::atomic<uint64_t> products{0};
  std::atomic<float> sum{0};
  const double seconds = time_chunks(num_threads, 8 * num_threads, [&](int) {
    float part;
    products += options_.set->multiply(options_.type, numbers.data(), kRounds, &part);
    sum.store(part, std::memory_order_relaxed);
  });
  return static_cast<double>(products) / seconds;
}

}  // namespace sluice
