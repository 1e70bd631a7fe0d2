// What adapters add to the products of a step. Plain data, which the kernels read.
#pragma once

#include "types.h"

namespace sluice {

enum Product : int { kQkv, kOutput, kGateUp, kDown, kProducts };  // of a layer

// What an adapter adds to one product y = x · weightᵀ: x · downᵀ · upᵀ. Where it changes several of the modules that
// make up the product, their downs lie below each other, each beginning with a group of its own.
struct LowRank {
  // The columns of `up` that a group of 16 outputs has, those of its own modules; even, so that bf16 has pairs.
  struct Span {
    int first, count;
    size_t at;  // where the group's part of `up` begins, in bytes
  };
  Matrix down;        // [columns, inputs]; no rows where the adapter leaves the product as it is
  const uint8_t* up;  // each group packed like that of a Matrix with `count` columns
  const Span* spans;  // [groups of outputs]
};

// The rows of a step that adapters change, of all tokens or of those alone whose logits are wanted.
struct AdaptedRows {
  struct Part {
    const LowRank* products;  // [layers][kProducts]
    const int32_t* rows;      // in ascending order
    int num_rows;
  };
  const Part* parts;  // one for each adapter that has rows
  int num_parts;
  const int32_t* part_of_row;  // [rows], -1: no adapter
};

// What a step that has such rows needs beside the rest. Strides in elements.
struct Adapted {
  AdaptedRows tokens, outputs;
  void* low;  // [rows][low_stride], x · downᵀ, in the type of the ups' inputs
  int low_stride;
  void* widened;  // [rows][widened_stride], inputs that are bytes as the downs' inputs
  int widened_stride;
};

}  // namespace sluice
