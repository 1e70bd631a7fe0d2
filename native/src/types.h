// Shared data types of a step: the model's packed weights, its cache, a batch. Plain data without behaviour, so that
// the kernels, which are compiled once per instruction set, can include it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan.h"

namespace sluice {

constexpr int kRows = 16;  // output rows of a weight per group; also keys per packed part of the cache
constexpr int kPad = 64;   // widths of activations are padded to a multiple of this: the bytes of a tile's row

inline constexpr int padded(int width) { return (width + kPad - 1) / kPad * kPad; }
inline constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
inline constexpr int groups_of(int rows) { return (rows + kRows - 1) / kRows; }

enum class Type : int { Float32, BFloat16, Int8, Int4, Packed };

// Storage type of unpacked numbers: callers' arrays, and keys and values. Only the latter can be Int8.
enum class Stored : int { Float32, BFloat16, Float16, Int8 };

inline constexpr size_t bytes_of(Stored stored) { return stored == Stored::Float32 ? 4 : stored == Stored::Int8 ? 1 : 2; }

// A weight [rows, cols], packed in groups of 16 rows so that one vector register holds a column (or a pair, or four)
// of all 16. Padding rows and columns are zeros. The columns are padded to a multiple of 32 for bf16 and of 64 for
// int8, the size of a tile.
//   Float32   [groups][cols][16]
//   BFloat16  [groups][cols / 2][16][2]
//   Int8      [groups][cols / 4][16][4], a scale for each row
//   Int4      [groups][cols / 8][16], 32-bit words of eight columns: the even columns in the low half, the odd columns
//             in the high half, lowest bits first; a bf16 scale for each row and 32 columns
//   Packed    the formats of packed.h, one for each group
struct PackedGroup;
struct Matrix {
  Type type = Type::Float32;
  int rows = 0, cols = 0;
  int groups = 0, padded_cols = 0;
  size_t group_bytes = 0;
  uint8_t* data = nullptr;
  float* row_scales = nullptr;       // Int8: [groups * 16]
  int32_t* row_sums = nullptr;       // Int8: 128 times the sum of each row, to correct for the activations' offset
  uint16_t* group_scales = nullptr;  // Int4: bf16 [groups][padded_cols / 32][16]
  PackedGroup* packed = nullptr;     // Packed: [groups]; group_bytes is their mean size
  const int32_t* order = nullptr;    // Packed: [cols], the input of each column; null: the column's own
  float* bias = nullptr;             // [groups * 16] or null
};

// The weights of a norm; the weight is null if there is no norm.
struct Norm {
  float* weight = nullptr;
  float* bias = nullptr;  // or null
};

// The bytes of the codes of Int8 keys, and values, of 16 slots of a head, and of keys and values of any type. Int8 keys
// have a scale for each slot and kScaledKeys dimensions, values one for each slot; they follow the codes.
constexpr int kScaledKeys = 32;
inline constexpr size_t key_codes(int width) { return round_up(static_cast<size_t>(width), kScaledKeys) * kRows; }
inline constexpr size_t value_codes(int width) { return static_cast<size_t>(width) * kRows; }
inline constexpr size_t key_bytes(Stored stored, int width) {
  const size_t scales = stored == Stored::Int8 ? key_codes(width) / kScaledKeys * sizeof(float) : 0;
  return (stored == Stored::Int8 ? key_codes(width) : value_codes(width) * bytes_of(stored)) + scales;
}
inline constexpr size_t value_bytes(Stored stored, int width) {
  return value_codes(width) * bytes_of(stored) + (stored == Stored::Int8 ? kRows * sizeof(float) : 0);
}

// Where the keys and values of a layer lie in a block: for each kv head, its keys and then its values. A layer with
// latents has the keys of one head only.
struct CachePart {
  int group = 0;          // of the layers whose blocks have the same tables
  size_t offset = 0;      // of the layer in a block
  size_t head_bytes = 0;  // keys and values of one head
  size_t key_bytes = 0;   // 16 slots of keys of one head
  size_t value_bytes = 0; // 16 slots of values of one head; 0: the keys are also the values
};

struct Experts;
struct Latent;

// The weights of a layer's recurrent part.
struct Recurrent {
  Matrix input;                      // hidden -> the projected columns
  Matrix output;                     // heads * value_dim -> hidden
  Matrix parameters;                 // Mamba: heads * value_dim -> the results of its second projection
  Matrix steps;                      // Mamba: step_rank -> heads * value_dim
  float* convolution = nullptr;      // [taps, convolved columns], the earliest token's first
  float* convolution_bias = nullptr;  // [convolved columns] or null
  float* decay = nullptr;  // [heads], the logarithm of the decay's negative rate; of Mamba, [key_dim, channels], the rates
  float* step_bias = nullptr;        // [heads] or null
  float* skip = nullptr;  // [heads], of Mamba [channels], the share of a value that is added to its result; or null
  float* step_norm = nullptr;        // [step_rank] or null
  float* key_norm = nullptr;         // [key_dim] or null
  float* query_norm = nullptr;       // [key_dim] or null
  float* norm = nullptr;             // [value_dim] for norms of heads, [heads * value_dim] for larger ones; or null
  size_t state = 0;                  // the first number of the layer in a state
};

// The weights of a layer's share in Gemma's inputs of layers, see DecoderPlan.
struct LayerInput {
  Matrix gate;        // hidden -> the inputs' width
  Matrix projection;  // the inputs' width -> hidden
  Norm norm;          // [hidden], of the projection's results
};

// The weights of LayerPlan's laurel.
struct Laurel {
  Matrix down, up;  // hidden -> rank -> hidden
  Norm norm;        // [hidden]
};

// The weights that predict and correct the residuals of a token with several ones.
struct Streams {
  Norm router_norm;             // [hidden]
  float* router = nullptr;      // [streams][hidden]
  float* prediction = nullptr;  // [streams * streams][streams]
  float* correction = nullptr;  // [streams][streams]
  float* scale = nullptr;       // [hidden] or null
};

struct Layer {
  LayerPlan plan;
  Norm attention_norm, attention_output_norm, mlp_norm, mlp_output_norm;  // [hidden]
  Norm attention_sum_norm, mlp_sum_norm;                                  // [hidden]
  Norm experts_norm, experts_output_norm, dense_output_norm;  // [hidden], of experts next to a dense part
  Norm query_norm, key_norm;  // [head_dim], or [the width of all heads]
  Norm attended_norm;         // [the width of all heads]
  Norm inner_norm;            // [width]
  float* sinks;                                                           // [heads] or null
  float* curve;    // of Xielu: its factors above and below 0, of the linear term, and its limit; or null
  Matrix qkv;      // hidden -> (heads + 2 * kv heads) * head_dim: queries, keys, values, then any gates; or as Latent says
  Matrix output;   // heads * head_dim -> hidden
  Matrix gate_up;  // hidden -> 2 * width: 16 rows of gate, 16 of up, and so on; or hidden -> width
  Matrix down;     // width -> hidden
  Experts* experts;  // null: gate_up and down are the feed-forward part
  Latent* latent;    // null: attention is plain
  CachePart cache;
  Recurrent recurrent;
  Laurel laurel;
  LayerInput input;
  Streams streams;
  float* scale;  // [1] or null
};

// A table of rotary positions.
struct Rotary {
  int half;                    // pairs of dimensions of a head that are rotated
  int offset;                  // of the table's cosines in a token's rotation
  float factor;                // on cosine and sine
  float* inverse_frequencies;  // [half]
};

struct Weights {
  const void* rows = nullptr;  // embedding, Float32 or BFloat16 [vocabulary, hidden]; null: the rows of `embedding`
  Type rows_type = Type::Float32;
  const Matrix* embedding = nullptr;  // the head or, of Packed weights, a matrix that is only read
  Matrix head;
  Norm norm;                   // [hidden]
  Norm embedding_norm;         // [hidden]
  const void* layer_input_rows = nullptr;  // [rows][layers][width] in rows_type, or null
  Matrix layer_inputs;                     // hidden -> layers * width
  Norm layer_inputs_norm;                  // [width]
  Matrix streams_in[kMostStreams - 1];     // hidden -> hidden, of the embedding
  Matrix streams_out[kMostStreams - 1];    // hidden -> hidden, of the residuals after the last layer
  float* positions = nullptr;  // [num_positions][hidden]
  float* types = nullptr;      // [num_types][hidden]
  Layer* layers = nullptr;
  Rotary* rotary = nullptr;
  int num_rotary = 0;
  Type type = Type::Float32;  // of the layers' matrices
  int last_stored = 0;        // the last layer that stores keys and values, or a state
};

// Keys and values of all layers. A block has, for each layer of one group and each kv head, its keys and then its
// values, both in parts of 16 slots, packed like weights: the keys of 16 slots are the 16 rows of a matrix of head_dim
// columns; the values of 16 slots are the 16 columns of a matrix of head_dim rows. Float16 has the layout of Float32, Int8
// that of Int8 weights with a value of 128 added to each byte.
struct Cache {
  uint8_t* data = nullptr;
  Stored type = Stored::Float32;
  int num_blocks = 0, block_size = 0;
  size_t block_bytes = 0;  // a block's keys and values of all layers of a group, which are contiguous
  int num_groups = 0;
  const int* windows = nullptr;  // [groups], keys that a token attends to in a group, including its own; 0: all
};

// The states of sequences in all recurrent layers, in slots.
struct States {
  float* data = nullptr;
  size_t numbers = 0;  // of a slot
  int num_slots = 0;

