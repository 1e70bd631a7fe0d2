// The low-rank changes that adapters make to the products of a step. Plain data, which the kernels read.
#pragma once

#include "types.h"

namespace sluice {

// The products of a layer; kLatentUp is divided by heads, and has a LatentLowRank instead of a LowRank.
enum Product : int {
  kQkv,
  kOutput,
  kGateUp,
  kDown,
  kRecurrentInput,
  kRecurrentOutput,
  kRecurrentParameters,
  kRecurrentSteps,
  kQueryUp,
  kLaurelDown,
  kLaurelUp,
  kInputGate,
  kInputProjection,
  kProducts,
  kLatentUp
};

// Whether the columns of a product's matrix may have the inputs in another order.
inline bool can_have_order(Product product) {
  return product == kQkv || product == kOutput || product == kGateUp || product == kDown || product == kRecurrentOutput;
}

// An adapter's addition to one product y = x · weightᵀ, which is x · downᵀ · upᵀ. If the adapter changes several of the
// modules that make up the product, their downs are stacked, each starting at a new group.
struct LowRank {
  // The columns of `up` that apply to a group of 16 outputs; an even number, since bf16 is stored in pairs.
  struct Span {
    int first, count;
    size_t at;  // offset of the group in `up`, in bytes
  };
  Matrix down;        // [columns, inputs]; has no rows if the adapter does not change the product
  const uint8_t* up;  // each group is packed like a group of a Matrix with `count` columns
  const Span* spans;  // [groups of outputs]
};

// An adapter's addition to the product that expands latents, y = x · (up · down)ᵀ, divided like the product: a query of
// a head is multiplied with the head's rows of up, transposed, and then with down, transposed; a head's sum of latents
// with down and then with the head's rows of up. All matrices have a padded rank.
struct LatentLowRank {
  int rank = 0;         // padded to a multiple of 32; 0: the adapter does not change the product
  Matrix query_down;    // for each head key_dim -> rank
  Matrix query_up;      // rank -> kv_rank
  Matrix value_down;    // kv_rank -> rank
  Matrix value_up;      // for each head rank -> value_dim
};

// The rows of a step that adapters change: rows of all tokens, or only of the tokens whose logits are returned.
struct AdaptedRows {
  struct Part {
    const LowRank* products;  // [layers][kProducts]
    const LatentLowRank* latents;  // [layers]
    const int32_t* rows;      // in ascending order
    int num_rows;
  };
  const Part* parts;  // one for each adapter that has rows
  int num_parts;
  const int32_t* part_of_row;  // [rows], -1: no adapter
};

// The additional data of a step with adapters. Strides in elements.
struct Adapted {
  AdaptedRows tokens, outputs;
  void* low;  // [rows][low_stride], x · downᵀ, in the type of the ups' inputs
  int low_stride;
  void* widened;  // [rows][widened_stride], Int8 and Packed inputs in the type of the downs' inputs
  int widened_stride;
  void* latent_low;  // [tokens][heads][rank], the rows of latents' products between down and up, in their inputs' type
  int latent_stride;
};

}  // namespace sluice
