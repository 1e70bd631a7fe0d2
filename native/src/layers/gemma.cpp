#include "layers/gemma.h"

#include "model/model.h"

namespace sluice {

namespace {

void add_matrix(const std::string& name, Matrix& matrix, int layer, Product product, std::vector<Tensor>& tensors) {
  tensors.push_back({name + ".weight", {&matrix, nullptr, 0, matrix.rows, RowOrder::Plain, layer, product}});
}

// Add a table with rows of `width` numbers, or a plain vector if `width` is 0.
void add_vector(const std::string& name, float* at, int count, int width, std::vector<Tensor>& tensors) {
  if (at == nullptr) return;
  tensors.push_back({name, {nullptr, at, 0, count, RowOrder::Plain}});
  tensors.back().destination.width = width;
}

}  // namespace

void plan_gemma(const Options& options, Weights& weights, std::vector<Layer>& layers) {
  const DecoderPlan& plan = options.plan;
  const int hidden = plan.hidden_size, width = plan.layer_input_width;
  if (width > 0) weights.layer_inputs = plan_matrix(options.type, plan.num_layers * width, hidden);
  for (int i = 0; i < plan.num_extra_streams; ++i) {
    weights.streams_in[i] = plan_matrix(options.type, hidden, hidden);
    weights.streams_out[i] = plan_matrix(options.type, hidden, hidden);
  }
  for (Layer& layer : layers) {
    if (width > 0) {
      layer.input.gate = plan_matrix(options.type, width, hidden);
      layer.input.projection = plan_matrix(options.type, hidden, width);
    }
    if (layer.plan.laurel_rank == 0) continue;
    layer.laurel.down = plan_matrix(options.type, layer.plan.laurel_rank, hidden);
    layer.laurel.up = plan_matrix(options.type, hidden, layer.plan.laurel_rank);
  }
}

void add_gemma_tensors(const DecoderPlan& plan, Weights& weights, Matrix& rows, std::vector<Tensor>& tensors) {
  if (plan.layer_input_width > 0) {
    add_matrix("model.embed_tokens_per_layer", rows, -1, kProducts, tensors);
    add_matrix("model.per_layer_model_projection", weights.layer_inputs, -1, kProducts, tensors);
    add_vector("model.per_layer_projection_norm.weight", weights.layer_inputs_norm.weight, plan.layer_input_width, 0,
               tensors);
  }
  for (int i = 0; i < plan.num_extra_streams; ++i) {
    const std::string number = std::to_string(i);
    add_matrix("model.altup_projections." + number, weights.streams_in[i], -1, kProducts, tensors);
    add_matrix("model.altup_unembed_projections." + number, weights.streams_out[i], -1, kProducts, tensors);
  }
}

void add_gemma_tensors(const DecoderPlan& plan, Layer& layer, int number, const std::string& prefix,
                       std::vector<Tensor>& tensors) {
  const int hidden = plan.hidden_size, streams = plan.num_streams();
  add_vector(prefix + "layer_scalar", layer.scale, 1, 0, tensors);
  if (layer.plan.laurel_rank > 0) {
    add_matrix(prefix + "laurel.linear_left", layer.laurel.down, number, kLaurelDown, tensors);
    add_matrix(prefix + "laurel.linear_right", layer.laurel.up, number, kLaurelUp, tensors);
    add_vector(prefix + "laurel.post_laurel_norm.weight", layer.laurel.norm.weight, hidden, 0, tensors);
  }
  if (plan.layer_input_width > 0) {
    add_matrix(prefix + "per_layer_input_gate", layer.input.gate, number, kInputGate, tensors);
    add_matrix(prefix + "per_layer_projection", layer.input.projection, number, kInputProjection, tensors);
    add_vector(prefix + "post_per_layer_input_norm.weight", layer.input.norm.weight, hidden, 0, tensors);
  }
  if (plan.num_extra_streams == 0) return;
  add_vector(prefix + "altup.router_norm.weight", layer.streams.router_norm.weight, hidden, 0, tensors);
  add_vector(prefix + "altup.modality_router.weight", layer.streams.router, streams * hidden, hidden, tensors);
  add_vector(prefix + "altup.prediction_coefs.weight", layer.streams.prediction, streams * streams * streams, streams,
             tensors);
  add_vector(prefix + "altup.correction_coefs.weight", layer.streams.correction, streams * streams, streams, tensors);
  add_vector(prefix + "altup.correct_output_scale", layer.streams.scale, hidden, 0, tensors);
}

}  // namespace sluice