  float* at(int slot, size_t number) const { return data + static_cast<size_t>(slot) * numbers + number; }
};

// A sequence starts from the state in one slot. The state before its last tokens goes to a slot, which may be the same,
// and the state after these to another one; without such tokens, there is only the state after all tokens.
enum StateColumn : int { kStateSource, kStateSlot, kNumLast, kLastSlot, kStateColumns };

// The new tokens of all sequences in one step, concatenated. The caller owns the arrays.
struct Batch {
  int num_tokens, num_sequences, num_rows, num_groups, max_blocks;
  const int32_t* token_ids;        // [tokens]
  const int32_t* positions;        // [tokens]
  const int32_t* row_offsets;      // [sequences + 1], where each sequence's new tokens begin
  const int32_t* context_lengths;  // [sequences], tokens after the step
  const int32_t* block_tables;     // [groups, sequences, max_blocks]
  const int32_t* output_rows;      // [rows], tokens whose logits are returned
  const int32_t* adapters;         // [sequences], the slot of each sequence's adapter, -1: none; null: none has any
  // [sequences, kStateColumns], see StateColumn. Null if the model has no states.
  const int32_t* states;
  const int32_t* types;            // [tokens], of a plan with token types; null: all are 0
  // The number of requests that are sent, and of those that are received; null: the step always runs to its end. It
  // ends before a layer if the first is larger, and has then computed nothing that counts.
  const int32_t* arrivals;
  float* logits;                   // [rows, vocabulary]; of a plan without a head, states [rows, hidden]
};

// A unit of work of a layer's attention: consecutive new tokens of one sequence, and the row of the first one.
struct Piece {
  int sequence, first_token, num_tokens, first_row;
};

class Phases;
struct Adapted;
struct Routing;
struct LatentRows;

// Whether the threads of a step compute a layer, which the first one of them decides.
enum class Choice : char { Open, Continue, End };

// Everything one step needs, read by all threads.
struct Step {
  const DecoderPlan* plan;
  const Weights* weights;
  const Cache* cache;
  const States* states;
  Batch batch;
  const Piece* pieces;
  int num_pieces;
  const Piece* kept_pieces;  // [rows], one for each output row
  int num_threads;
  Phases* phases;
  const int32_t* sequence_of;  // [tokens]
  // Buffers, 64-byte aligned. Strides in elements.
  float* residual;      // [tokens][residual_stride]
  void* input;          // [tokens][input_stride], the inputs of a product, in the product's input type
  float* input_scales;  // [tokens], of Int8 inputs
  float* wide;          // [tokens][wide_stride], float32 results: q/k/v; gate times up before it is quantized to Int8
  void* inner;          // [tokens][inner_stride], gate times up, in the type of inputs
  float* inner_scales;
  void* ordered;  // [tokens][ordered_stride], the inputs in the order of a matrix' columns; null: none has one
  float* branch;    // [tokens][residual_stride], a part's results before they are added to the residual; or null
  float* rotation;  // [tokens][rotation_stride], each table's cosines and then its sines
  float* layer_inputs;  // [tokens][layer_inputs_stride], the inputs of all layers; or null
  float* streams;       // [tokens][streams][residual_stride], all residuals; or null
  int residual_stride, input_stride, wide_stride, inner_stride, ordered_stride, rotation_stride, layer_inputs_stride;
  uint8_t* scratch;  // [threads][scratch_bytes]
  size_t scratch_bytes;
  const Adapted* adapted;  // null: no row has an adapter
  const Routing* routing;  // null: no layer has experts
  const LatentRows* latents;  // null: no layer has latents
  Choice* choices;            // [layers], what the threads do before each layer; null: the step runs to its end
};

constexpr int kCurve = 4;       // numbers of a layer that describe Xielu
constexpr int kPieceRows = 32;  // approximate attention rows per piece (tokens times query heads of a kv head)

}  // namespace sluice
