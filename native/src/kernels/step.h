// One thread's part of a step: the phases of all layers, whose chunks are shared by all threads.
#pragma once

#include "kernels/attention/heads.h"
#include "kernels/attention/latent.h"
#include "kernels/experts/experts.h"
#include "kernels/gemma.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/registers/activation.h"
#include "kernels/thread.h"

namespace sluice {
namespace SLUICE_SET {

// Weight is the format of the layers' weights.
template <class Weight>
struct ThreadStep : Thread<Weight> {
  using Own = Thread<Weight>;
  using Own::adapted, Own::batch, Own::kQuantizes, Own::plan, Own::step, Own::weights;
  using Own::inner_row, Own::rotation, Own::wide_row;
  using typename Own::Added;
  using typename Own::Inputs;

  void begin() {
    this->each_row(batch.num_tokens, [&](int token) {
      embed(token, this->residual_row(token));
      for (int i = 0; i < weights.num_rotary; ++i) {
        const Rotary& rotary = weights.rotary[i];
        float* cosines = rotation(token, rotary);
        for (int j = 0; j < rotary.half; ++j) {
          const float angle = static_cast<float>(batch.positions[token]) * rotary.inverse_frequencies[j];
          cosines[j] = __builtin_cosf(angle) * rotary.factor;
          cosines[rotary.half + j] = __builtin_sinf(angle) * rotary.factor;
        }
      }
    });
  }

  void embed(int token, float* row) const {
    sluice::SLUICE_SET::embed(weights, plan, batch.token_ids[token], row);
    const auto add = [&](const float* table, int index) {
      const float* from = table + static_cast<size_t>(index) * plan.hidden_size;
      for (int i = 0; i < plan.hidden_size; ++i) row[i] += from[i];
    };
    if (plan.num_positions > 0) add(weights.positions, batch.positions[token]);
    if (plan.num_types > 0) add(weights.types, batch.types == nullptr ? 0 : batch.types[token]);
    if (plan.has_embedding_norm) normalize_row(plan, row, weights.embedding_norm, row);
  }

  void queries_keys_values(const Layer& layer, const Added& added) {
    const float clip = layer.plan.attention.clip;
    this->multiply_into(
        layer.qkv, this->inputs(), added, [&](int row) { return wide_row(row); },
        [&](float* to, const Lanes& sum) { store16(to, clip > 0 ? limited(sum, clip) : sum); });
  }

  void gate_and_up(const Layer& layer, const Added& added) {
    if (layer.plan.feed_forward.is_sparse) return SparseGates<Weight>{*this, layer}.run(added);
    const Matrix& matrix = layer.gate_up;
    const DensePlan& dense = layer.plan.feed_forward;
    const auto with_bias = [&](const float* sums, int group) {
      const Lanes sum = load16(sums);
      return matrix.bias == nullptr ? sum : sum + load16(matrix.bias + group * 16);
    };
    const Lanes multiplier = all16(dense.gate_multiplier);
    const auto finish = [&](int row, int group, const float* sums, int count) {
      with_activation(dense.activation, layer.curve, [&](auto activation) {
        if (dense.is_gated) {
          for (int n = 0; n < count; n += 2) {
            const Lanes gate = with_bias(sums + n * 16, group + n), up = with_bias(sums + n * 16 + 16, group + n + 1);
            store_inner(layer, row, (group + n) / 2 * 16, activation(gate * multiplier) * up);
          }
        } else {
          for (int n = 0; n < count; ++n)
            store_inner(layer, row, (group + n) * 16, activation(with_bias(sums + n * 16, group + n)));
        }
      });
      if (group + count == matrix.groups && layer.inner_norm.weight == nullptr)
        this->clear_padding(inner_row(row), groups_of(dense.width) * 16);
    };
    this->template multiply_all<Weight>(matrix, this->inputs(), finish, added);
  }

  // Store 16 inner numbers of a feed-forward part; those that have a norm are floats.
  void store_inner(const Layer& layer, int row, int at, const Lanes& numbers) const {
    if (layer.inner_norm.weight == nullptr) return store_input(inner_row(row) + at, numbers);
    store16(wide_row(row) + at, numbers);
  }

  // The results of a mixer, the inputs of its output's product; after the last layer that stores anything, only those of
  // the output rows.
  Inputs mixed(int index) {
    const LayerPlan& parts = weights.layers[index].plan;
    if (index != weights.last_stored) return this->inputs();
    return this->keep_output_rows(parts.has_attention() && parts.has_recurrent());
  }

