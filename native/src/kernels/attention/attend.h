// The interface of attention over the paged cache, which attention.cpp compiles once for the layers of all formats.
#pragma once

#include "kernels/registers/lanes.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

// Where the queries of a layer are read and its results are written, both [tokens][stride] with adjacent heads, and how
// many query heads of a kv head are one unit of work.
template <class Out>
struct HeadRows {
  const float* queries;
  size_t query_stride;
  Out* out;
  size_t out_stride;
  int out_dim, out_head_stride;  // results of a head; those that are not values are zeros
  int num_heads;                 // of a unit
  int num_units;                 // of a piece
  const Piece* pieces;
};

// Compute attention of the unit `number`. `after` is the unit that this thread will likely compute next, or -1. Out is
// float or Half.
template <class Out>
void attend(const Step& step, int layer, int number, int after, uint8_t* scratch, const HeadRows<Out>& heads);

// Where a token's key and value are written: the head of a layer, and the slot of the sequence. With `clears`, the
// following slots of the part are made finite.
struct CachedSlot {
  int layer, sequence, kv_head, slot;
  bool clears;
};

// The slot of a token of a sequence. The last token of a part's new ones clears what follows it.
inline CachedSlot slot_of(const Step& step, int layer, int kv_head, int token) {
  const Batch& batch = step.batch;
  const int sequence = step.sequence_of[token], end = batch.row_offsets[sequence + 1];
  const int slot = batch.context_lengths[sequence] - end + token;
  return {layer, sequence, kv_head, slot, token + 1 == end && slot % 16 <= token - batch.row_offsets[sequence]};
}

// Write a key and a value [head_dim] of a head.
void write_head(const Step& step, const CachedSlot& to, const float* key, const float* value, int head_dim);
// Write a latent [width], which is both.
void write_latent(const Step& step, const CachedSlot& to, const float* latent, int width);

}  // namespace SLUICE_SET
}  // namespace sluice
