// Fuzzer of random models with valid and invalid batches, run under sanitizers: `fuzz_step [rounds] [seed]`.
// A valid batch must run; an invalid one must be rejected or run within its bounds. Buffers have no spare capacity.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "model.h"
#include "sampling.h"

using namespace sluice;

namespace {

std::mt19937 random_bits;

constexpr int kMostTokens = 9 * 48;  // of a sequence

int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }
bool one_in(int n) { return between(1, n) == 1; }

ExpertsPlan random_experts() {
  const int num_groups = between(1, 3), group_size = between(2, 9), num_chosen_groups = between(1, num_groups);
  const int shared_width = one_in(2) ? between(1, 100) : 0;
  return {num_groups * group_size,
          between(1, num_chosen_groups * group_size),
          between(1, 100),
          static_cast<Activation>(between(0, 4)),
          one_in(3) ? 7.0f : 0.0f,
          1.702f,
          one_in(3),
          static_cast<Scores>(between(0, 2)),
          one_in(3),
          one_in(3),
          num_groups,
          num_chosen_groups,
          one_in(2),
          one_in(2),
          one_in(2) ? 1e-20f : 0.0f,
          one_in(2) ? 1e-12f : 0.0f,
          one_in(2) ? 1.0f : 2.5f,
          shared_width,
          shared_width > 0 && one_in(2)};
}

RecurrentPlan random_recurrent() {
  RecurrentPlan plan{};
  plan.kind = static_cast<Recurrence>(between(0, 2));
  const bool is_convolution = plan.kind == Recurrence::ShortConvolution;
  plan.num_key_heads = is_convolution ? 0 : between(1, 3);
  plan.num_heads = is_convolution ? 1 : plan.num_key_heads * between(1, 3);
  plan.key_dim = is_convolution ? 0 : between(1, 40);
  plan.value_dim = between(1, 90);
  plan.taps = between(1, 5);
  plan.has_convolution_bias = one_in(2);
  plan.has_input_bias = one_in(2);
  plan.has_output_bias = one_in(2);
  plan.gate_norm = is_convolution ? GateNorm::None : static_cast<GateNorm>(between(0, 2));
  plan.norm_size = one_in(2) ? plan.value_dim : plan.inner_width();
  plan.most_step = one_in(2) ? 0.5f : 1e30f;
  plan.gate_multiplier = plan.value_multiplier = plan.key_multiplier = plan.query_multiplier = plan.step_multiplier =
      one_in(2) ? 1.0f : 0.7f;
  plan.output_multiplier = one_in(2) ? 1.0f : 0.7f;
  return plan;
}

// Return the index of a rotary table that fits heads of a size, or -1.
int random_rotary(const Options& options, int dim) {
  int found = -1;
  for (size_t i = 0; i < options.rotary.size(); ++i)
    if (2 * options.rotary[i].inverse_frequencies.size() <= static_cast<size_t>(dim) && !one_in(3))
      found = static_cast<int>(i);
  return found;
}

LatentPlan random_latent(const Options& options) {
  const int rotated_dim = 2 * between(1, 20);
  return {between(1, 40), between(1, 70), one_in(2) ? between(1, 50) : 0,      between(1, 40), rotated_dim,
          between(1, 40), random_rotary(options, rotated_dim), 0.3f, 1e-6f, one_in(2),      one_in(2)};
}

