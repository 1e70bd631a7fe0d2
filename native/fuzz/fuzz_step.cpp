// Fuzzer of random models with valid and invalid batches, run under sanitizers: `fuzz_step [rounds] [seed]`.
// A valid batch must run; an invalid one must be rejected or run within its bounds. Buffers have no spare capacity.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "chance.h"
#include "model/model.h"
#include "random_batch.h"
#include "random_plan.h"
#include "random_weights.h"
#include "sampling.h"

using namespace sluice;

namespace {

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
