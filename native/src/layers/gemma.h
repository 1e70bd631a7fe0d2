// The weights that only Gemma 3n and 4 have: per-layer embeddings (PLE), AltUp's residual streams, and LAuReL.
#pragma once

#include <string>
#include <vector>

#include "types.h"
#include "weights/destination.h"

namespace sluice {

struct Options;

// Set the sizes of all matrices, without memory.
void plan_gemma(const Options& options, Weights& weights, std::vector<Layer>& layers);

// Call vector(pointer to the floats, their number) or matrix(matrix, has bias) for each of these weights: those of the
// model, or those of one layer.
template <class OnVector, class OnMatrix>
void each_gemma_part(const DecoderPlan& plan, Weights& weights, OnVector vector, OnMatrix matrix) {
  if (plan.layer_input_width > 0) {
    matrix(weights.layer_inputs, false);
    vector(weights.layer_inputs_norm.weight, padded(plan.layer_input_width));
  }
  for (int i = 0; i < plan.num_extra_streams; ++i) {
    matrix(weights.streams_in[i], false);
    matrix(weights.streams_out[i], false);
  }
}

template <class OnVector, class OnMatrix>
void each_gemma_part(const DecoderPlan& plan, Layer& layer, OnVector vector, OnMatrix matrix) {
  const int hidden = plan.hidden_size, streams = plan.num_streams();
  if (layer.plan.has_scale) vector(layer.scale, 1);
  if (layer.plan.laurel_rank > 0) {
    matrix(layer.laurel.down, false);
    matrix(layer.laurel.up, false);
    vector(layer.laurel.norm.weight, padded(hidden));
  }
  if (plan.layer_input_width > 0) {
    matrix(layer.input.gate, false);
    matrix(layer.input.projection, false);
    vector(layer.input.norm.weight, padded(hidden));
  }
  if (plan.num_extra_streams == 0) return;
  vector(layer.streams.router_norm.weight, padded(hidden));
  vector(layer.streams.router, streams * hidden);
  vector(layer.streams.prediction, streams * streams * streams);
  vector(layer.streams.correction, streams * streams);
  if (plan.scales_corrected) vector(layer.streams.scale, padded(hidden));
}

// Add the tensors of the model, or those of one layer, whose names begin with `prefix`. `rows` is the PLE table.
void add_gemma_tensors(const DecoderPlan& plan, Weights& weights, Matrix& rows, std::vector<Tensor>& tensors);
void add_gemma_tensors(const DecoderPlan& plan, Layer& layer, int number, const std::string& prefix,
                       std::vector<Tensor>& tensors);

}  // namespace sluice