LayerPlan random_layer(const Options& options) {
  const int kv_heads = between(1, 3), head_dim = 2 * between(1, 40);
  const bool is_parallel = one_in(4), has_bias = one_in(2);
  LayerPlan layer{};
  layer.attention = {kv_heads * between(1, 5),
                     kv_heads,
                     head_dim,
                     one_in(2) ? between(1, 90) : 0,
                     random_rotary(options, head_dim),
                     0.3f,
                     one_in(4) ? 5.0f : 0.0f,
                     one_in(4) ? 2.0f : 0.0f,
                     static_cast<HeadNorm>(one_in(2) ? between(1, 3) : 0),
                     options.plan.norm_kind == NormKind::Layer && one_in(2),
                     one_in(2),
                     has_bias,
                     one_in(2),
                     one_in(3),
                     one_in(3),
                     one_in(2) ? 1.0f : 0.7f,
                     one_in(4) ? 0.1f : 0.0f,
                     between(1, 30),
                     options.plan.has_head || one_in(3)};
  layer.attention.rotary = random_rotary(options, head_dim);
  if (one_in(3)) {
    layer.attention = {};
    layer.latent = random_latent(options);
  }
  layer.has_attended_norm = layer.latent.kv_rank == 0 && one_in(4);
  layer.has_inner_norm = one_in(4);
  layer.feed_forward = {between(1, 100), static_cast<Activation>(between(0, 5)), !one_in(3), one_in(2), 1.0f,
                        one_in(2) ? 1.0f : 0.7f};
  layer.has_attention_norm = !one_in(4);
  layer.has_attention_output_norm = !is_parallel && one_in(3);
  layer.has_mlp_norm = !one_in(3);
  layer.has_mlp_output_norm = !is_parallel && one_in(3);
  layer.has_attention_sum_norm = !is_parallel && one_in(3);
  layer.has_mlp_sum_norm = one_in(3);
  layer.is_parallel = is_parallel;
  if (!is_parallel && one_in(2)) {
    layer.feed_forward = {};
    layer.has_inner_norm = false;
    layer.experts = random_experts();
  }
  if (options.plan.has_head && !is_parallel && !layer.has_attention_output_norm && one_in(2)) {
    layer.recurrent = random_recurrent();
    if (!one_in(3)) layer.attention = {};
    if (one_in(4)) {
      layer.feed_forward = {};
      layer.experts = {};
    }
  }
  return layer;
}

// Give some layers the keys of earlier ones.
void share_keys(Options& options) {
  for (size_t i = 1; i < options.layers.size(); ++i) {
    const int back = between(1, static_cast<int>(i));
    const AttentionPlan& other = options.layers[i - static_cast<size_t>(back)].attention;
    LayerPlan& layer = options.layers[i];
    if (layer.attention.num_heads == 0 || other.num_heads == 0 || other.keys_back > 0 || !one_in(2)) continue;
    const bool has_sinks = layer.attention.has_sinks;
    layer.attention = other;
    layer.attention.num_heads = other.num_kv_heads * between(1, 5);
    layer.attention.has_gate = false;
    layer.attention.has_sinks = has_sinks;
    layer.attention.keys_back = back;
  }
}

// Give a model with a head the parts that Gemma 3n and 4 have.
void add_gemma_parts(Options& options) {
  const bool is_rms = options.plan.norm_kind == NormKind::Rms;
  for (LayerPlan& layer : options.layers) {
    AttentionPlan& attention = layer.attention;
    layer.has_scale = one_in(3);
    attention.norms_values = attention.num_heads > 0 && is_rms && one_in(3);
    attention.values_are_keys = attention.num_heads > 0 && !attention.has_gate && one_in(3);
    DensePlan& dense = layer.feed_forward;
    dense.is_sparse = dense.width > 0 && dense.is_gated && !layer.has_inner_norm && one_in(2);
    dense.cutoff = one_in(2) ? 1.0f : -0.5f;
    if (layer.has_attention_output_norm && layer.latent.kv_rank == 0 && is_rms && one_in(2))
      layer.laurel_rank = between(1, 80);
  }
  share_keys(options);
  if (!is_rms || options.type == Type::Packed) return;
  if (one_in(2)) {
    options.plan.layer_input_width = between(1, 40);
    options.plan.num_layer_inputs = between(1, 100);
    options.plan.layer_input_activation = static_cast<Activation>(between(0, 4));
  }
  if (one_in(2)) {
    options.plan.num_extra_streams = between(1, 7);
    options.plan.scales_corrected = one_in(2);
  }
}

