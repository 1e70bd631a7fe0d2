// The tensors of a model by name, and where each is loaded to: rows of a packed matrix, or a vector of floats.
#pragma once

#include <string>
#include <vector>

#include "layers/low_rank.h"
#include "weights/pack.h"

namespace sluice {

struct Destination {
  Matrix* matrix = nullptr;
  float* vector = nullptr;
  int first = 0, count = 0;  // rows of the matrix, or elements of the vector
  RowOrder order = RowOrder::Plain;
  int layer = -1;  // index of the layer that has the matrix
  // The product whose weight the matrix is. For kLatentUp, rows are those before pack_latent_up rearranges them.
  Product product = kProducts;
  int width = 0;  // if the vector is a table, the elements of a row; otherwise 0
};

struct Tensor {
  std::string name;
  Destination destination;
};

// The tables of which each token reads one row. Those that aren't Packed have only a type and a shape.
struct RowTables {
  Matrix tokens;        // an embedding that is not tied to the head
  Matrix layer_inputs;  // per-layer embeddings (PLE)
};

// Return the tensors of a model whose weights are allocated, in the fastest order to load them. Names are those of
// Llama's checkpoints, and of GLM-4's for post-norms.
std::vector<Tensor> tensors_of(const DecoderPlan& plan, Weights& weights, RowTables& rows, std::vector<Layer>& layers);

}  // namespace sluice