  void run_attention(int index) {
    const Layer& layer = weights.layers[index];
    const LayerPlan& parts = layer.plan;
    this->template normalize_rows<Weight>(layer.attention_norm, parts.attention_residual_multiplier);
    queries_keys_values(layer, this->added(index, kQkv, layer.qkv, this->inputs()));
    if (layer.latent != nullptr) {
      LatentPhases<Weight>{*this, index}.run();
    } else {
      HeadPhases<Weight>{*this, index}.run();
    }
    const Inputs attended = parts.has_recurrent() ? this->inputs() : mixed(index);
    const Added to_output = this->added(index, kOutput, layer.output, attended);
    if (!parts.is_parallel && !parts.has_attention_output_norm && !parts.has_recurrent())
      return this->add_to_residual(layer.output, attended, to_output, parts.attention.output_multiplier);
    this->to_branch(layer.output, attended, to_output, parts.attention.output_multiplier);
    if (parts.laurel_rank > 0) return LaurelPhases<Weight>{*this, index}.add_with_branch();
    if (parts.has_attention_output_norm) this->add_normalized_branch(layer.attention_output_norm);
  }

  // If the layer has attention as well, its results are in the branch.
  void run_recurrent(int index) {
    const Layer& layer = weights.layers[index];
    const Matrix &input = layer.recurrent.input, &output = layer.recurrent.output;
    this->template normalize_rows<Weight>(layer.attention_norm, layer.plan.attention_residual_multiplier);
    this->multiply_into(
        input, this->inputs(), this->added(index, kRecurrentInput, input, this->inputs()),
        [&](int row) { return wide_row(row); }, [](float* to, const Lanes& sum) { store16(to, sum); });
    RecurrentPhases<Weight>{*this, index, layer.recurrent, layer.plan.recurrent}.run();
    const Inputs results = mixed(index);
    const Added to_output = this->added(index, kRecurrentOutput, output, results);
    const float multiplier = layer.plan.recurrent.output_multiplier;
    if (layer.plan.has_attention()) return this->add_with_branch(output, results, to_output, multiplier);
    this->add_to_residual(output, results, to_output, multiplier);
  }

  void layer(int index) {
    const Layer& layer = weights.layers[index];
    const LayerPlan& parts = layer.plan;
    StreamPhases<Weight> streams{*this};
    if (plan.num_extra_streams > 0) streams.predict(layer.streams);
    if (parts.has_attention()) run_attention(index);
    if (parts.has_recurrent()) run_recurrent(index);
    if (parts.has_attention_sum_norm) this->normalize_residual(layer.attention_sum_norm);
    if (parts.has_feed_forward()) run_feed_forward(index);
    if (plan.num_extra_streams > 0) streams.correct(layer.streams);
    if (plan.layer_input_width > 0) LayerInputPhases<Weight>{*this}.add(index);
    if (parts.has_scale) this->scale_residual(layer.scale[0]);
  }

  void run_feed_forward(int index) {
    const Layer& layer = weights.layers[index];
    const LayerPlan& parts = layer.plan;
    if (parts.feed_forward.width > 0) {
      const bool shares_norm = parts.is_parallel && !parts.has_mlp_norm;
      this->template normalize_rows<Weight>(shares_norm ? layer.attention_norm : layer.mlp_norm,
                                            parts.mlp_residual_multiplier);
      feed_forward(index);
    }
    if (parts.has_both())
      add_experts(layer);
    else if (layer.experts != nullptr)
      run_experts(layer);
    if (parts.has_mlp_sum_norm) this->normalize_residual(layer.mlp_sum_norm);
  }

  // The router's inputs are normalized rows in Float32; the experts' phases convert them to the type of inputs.
  void run_experts(const Layer& layer) {
    this->template normalize_rows<Float32Format>(layer.mlp_norm, layer.plan.mlp_residual_multiplier);
    ExpertPhases<Weight> phases{*this, *layer.experts};
    if (layer.plan.has_mlp_output_norm) {
      phases.run(layer.mlp_norm, [&](int row, int at, const Lanes& sum) { store16(this->branch_row(row) + at, sum); });
      return this->add_normalized_branch(layer.mlp_output_norm);
    }
    const Lanes factor = all16(plan.residual_multiplier);
    phases.run(layer.mlp_norm, [&](int row, int at, const Lanes& sum) {
      float* to = this->residual_row(row) + at;
      store16(to, sum * factor + load16(to));
    });
  }

  // Add the normalized results of experts to those of the dense part, which are in the branch, and both to the residual.
  void add_experts(const Layer& layer) {
    const Experts& experts = *layer.experts;
    const bool has_own = experts.plan.has_router_norm;
    this->template normalize_rows<Float32Format>(has_own ? experts.router_norm : layer.experts_norm);
    ExpertPhases<Weight> phases{*this, experts};
    phases.run(layer.experts_norm, [](int, int, const Lanes&) {});
    this->each_row(this->num_rows, [&](int row) {
      float *sums = phases.sums_row(row), *branch = this->branch_row(row);
      for (int i = plan.hidden_size; i < padded(plan.hidden_size); ++i) sums[i] = branch[i] = 0;
      normalize_row(plan, sums, layer.experts_output_norm, sums);
      normalize_row(plan, branch, layer.dense_output_norm, branch);
      for (int i = 0; i < padded(plan.hidden_size); i += 16) store16(branch + i, load16(branch + i) + load16(sums + i));
    });
    this->add_normalized_branch(layer.mlp_output_norm);
  }