// Give a model Packed weights: numbers or, if it gets sizes that are multiples of 32, blocks.
void pack_weights(Options& options) {
  static const char* const kNumbers[] = {"float32", "float16", "bfloat16"};
  static const char* const kBlocks[] = {"q8_0",   "q4_0",  "q4_1",           "q5_0",           "q5_1",
                                        "iq4_nl", "mxfp4", "u2.g16.float32", "u3.g32.float16", "u8.g16.bfloat16"};
  const bool has_blocks = one_in(2);
  const std::string kind = has_blocks ? kBlocks[between(0, 9)] : kNumbers[between(0, 2)];
  options.kind_of = [kind](const std::string&) { return kind; };
  if (!has_blocks) return;
  options.plan.hidden_size = 32 * between(1, 20);
  for (LayerPlan& layer : options.layers) {
    layer.attention.head_dim = 32 * between(1, 3);
    if (layer.experts.num_experts > 0) {
      layer.experts.width = 32 * between(1, 10);
      if (layer.experts.shared_width > 0) layer.experts.shared_width = 32 * between(1, 3);
    } else {
      layer.feed_forward.width = 32 * between(1, 20);
    }
    layer.attention.rotary = -1;
  }
}

Options random_options() {
  Options options;
  const NormKind norm = one_in(2) ? NormKind::Rms : NormKind::Layer;
  const bool has_head = !one_in(3);
  options.plan = {between(1, 90),
                  between(1, 70),
                  between(1, 3),
                  norm,
                  1e-6f,
                  norm == NormKind::Layer && one_in(2),
                  one_in(2) ? 1.0f : 3.0f,
                  one_in(2) ? 1.0f : 0.5f,
                  one_in(2) ? 1.0f : 0.1f,
                  one_in(3) ? 20.0f : 0.0f,
                  has_head && one_in(2),
                  has_head && one_in(4),
                  has_head,
                  has_head || one_in(2),
                  one_in(4),
                  has_head || one_in(2) ? 0 : kMostTokens + 2,
                  0,
                  has_head || one_in(2) ? 0 : between(1, 3)};
  if (options.plan.num_positions > 0) options.plan.first_position = between(0, 2);
  for (int i = between(0, 3); i > 0; --i)
    options.rotary.push_back({std::vector<float>(static_cast<size_t>(between(0, 40)), 0.1f), 1});
  options.type = static_cast<Type>(between(0, 4));
  options.cache_type = static_cast<Stored>(between(0, 2));
  while (static_cast<int>(options.layers.size()) < options.plan.num_layers) {
    const LayerPlan layer = random_layer(options);
    const bool is_plain = layer.attention.num_heads > 0 && !layer.has_recurrent() && layer.has_feed_forward();
    if (is_plain || options.type != Type::Packed) options.layers.push_back(layer);
  }
  if (options.type == Type::Packed)
    pack_weights(options);
  else if (options.plan.has_head && one_in(2))
    add_gemma_parts(options);
  options.num_threads = between(1, 4);
  do {
    options.set = &instruction_sets()[between(0, static_cast<int>(instruction_sets().size()) - 1)];
  } while (!options.set->is_runnable);
  return options;
}

// Visits the fields of a plan's parts with `Visitor`, which derives from it.
template <class Visitor>
struct Parts {
  template <class Part>
  void optional(const char*, Part& field) {
    if (field.num_heads == 0)
      field = {};
    else
      each_field(field, static_cast<Visitor&>(*this));
  }
  void either(const char*, const char*, LatentPlan& latent, AttentionPlan& attention) {
    if (latent.kv_rank > 0)
      each_field(latent, static_cast<Visitor&>(*this));
    else
      optional("", attention);
  }
  void either(const char*, const char*, ExpertsPlan& experts, DensePlan& dense) {
    if (experts.num_experts != 0)
      each_field(experts, static_cast<Visitor&>(*this));
    else if (dense.width != 0)
      each_field(dense, static_cast<Visitor&>(*this));
  }
};

