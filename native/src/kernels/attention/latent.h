// One thread's part of attention over latents (LatentPlan), from the results of the layer's first product on.
//
// Keys and values are never expanded: a query is multiplied with its head's part of the expanding product, and meets
// latents; a head's sum of latents is multiplied with the part for values. So a row's sums don't depend on how prompts
// are divided, and a step reads each latent once for all heads.
#pragma once

#include "kernels/attention/attend.h"
#include "kernels/thread.h"
#include "layers/latents.h"

namespace sluice {
namespace SLUICE_SET {

template <class Weight>
struct LatentPhases {
  // The format of the expanding product: numbers of blocks are kept exactly.
  using Low = std::conditional_t<std::is_same_v<Weight, PackedFormat>, Float32Format, LowFormat<Weight>>;
  using Input = typename Low::Input;
  static constexpr bool kQuantizes = kIsQuantized<Weight>;

  Thread<Weight>& thread;
  const int index;
  const Step& step = thread.step;
  const Layer& layer = step.weights->layers[index];
  const LatentPlan& plan = layer.plan.latent;
  const Latent& latent = *layer.latent;
  const LatentRows& rows = *step.latents;
  const int num_tokens = step.batch.num_tokens;
  const int query_dim = plan.key_dim + plan.rotated_dim;
  const int rank_groups = groups_of(plan.kv_rank), value_groups = groups_of(plan.value_dim);

  // The results of the first product: the latent, the shared key, and queries or their inner numbers.
  float* latent_row(int token) const { return thread.wide_row(token); }
  float* query_row(int token) const { return thread.wide_row(token) + plan.cached_width(); }
  // A head's query as it meets latents.
  float* absorbed_row(int token, int head) const {
    return rows.queries + static_cast<size_t>(token) * rows.query_stride + head * plan.cached_width();
  }
  Input* low_row(int token) const {
    return static_cast<Input*>(rows.low) + static_cast<size_t>(token) * rows.low_stride;
  }

  void normalize(float* x, const Norm& norm, int width) const {
    const float mean = sum_each(x, width, [](float v) { return v * v; }) / static_cast<float>(width);
    const float factor = 1.0f / __builtin_sqrtf(mean + plan.norm_epsilon);
    for (int i = 0; i < width; ++i) x[i] = x[i] * factor * norm.weight[i];
  }

  // The second product of queries.
  void expand_queries() {
    thread.each_row(num_tokens, [&](int token) {
      float* x = query_row(token);
      normalize(x, latent.query_norm, plan.query_rank);
      thread.convert(x, plan.query_rank, thread.inputs(), token);
    });
    const auto added = thread.added(index, kQueryUp, latent.query_up, thread.inputs());
    thread.multiply_into(
        latent.query_up, thread.inputs(), added, [&](int token) { return query_row(token); },
        [](float* to, const Lanes& sum) { store16(to, sum); });
  }

  void rotate(int token, float* x) const {
    if (plan.rotary < 0) return;
    const Rotary& rotary = step.weights->rotary[plan.rotary];
    const float* cosines = thread.rotation(token, rotary);
    SLUICE_SET::rotate(x, cosines, cosines + rotary.half, rotary.half);
  }

  // Write latents and shared keys to the cache, and divide queries into the inputs of the next product and what is
  // rotated.
  void rotate_and_cache() {
    thread.each_row(num_tokens, [&](int token) {
      float* x = latent_row(token);
      normalize(x, latent.norm, plan.kv_rank);
      rotate(token, x + plan.kv_rank);
      write_latent(step, slot_of(step, index, 0, token), x, plan.cached_width());
      const int stride = latent.absorb.padded_cols;
      for (int head = 0; head < plan.num_heads; ++head) {
        float* query = query_row(token) + head * query_dim;
        Input* to = low_row(token) + head * stride;
        for (int i = 0; i < plan.key_dim; i += 16) store_some(to + i, query + i, plan.key_dim - i, stride - i);
        for (int i = groups_of(plan.key_dim) * 16; i < stride; ++i) store_input(to + i, 0.0f);
        rotate(token, query + plan.key_dim);
        std::memcpy(absorbed_row(token, head) + plan.kv_rank, query + plan.key_dim, plan.rotated_dim * sizeof(float));
      }
    });
  }

  // Store `count` numbers, at most 16, followed by zeros, of which there is space for `space` numbers.
  static void store_some(Input* to, const float* from, int count, int space) {
    if (space >= 16) return store_input(to, load_some(from, count));
    for (int i = 0; i < count && i < space; ++i) store_input(to + i, from[i]);
  }

