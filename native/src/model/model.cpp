#include "model/model.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "weights/weights.h"

namespace sluice {

Model::Model(const Options& options)
    : options_(options), extent_(extent_of(options)), layers_(options.layers.size()), rotary_(options.rotary.size()) {
  const DecoderPlan& plan = options_.plan;
  int offset = 0;
  for (size_t i = 0; i < rotary_.size(); ++i) {
    const int half = static_cast<int>(options_.rotary[i].inverse_frequencies.size());
    rotary_[i] = {half, offset, options_.rotary[i].factor, nullptr};
    offset += 2 * half;
  }
  step_.rotation_stride = offset;
  weights_.layers = layers_.data();
  weights_.rotary = rotary_.data();
  weights_.num_rotary = static_cast<int>(rotary_.size());
  plan_weights(options_, weights_, layers_);
  latents_.reserve(layers_.size());  // no reallocation, since layers point into it
  for (Layer& layer : layers_) {
    if (layer.plan.latent.kv_rank == 0) continue;
    layer.latent = &latents_.emplace_back();
    plan_latent(layer.plan.latent, options_.type, *layer.latent);
    latent_buffers_.include(layer.plan.latent, *layer.latent);
  }
  for (Layer& layer : layers_) {
    if (layer.plan.experts.num_experts == 0) continue;
    expert_layers_.push_back(
        std::make_unique<ExpertLayer>(layer.plan.experts, options_.type, options_.plan.hidden_size));
    layer.experts = &expert_layers_.back()->experts;
    expert_buffers_.include(layer.plan.experts);
  }
  for (Layer& layer : layers_) {
    if (!layer.plan.has_recurrent()) continue;
    layer.recurrent.state = state_numbers_;
    state_numbers_ += round_up(layer.plan.recurrent.state_numbers(), 16);
  }
  weights_.embedding = plan.is_tied ? &weights_.head : &rows_.tokens;
  const bool is_packed = options_.type == Type::Packed;
  if (is_packed) {
    rows_.tokens = plan_matrix(Type::Packed, plan.vocab_size, plan.hidden_size);
    assign_kinds();
  }
  weight_memory_ = Arena(sluice::weight_bytes(options_, weights_, layers_));
  place_weights(options_, weights_, layers_, weight_memory_.data());
  weights_.rows_type = options_.type == Type::Float32 ? Type::Float32 : Type::BFloat16;
  const auto reserve_rows = [&](Matrix& rows, Arena& memory, int count, int width) {
    rows = plan_matrix(weights_.rows_type, count, width);
    memory = Arena((weights_.rows_type == Type::Float32 ? 4 : 2) * static_cast<size_t>(count) * width);
    return memory.data();
  };
  if (is_packed && !plan.is_tied) {
    row_memory_ = Arena(matrix_bytes(rows_.tokens, false));
    place_matrix(rows_.tokens, false, row_memory_.data());
  } else if (!plan.is_tied) {
    weights_.rows = reserve_rows(rows_.tokens, row_memory_, plan.vocab_size, plan.hidden_size);
  }
  if (plan.layer_input_width > 0)
    weights_.layer_input_rows = reserve_rows(rows_.layer_inputs, layer_row_memory_, plan.num_layer_inputs,
                                             plan.num_layers * plan.layer_input_width);
  tensors_ = tensors_of(plan, weights_, rows_, layers_);
  for (const Tensor& tensor : tensors_) {
    wanted_.insert(indices_.size());
    indices_.emplace(tensor.name, indices_.size());
  }
}

const Destination* Model::find(const std::string& name) const {
  const auto found = indices_.find(name);
  return found == indices_.end() ? nullptr : &tensors_[found->second].destination;
}

std::vector<size_t> Model::shape_of(const Destination& destination) {
  if (destination.width > 0)
    return {static_cast<size_t>(destination.count / destination.width), static_cast<size_t>(destination.width)};
  std::vector<size_t> shape{static_cast<size_t>(destination.count)};
  if (destination.matrix != nullptr) shape.push_back(static_cast<size_t>(destination.matrix->cols));
  return shape;
}

void Model::load(const std::string& name, const StoredTensor& tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t index = index_of(name);
  const Destination& destination = tensors_[index].destination;
  const std::vector<size_t> expected = shape_of(destination);
  if (tensor.shape != expected) {
    std::string text = "tensor: " + name + " must have the shape [";
    for (size_t i = 0; i < expected.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(expected[i]);
    throw BadArgument(text + "]");
  }
  if (destination.matrix != nullptr && destination.matrix->type == Type::Packed)
    throw BadArgument("tensor: " + name + " must be loaded from its blocks");
  if (destination.product == kLatentUp) {
    Layer& layer = layers_[destination.layer];
    pack_latent_up(layer.plan.latent, *layer.latent, tensor.data, tensor.stored);
  } else if (destination.matrix == &rows_.tokens) {
    store_rows(weights_.rows_type, row_memory_.data(), tensor.data, tensor.stored, expected[0] * expected[1]);
  } else if (destination.matrix == &rows_.layer_inputs) {
    store_rows(weights_.rows_type, layer_row_memory_.data(), tensor.data, tensor.stored, expected[0] * expected[1]);
  } else if (destination.matrix != nullptr) {
    pack_in_chunks(destination.count, [&](int begin, int end) {
      pack_rows(*destination.matrix, destination.first, destination.order, tensor.data, tensor.stored, begin, end);
    });
  } else {
    for (int i = 0; i < destination.count; ++i)
      destination.vector[target_row(destination.order, destination.first + i)] =
          read_stored(tensor.data, tensor.stored, i);
  }
  wanted_.erase(index);
}

size_t Model::index_of(const std::string& name) const {
  const auto found = indices_.find(name);
  if (found == indices_.end()) throw BadArgument("name: the model has no tensor " + name);
  return found->second;
}

void Model::pack_in_chunks(int count, const std::function<void(int, int)>& pack) {
  constexpr int kChunk = 8 * kRows;
  std::atomic<int> next{0};
  Pool::shared().run(options_.num_threads, [&](int) {
    for (int begin; (begin = next.fetch_add(kChunk)) < count;) pack(begin, std::min(begin + kChunk, count));
  });
}

std::vector<std::string> Model::missing() const {
  std::vector<std::string> names;
  for (const size_t index : wanted_) names.push_back(tensors_[index].name);
  return names;
}

// Reserve buffers for the batch. They grow by half their size at least, and never shrink.
void Model::reserve(const Batch& batch, int num_threads) {
  const size_t needed = static_cast<size_t>(batch.num_tokens) + batch.num_rows;
  if (needed <= reserved_rows_ && num_threads <= reserved_threads_) return;
  const size_t rows = std::max(needed, reserved_rows_ > 0 ? reserved_rows_ * 3 / 2 : 64);
  const int threads = std::max(num_threads, reserved_threads_);
  // A row's width is padded so that consecutive rows don't map to the same sets of the L1 cache.
  const auto stride = [](int width) { return padded(width) % 1024 == 0 ? padded(width) + kPad : padded(width); };
  const int hidden = options_.plan.hidden_size;
  const bool is_packed = options_.type == Type::Packed, quantizes = is_packed || options_.type == Type::Int8;
  const auto input_stride = [&](int width) { return is_packed ? packed_stride(width) : stride(width); };
  step_.residual_stride = stride(hidden);
  step_.input_stride = input_stride(std::max(hidden, extent_.mixed_width));
  const int wide_inner = quantizes ? extent_.inner_width : extent_.wide_inner_width;
  step_.wide_stride = stride(std::max({extent_.wide_width, extent_.mixed_width, wide_inner}));
  step_.inner_stride = input_stride(extent_.inner_width);
  const bool has_orders = std::any_of(orders_.begin(), orders_.end(), [](const auto& each) { return !each.second.empty(); });
  step_.ordered_stride = has_orders ? std::max(step_.input_stride, step_.inner_stride) : 0;
  step_.layer_inputs_stride = padded(options_.plan.num_layers * options_.plan.layer_input_width);
  const size_t piece_rows = std::max(kPieceRows, extent_.group_size) + 16, width = extent_.padded_head_dim;
  const size_t values = 64 * 4 * static_cast<size_t>(padded(extent_.latent_width));  // of latents, as values are packed
  const size_t row_bytes = options_.cache_type == Stored::Int8 ? 2 * padded(extent_.padded_head_dim) + 68 : 0;
  const size_t attention_bytes = piece_rows * (8 * width + 8 * 64 + 64 + 8 + row_bytes) + 12 * 64 + values;
  step_.scratch_bytes = round_up(std::max(attention_bytes, 4 * static_cast<size_t>(padded(hidden))), 4096);
  const size_t residual_bytes = rows * step_.residual_stride * 4;
  const size_t sizes[] = {residual_bytes,
                          rows * step_.input_stride * 4,
                          rows * 4,
                          rows * step_.wide_stride * 4,
                          rows * step_.inner_stride * 4,
                          rows * 4,
                          rows * step_.rotation_stride * 4,
                          threads * step_.scratch_bytes,
                          extent_.has_branch ? residual_bytes : 0,
                          rows * step_.layer_inputs_stride * 4,
                          options_.plan.num_extra_streams > 0 ? residual_bytes * options_.plan.num_streams() : 0,
                          rows * step_.ordered_stride * 4};
  size_t bytes = 0;
  for (const size_t size : sizes) bytes += round_up(size, 64);
  buffer_memory_ = Arena();
  buffer_memory_ = Arena(bytes);
  uint8_t* memory = buffer_memory_.data();
  constexpr int kParts = sizeof(sizes) / sizeof(size_t);
  uint8_t* parts[kParts];
  for (int i = 0; i < kParts; ++i) {
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
  step_.branch = extent_.has_branch ? reinterpret_cast<float*>(parts[8]) : nullptr;
  step_.layer_inputs = options_.plan.layer_input_width > 0 ? reinterpret_cast<float*>(parts[9]) : nullptr;
  step_.streams = options_.plan.num_extra_streams > 0 ? reinterpret_cast<float*>(parts[10]) : nullptr;
  step_.ordered = has_orders ? parts[11] : nullptr;
  reserved_rows_ = rows;
  reserved_threads_ = threads;
}

void Model::cut_into_pieces(const Batch& batch) {
  const int tokens_each = std::max(1, kPieceRows / extent_.group_size);
  pieces_.clear();
  sequence_of_.resize(batch.num_tokens);
  for (int sequence = 0; sequence < batch.num_sequences; ++sequence) {
    const int begin = batch.row_offsets[sequence], end = batch.row_offsets[sequence + 1];
    for (int token = begin; token < end; ++token) sequence_of_[token] = sequence;
    for (int token = begin; token < end; token += tokens_each)
      pieces_.push_back({sequence, token, std::min(tokens_each, end - token), token});
  }
  kept_pieces_.clear();
  for (int row = 0; row < batch.num_rows; ++row) {
    const int token = batch.output_rows[row];
    kept_pieces_.push_back({sequence_of_[token], token, 1, row});
  }
}

bool Model::step(const Batch& batch, int num_threads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!wanted_.empty()) throw std::logic_error("step() before " + tensors_[*wanted_.begin()].name + " was loaded");
  if (cache_.data == nullptr) throw std::logic_error("step() before allocate()");
  if (state_numbers_ > 0 && states_.data == nullptr) throw std::logic_error("step() before allocate_states()");
  check_batch(batch, options_.plan.vocab_size, cache_, state_numbers_ > 0 ? &states_ : nullptr, adapters_);
  if (num_threads <= 0) num_threads = options_.num_threads;
  ahead_->begin(cache_.block_bytes * static_cast<size_t>(lowest_block(batch, cache_)));
  if (batch.arrivals != nullptr) choices_.assign(static_cast<size_t>(options_.plan.num_layers), Choice::Open);
  compute(batch, num_threads);
  ahead_->end();
  return batch.arrivals == nullptr || choices_.back() == Choice::Continue;
}

void Model::compute(const Batch& batch, int num_threads) {
  reserve(batch, num_threads);
  cut_into_pieces(batch);
  step_.plan = &options_.plan;
  step_.weights = &weights_;
  step_.cache = &cache_;
  step_.states = &states_;
  step_.batch = batch;
  step_.pieces = pieces_.data();
  step_.num_pieces = static_cast<int>(pieces_.size());
  step_.kept_pieces = kept_pieces_.data();
  step_.sequence_of = sequence_of_.data();
  step_.routing = expert_buffers_.reserve(step_, reserved_rows_);
  step_.latents = latent_buffers_.reserve(reserved_rows_);
  step_.adapted = adapters_.prepare(step_, options_.type);
  step_.choices = batch.arrivals == nullptr ? nullptr : choices_.data();
  step_.num_threads = num_threads;
  step_.phases = &phases_;
  phases_.reset(num_threads);
  Pool::shared().run(num_threads, [&](int thread) { options_.set->run(step_, thread); });
}

}  // namespace sluice