// Changes some fields; a plan whose numbers are within their ranges is then rejected, or fits.
struct Spoiler : Parts<Spoiler> {
  void number(const char*, int& field, double, double) {
    if (one_in(6)) field = between(-1, 40);
  }
  void number(const char*, float& field, double, double) {
    if (one_in(6)) field = 0.5f * static_cast<float>(between(-2, 4));
  }
  void flag(const char*, bool& field) { field ^= one_in(6); }
  template <class Choice, size_t Count>
  void choice(const char*, Choice& field, const char* const (&)[Count]) {
    if (one_in(6)) field = static_cast<Choice>(between(0, static_cast<int>(Count) - 1));
  }
};

// The ranges of numbers, which the reader of plans checks.
struct Ranges : Parts<Ranges> {
  bool are_kept = true;
  template <class Value>
  void number(const char*, Value& field, double least, double most) {
    are_kept &= static_cast<double>(field) >= least && static_cast<double>(field) <= most;
  }
  void flag(const char*, bool&) {}
  template <class Choice, size_t Count>
  void choice(const char*, Choice&, const char* const (&)[Count]) {}
};

Options valid_options(int& num_rejected) {
  for (;;) {
    Options options = random_options();
    if (options.type == Type::Packed || !one_in(3)) return options;
    Spoiler spoiler;
    Ranges ranges;
    each_field(options.plan, spoiler);
    each_field(options.plan, ranges);
    for (LayerPlan& layer : options.layers) {
      each_field(layer, spoiler);
      each_field(layer, ranges);
    }
    try {
      if (!ranges.are_kept) throw BadArgument("a number is out of its range");
      check_plan(options);
      return options;
    } catch (const BadArgument&) {
      ++num_rejected;
    }
  }
}

void load_all(Model& model) {
  for (const auto& [name, destination] : model.tensors()) {
    StoredTensor tensor{nullptr, static_cast<Stored>(between(0, 2)), Model::shape_of(destination)};
    size_t count = 1;
    for (const size_t size : tensor.shape) count *= size;
    if (destination.matrix != nullptr && destination.matrix->type == Type::Packed) {
      const PackedKind& kind = *destination.matrix->packed[target_row(destination.order, destination.first) / 16].kind;
      const size_t row_bytes = packed_row_bytes(kind, destination.matrix->cols);
      std::vector<uint8_t> blocks(row_bytes * tensor.shape[0]);
      for (uint8_t& value : blocks) value = static_cast<uint8_t>(between(0, 255));
      model.load_blocks(name, blocks.data(), tensor.shape[0], row_bytes);
      continue;
    }
    std::vector<float> floats(tensor.stored == Stored::Float32 ? count : 0);
    std::vector<uint16_t> halves(tensor.stored == Stored::Float32 ? 0 : count);
    for (float& value : floats) value = std::normal_distribution<float>(0, one_in(1000) ? 1e30f : 0.1f)(random_bits);
    for (uint16_t& value : halves) value = static_cast<uint16_t>(between(0, 0xffff));  // includes NaNs
    tensor.data = floats.empty() ? static_cast<const void*>(halves.data()) : floats.data();
    model.load(name, tensor);
  }
}

constexpr int kSlots = 3, kStates = 14;

// Put an adapter of a random choice of modules into a slot; each module has its own random rank.
void put_random_adapter(Model& model, int slot) {
  std::vector<std::vector<float>> matrices;
  std::vector<GivenLowRank> modules;
  for (const auto& [name, destination] : model.tensors()) {
    const std::vector<size_t> shape = Model::shape_of(destination);
    if (shape.size() != 2 || destination.layer < 0 || one_in(2)) continue;
    const int rank = between(1, 40);
    for (const size_t count : {rank * shape[1], rank * shape[0]}) {
      matrices.emplace_back(count);
      for (float& value : matrices.back()) value = std::normal_distribution<float>(0, 0.1f)(random_bits);
    }
    modules.push_back({name.substr(0, name.rfind('.')), rank, shape[1], shape[0], matrices[matrices.size() - 2].data(),
                       matrices.back().data()});
  }
  model.put_adapter(slot, modules);
}

