// Where a tensor of a checkpoint goes: rows of a packed matrix, or a vector of floats.
#pragma once

#include <string>

#include "low_rank.h"
#include "pack.h"

namespace sluice {

struct Place {
  Matrix* matrix = nullptr;
  float* vector = nullptr;
  int first = 0, count = 0;  // rows, or elements
  RowOrder order = RowOrder::Plain;

  bool is_found() const { return matrix != nullptr || vector != nullptr; }
};

// Which of a layer's matrices it is; kProducts if none.
Product product_of(const Layer& layer, const Matrix& matrix);

// `name` without "model.layers.N.".
Place find_in_layer(Layer& layer, const Shape& shape, const std::string& name);

}  // namespace sluice