  // The changes of an adapter to a token's products; null: none.
  const LatentLowRank* low_rank_of(int token) const {
    const AdaptedRows* adapted = thread.adapted;
    if (adapted == nullptr || adapted->part_of_row[token] < 0) return nullptr;
    const LatentLowRank& found = adapted->parts[adapted->part_of_row[token]].latents[index];
    return found.rank == 0 ? nullptr : &found;
  }
  Input* between_row(int token, const LatentLowRank& low_rank, int head) const {
    const Adapted& adapted = *step.adapted;
    return static_cast<Input*>(adapted.latent_low) + static_cast<size_t>(token) * adapted.latent_stride +
           head * low_rank.rank;
  }
  static Lanes product(const Matrix& matrix, int group, const Input* input) {
    const Input* x[1] = {input};
    const typename Low::Weight* w[1] = {
        reinterpret_cast<const typename Low::Weight*>(matrix.data + static_cast<size_t>(group) * matrix.group_bytes)};
    Lanes sums[1][1] = {{all16(0)}};
    multiply<Low, 1, 1>(sums, x, w, matrix.padded_cols / Low::kColumns);
    return sums[0][0];
  }

  // Multiply the inputs of the adapters' rows, [tokens][heads], with their downs. That of `is_query` has rows by head.
  void multiply_downs(bool is_query, int stride) {
    if (thread.adapted == nullptr) return;
    thread.each_row(num_tokens * plan.num_heads, [&](int unit) {
      const int token = unit / plan.num_heads, head = unit % plan.num_heads;
      const LatentLowRank* low_rank = low_rank_of(token);
      if (low_rank == nullptr) return;
      const Matrix& down = is_query ? low_rank->query_down : low_rank->value_down;
      const int groups = low_rank->rank / 16, first = is_query ? head * groups : 0;
      for (int group = 0; group < groups; ++group)
        store_input(between_row(token, *low_rank, head) + group * 16,
                    product(down, first + group, low_row(token) + head * stride));
    });
  }

  // Multiply each head's inputs with its part of a product, of `groups` groups; finish(token, head, at, sum) gets the 16
  // results from `at` on.
  template <class Finish>
  void multiply_heads(const Matrix& matrix, bool is_query, int groups, const Finish& finish) {
    const int stride = matrix.padded_cols, num_blocks = (groups + kMaxTileGroups - 1) / kMaxTileGroups;
    multiply_downs(is_query, stride);
    thread.phase(plan.num_heads * num_blocks, [&](int chunk) {
      const int head = chunk / num_blocks, first = chunk % num_blocks * kMaxTileGroups;
      const int last = first + kMaxTileGroups < groups ? first + kMaxTileGroups : groups;
      const auto finish_row = [&](int token, int group, float* sums, int count) {
        const LatentLowRank* low_rank = low_rank_of(token);
        for (int n = 0; n < count; ++n) {
          Lanes sum = load16(sums + n * 16);
          const int own = group + n - head * groups;
          if (low_rank != nullptr) {
            const Matrix& up = is_query ? low_rank->query_up : low_rank->value_up;
            sum = sum + product(up, is_query ? own : group + n, between_row(token, *low_rank, head));
          }
          finish(token, head, own * 16, sum);
        }
      };
      multiply_block<Low>(matrix, low_row(0) + head * stride, rows.low_stride, num_tokens, head * groups + first,
                          head * groups + last, [&](const TileSums& tile) { tile.each_row(finish_row); });
    });
  }

  // Write 16 results, or the first `count` of them.
  template <class Out>
  static void store_results(Out* to, const Lanes& sum, int count) {
    if (count >= 16) return store_input(to, sum);
    alignas(64) float lanes[16];
    store16(lanes, sum);
    for (int i = 0; i < count; ++i) store_input(to + i, lanes[i]);
  }

  // As many heads as fill a tile of rows, unless threads would have no work.
  int heads_of_unit() const {
    const int most = plan.num_heads < kLatentHeads ? plan.num_heads : kLatentHeads;
    const int units = step.num_pieces * ((plan.num_heads + most - 1) / most);
    return most > 8 && units < step.num_threads ? 8 : most;
  }

  void attend_all() {
    const int num_heads = heads_of_unit(), num_units = (plan.num_heads + num_heads - 1) / num_heads;
    const int count = step.num_pieces * num_units;
    const HeadRows<Input> heads{rows.queries,
                                static_cast<size_t>(rows.query_stride),
                                low_row(0),
                                static_cast<size_t>(rows.low_stride),
                                plan.kv_rank,
                                latent.value_up.padded_cols,
                                num_heads,
                                num_units,
                                step.pieces};
    thread.phase(count, [&](int unit) {
      attend(step, index, unit, unit + 1 < count ? unit + 1 : -1, thread.scratch(), heads);
    });
  }

  void run() {
    if (plan.query_rank > 0) expand_queries();
    rotate_and_cache();
    multiply_heads(latent.absorb, true, rank_groups, [&](int token, int head, int at, const Lanes& sum) {
      store_results(absorbed_row(token, head) + at, sum, plan.kv_rank - at);
    });
    attend_all();
    const int width = plan.attended_width();
    multiply_heads(latent.value_up, false, value_groups, [&](int token, int head, int at, const Lanes& sum) {
      auto* to = thread.attended_row(token);
      store_results(to + head * plan.value_dim + at, sum, plan.value_dim - at);
      if (!kQuantizes && head + 1 == plan.num_heads && at == 0) thread.clear_padding(to, width);
    });
    if constexpr (kQuantizes) thread.convert_wide({}, width, thread.inputs());
  }
};

}  // namespace SLUICE_SET
}  // namespace sluice