struct RandomBatch {
  std::vector<int32_t> token_ids, positions, row_offsets{0}, context_lengths, block_tables, output_rows, adapters;
  std::vector<int32_t> states, types;
  std::unique_ptr<float[]> logits;
  Batch batch{};

  // A block that is written belongs to one sequence's table, since threads write without locks. The first `num_shared`
  // blocks are only read, by any sequence.
  RandomBatch(const DecoderPlan& plan, const Cache& cache) {
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

  void point() {
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

  void spoil() {
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
};

void sample_all(const Model& model, const RandomBatch& random, SamplingScratch& scratch) {
  const int vocab_size = model.options().plan.vocab_size;
  for (int row = 0; row < random.batch.num_rows; ++row) {
    DrawParams params;
    for_each_field([&](const char*, auto member, double, double most) {
      auto& field = params.*member;
      const int percent = one_in(3) ? 0 : between(0, most <= 1 ? 100 : 300);
      field = std::is_integral_v<std::remove_reference_t<decltype(field)>> ? percent : 0.01 * percent;
    });
    const double uniform = 0.001 * between(0, 999);
    const int token =
        sample_row(*model.options().set, random.batch.logits + row * vocab_size, vocab_size, params, uniform, scratch);
    if (token < -1 || token >= vocab_size) std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  random_bits.seed(argc > 2 ? std::atoi(argv[2]) : 0);
  int num_steps = 0, num_rejected = 0, num_rejected_plans = 0;
  SamplingScratch scratch;
  for (int round = 0; round < rounds; ++round) {
    Model model(valid_options(num_rejected_plans));
    load_all(model);
    std::vector<int> groups;
    for (int layer = 0, most = 0; layer < model.options().plan.num_layers && !one_in(4); ++layer) {
      groups.push_back(between(0, most));
      most = std::max(most, groups.back() + 1);
    }
    if (groups.size() < model.options().layers.size()) groups.clear();
    std::shuffle(groups.begin(), groups.end(), random_bits);
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i - static_cast<size_t>(model.options().layers[i].attention.keys_back)] != groups[i]) groups.clear();
    const int num_blocks = between(3, 14), block_size = 16 * between(1, 3);
    const DecoderPlan& plan = model.options().plan;
    const int all_visible = 0;
    Cache blocks;  // of a plan without a head, which has no cache
    blocks.num_blocks = num_blocks;
    blocks.block_size = block_size;
    blocks.num_groups = 1;
    blocks.windows = &all_visible;
    if (plan.has_head) model.allocate(num_blocks, block_size, groups);
    if (model.bytes_per_state() > 0) model.allocate_states(kStates);
    for (int slot = 0; slot < kSlots; ++slot) put_random_adapter(model, slot);
    for (int i = 0; i < 12; ++i) {
      if (one_in(4)) put_random_adapter(model, between(0, kSlots - 1));
      RandomBatch random(plan, plan.has_head ? model.cache() : blocks);
      const bool is_valid = !one_in(3);
      if (!is_valid) random.spoil();
      try {
        if (plan.has_head) {
          model.step(random.batch, is_valid ? between(0, 4) : 1);  // an invalid one may give two sequences one block
          sample_all(model, random, scratch);
        } else {
          model.encode(random.batch, between(0, 4));
        }
        ++num_steps;
      } catch (const BadArgument& error) {
        if (is_valid) {
          std::printf("a valid batch was rejected: %s\n", error.what());
          return 1;
        }
        ++num_rejected;
      }
    }
  }
  std::printf("%d steps, %d batches and %d plans rejected\n", num_steps, num_rejected, num_rejected_plans);
  return 0;
}