  void feed_forward(int index) {
    const Layer& layer = weights.layers[index];
    gate_and_up(layer, this->added(index, kGateUp, layer.gate_up, this->inputs()));
    const Inputs inner = this->inner();
    if (kQuantizes || layer.inner_norm.weight != nullptr)
      this->convert_wide(layer.inner_norm, layer.plan.feed_forward.width, inner);
    const Added to_down = this->added(index, kDown, layer.down, inner);
    const float multiplier = layer.plan.feed_forward.output_multiplier;
    if (layer.plan.is_parallel) return this->add_with_branch(layer.down, inner, to_down, multiplier);
    if (!layer.plan.has_mlp_output_norm) return this->add_to_residual(layer.down, inner, to_down, multiplier);
    this->to_branch(layer.down, inner, to_down, multiplier);
    if (!layer.plan.has_both()) this->add_normalized_branch(layer.mlp_output_norm);
  }

  // Write the residual of the output rows, normalized.
  void states() {
    const int width = plan.hidden_size;
    this->each_row(batch.num_rows, [&](int row) {
      float* from = this->residual_row(row);
      normalize_row(plan, from, weights.norm, from);
      std::memcpy(batch.logits + static_cast<size_t>(row) * width, from, static_cast<size_t>(width) * sizeof(float));
    });
  }

  void finish() {
    if (plan.num_extra_streams > 0) StreamPhases<Weight>{*this}.end();
    if (!plan.has_head)
      states();
    else if (batch.num_rows > 0)
      logits();
  }

  void logits() {
    if constexpr (std::is_same_v<Weight, HalfFormat>)
      if (weights.head.type == Type::Int8) return logits_of<Int8Format>();
    logits_of<Weight>();
  }

  // Head is the format of the head.
  template <class Head>
  void logits_of() {
    const Lanes factor = all16(plan.logit_multiplier);
    const float cap = plan.logit_soft_cap;
    const int count = plan.vocab_size;
    this->template normalize_rows<Head>(weights.norm);
    this->template multiply_all<Head>(weights.head, this->inputs(), [&](int row, int group, const float* sums, int n) {
      float* to = batch.logits + static_cast<size_t>(row) * count;
      each_sum(sums, group, n, weights.head.bias, [&](int at, const Lanes& sum) {
        const Lanes scaled = cap > 0 ? soft_capped(sum * factor, cap) : sum * factor;
        if (at + 16 <= count) return store16(to + at, scaled);
        alignas(64) float lanes[16];
        store16(lanes, scaled);
        for (int i = 0; at + i < count; ++i) to[at + i] = lanes[i];
      });
    });
  }
};

// Return whether all threads compute a layer: the first one that asks decides, by the arrivals.
inline bool continues(const Step& step, int layer) {
  if (step.choices == nullptr) return true;
  const int32_t* arrivals = step.batch.arrivals;
  const bool ends = __atomic_load_n(arrivals, __ATOMIC_RELAXED) > __atomic_load_n(arrivals + 1, __ATOMIC_RELAXED);
  const Choice mine = ends ? Choice::End : Choice::Continue;
  Choice found = Choice::Open;
  const bool is_first = __atomic_compare_exchange_n(step.choices + layer, &found, mine, false, __ATOMIC_RELAXED,
                                                    __ATOMIC_RELAXED);
  return (is_first ? mine : found) == Choice::Continue;
}

template <class Weight>
void run(const Step& step, int thread) {
  ThreadStep<Weight> mine{{step, *step.plan, *step.weights, step.batch, thread, step.batch.num_tokens,
                                 step.residual, step.adapted == nullptr ? nullptr : &step.adapted->tokens}};
  mine.begin();
  if (step.plan->layer_input_width > 0) LayerInputPhases<Weight>{mine}.begin();
  if (step.plan->num_extra_streams > 0) StreamPhases<Weight>{mine}.begin();
  int index = 0;
  while (index < step.plan->num_layers && continues(step, index)) mine.layer(index++);
  if (index == step.plan->num_layers) mine.finish();
#if defined(SLUICE_SET_amx)
  _tile_release();  // otherwise every context switch of this thread would save the tiles
#endif
}

}  // namespace SLUICE_SET
}  // namespace sluice
