// The tensors of a model by name, and the destination of each: rows of a packed matrix, or a vector of floats.
#pragma once

#include <string>
#include <vector>

#include "layers/low_rank.h"
#include "weights/pack.h"

namespace sluice {

struct Destination {
  Matrix* matrix = nullptr;
  float* vector = nullptr;
  int first = 0, count = 0;  // rows, or elements
  RowOrder order = RowOrder::Plain;
  int layer = -1;               // of a layer's matrix
  // That the matrix is the weight of. For kLatentUp, rows are not those of the matrix (pack_latent_up).
  Product product = kProducts;
  int width = 0;  // of the rows of a vector that is a table; 0: it is none
};

struct Tensor {
  std::string name;
  Destination destination;
};

// The matrices of which a token reads one row; if they aren't Packed, only their types and shapes.
struct RowTables {
  Matrix tokens;        // an embedding that is not tied to the head
  Matrix layer_inputs;  // the table of layers' inputs
};

// The tensors of a model whose weights have their memory, in the order in which they are best loaded. Their names are
// those of Llama's checkpoints, and of GLM-4's for the norms of a part's results.
std::vector<Tensor> tensors_of(const DecoderPlan& plan, Weights& weights, RowTables& rows, std::vector<Layer>& layers);

}  // namespace sluice
