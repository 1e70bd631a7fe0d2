#include "layers/adapter.h"

#include <algorithm>

#include "layers/latent_adapter.h"

namespace sluice {

namespace {

int up_even(int count) { return (count + 1) / 2 * 2; }

// A module of one product, and the first of its columns.
struct Columns {
  const AdaptedModule* module;
  int first;
};

std::vector<Columns> columns_of(const std::vector<AdaptedModule>& modules, int layer, Product product) {
  std::vector<Columns> found;
  int first = 0;
  for (const AdaptedModule& module : modules) {
    if (module.destination.layer != layer || module.destination.product != product) continue;
    found.push_back({&module, first});
    first += groups_of(module.rank) * kRows;
  }
  return found;
}

// Set the columns of each group of outputs, and return the bytes of all groups together.
size_t plan_spans(const std::vector<Columns>& modules, size_t element, std::vector<LowRank::Span>& spans) {
  for (const auto& [module, first] : modules) {
    const Destination& destination = module->destination;
    for (int row = 0; row < destination.count; ++row) {
      LowRank::Span& span = spans[target_row(destination.order, destination.first + row) / kRows];
      if (span.count == 0) span.first = first;
      span.count = first + up_even(module->rank) - span.first;
    }
  }
  size_t bytes = 0;
  for (LowRank::Span& span : spans) {
    span.at = bytes;
    bytes += span.count * kRows * element;
  }
  return bytes;
}

void pack_up(const Columns& columns, const std::vector<LowRank::Span>& spans, Type type, uint8_t* up) {
  const size_t element = type == Type::Float32 ? 4 : 2, pair = type == Type::Float32 ? 1 : 2;
  const auto& [module, first] = columns;
  for (int i = 0; i < module->destination.count; ++i) {
    const int row = target_row(module->destination.order, module->destination.first + i);
    const LowRank::Span& span = spans[row / kRows];
    for (int j = 0; j < module->rank; ++j) {
      const size_t column = static_cast<size_t>(first + j - span.first);
      const size_t at = column / pair * kRows * pair + row % kRows * pair + column % pair;
      store_rows(type, up + span.at + at * element, module->up + static_cast<size_t>(i) * module->rank + j,
                 Stored::Float32, 1);
    }
  }
}

}  // namespace

Adapter::Adapter(Type type, const std::vector<Layer>& layers, const std::vector<AdaptedModule>& modules)
    : products_(layers.size() * kProducts), spans_(products_.size()), latents_(layers.size()) {
  add_latents(layers, modules);
  const size_t element = type == Type::Float32 ? 4 : 2;
  std::vector<size_t> at(products_.size());
  size_t bytes = 0;
  for (size_t i = 0; i < products_.size(); ++i) {
    const auto found = columns_of(modules, static_cast<int>(i) / kProducts, static_cast<Product>(i % kProducts));
    if (found.empty()) continue;
    const int num_columns = found.back().first + groups_of(found.back().module->rank) * kRows;
    most_columns_ = std::max(most_columns_, num_columns);
    const Layer& layer = layers[i / kProducts];
    const Matrix* const query_up = layer.latent == nullptr ? nullptr : &layer.latent->query_up;
    const Recurrent& recurrent = layer.recurrent;
    const Matrix* const weights[] = {&layer.qkv,       &layer.output,     &layer.gate_up,
                                     &layer.down,      &recurrent.input,  &recurrent.output,
                                     &recurrent.parameters, &recurrent.steps, query_up,
                                     &layer.laurel.down, &layer.laurel.up, &layer.input.gate,
                                     &layer.input.projection};
    products_[i].down = plan_matrix(type, num_columns, weights[i % kProducts]->cols);
    spans_[i].resize(weights[i % kProducts]->groups);
    products_[i].spans = spans_[i].data();
    at[i] = bytes;
    bytes += matrix_bytes(products_[i].down, false) + round_up(plan_spans(found, element, spans_[i]), 64);
  }
  memory_ = Arena(bytes);
  for (size_t i = 0; i < products_.size(); ++i) {
    LowRank& product = products_[i];
    if (product.down.rows == 0) continue;
    place_matrix(product.down, false, memory_.data() + at[i]);
    uint8_t* up = memory_.data() + at[i] + matrix_bytes(product.down, false);
    product.up = up;
    for (const Columns& each :
         columns_of(modules, static_cast<int>(i) / kProducts, static_cast<Product>(i % kProducts))) {
      pack_rows(product.down, each.first, RowOrder::Plain, each.module->down, Stored::Float32, 0, each.module->rank);
      pack_up(each, spans_[i], type, up);
    }
  }
}

void Adapter::add_latents(const std::vector<Layer>& layers, const std::vector<AdaptedModule>& modules) {
  size_t bytes = 0;
  for (const AdaptedModule& module : modules) {
    if (module.destination.product != kLatentUp) continue;
    LatentLowRank& to = latents_[module.destination.layer];
    const LatentPlan& plan = layers[module.destination.layer].plan.latent;
    plan_latent_low_rank(plan, layers[module.destination.layer].latent->absorb.type, module.rank, to);
    most_latent_columns_ = std::max(most_latent_columns_, plan.num_heads * to.rank);
    each_matrix(to, [&](const Matrix& matrix) { bytes += matrix_bytes(matrix, false); });
  }
  if (bytes == 0) return;
  latent_memory_ = Arena(bytes);
  uint8_t* memory = latent_memory_.data();
  for (const AdaptedModule& module : modules) {
    if (module.destination.product != kLatentUp) continue;
    LatentLowRank& to = latents_[module.destination.layer];
    each_matrix(to, [&](Matrix& matrix) {
      place_matrix(matrix, false, memory);
      memory += matrix_bytes(matrix, false);
    });
    pack_latent_low_rank(layers[module.destination.layer].plan.latent, module, to);
  }
}

size_t Adapters::bytes() const {
  size_t bytes = 0;
  for (const auto& each : held_) bytes += each.second.bytes();
  return bytes;
}

void Adapters::sort(Sorted& to, const std::vector<int32_t>& slot_of_row) const {
  to.parts.clear();
  to.rows.clear();
  to.rows.reserve(slot_of_row.size());  // no reallocation, since parts point into it
  to.part_of_row.assign(slot_of_row.size(), -1);
  for (const auto& [slot, adapter] : held_) {
    const int32_t* first = to.rows.data() + to.rows.size();
    for (size_t row = 0; row < slot_of_row.size(); ++row) {
      if (slot_of_row[row] != slot) continue;
      to.part_of_row[row] = static_cast<int32_t>(to.parts.size());
      to.rows.push_back(static_cast<int32_t>(row));
    }
    const int count = static_cast<int>(to.rows.data() + to.rows.size() - first);
    if (count > 0) to.parts.push_back({adapter.products(), adapter.latents(), first, count});
  }
}

const Adapted* Adapters::prepare(const Step& step, Type weight_type) {
  const Batch& batch = step.batch;
  if (batch.adapters == nullptr || held_.empty()) return nullptr;
  slot_of_row_.resize(batch.num_tokens);
  for (int token = 0; token < batch.num_tokens; ++token) slot_of_row_[token] = batch.adapters[step.sequence_of[token]];
  sort(tokens_, slot_of_row_);
  if (tokens_.parts.empty()) return nullptr;
  slot_of_row_.resize(batch.num_rows);
  for (int row = 0; row < batch.num_rows; ++row)
    slot_of_row_[row] = batch.adapters[step.sequence_of[batch.output_rows[row]]];
  sort(outputs_, slot_of_row_);
  int columns = 0, latent_columns = 0;
  for (const auto& each : held_) {
    columns = std::max(columns, each.second.most_columns());
    latent_columns = std::max(latent_columns, each.second.most_latent_columns());
  }
  const bool quantizes = weight_type == Type::Int8 || weight_type == Type::Packed;
  const int widened = quantizes ? std::max(step.input_stride, step.inner_stride) : 0;
  const size_t rows = std::max(batch.num_tokens, batch.num_rows), low_bytes = round_up(rows * columns * 4, 64);
  const size_t widened_bytes = round_up(rows * widened * 4, 64), bytes = low_bytes + widened_bytes + rows * latent_columns * 4;
  if (buffers_.size() < bytes) {
    buffers_ = Arena();
    buffers_ = Arena(bytes + bytes / 2);
  }
  uint8_t *const low = buffers_.data(), *const wide = low + low_bytes;
  adapted_ = {tokens_.view(), outputs_.view(), low, columns, wide, widened, wide + widened_bytes, latent_columns};
  return &adapted_;
}

}  // namespace sluice
