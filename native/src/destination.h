// The destination of a tensor of a checkpoint: rows of a packed matrix, or a vector of floats.
#pragma once

#include <string>

#include "low_rank.h"
#include "pack.h"

namespace sluice {

struct Destination {
  Matrix* matrix = nullptr;
  float* vector = nullptr;
  int first = 0, count = 0;  // rows, or elements
  RowOrder order = RowOrder::Plain;

  bool is_found() const { return matrix != nullptr || vector != nullptr; }
};

// The product of the layer that the matrix is the weight of; kProducts if it is none of the layer's.
Product product_of(const Layer& layer, const Matrix& matrix);

// Find a layer's tensor by its name without "model.layers.N.".
Destination find_in_layer(Layer& layer, const Shape& shape, const std::string& name);

}  // namespace sluice
