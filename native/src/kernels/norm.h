// Norms of single rows: of the residual, whose rows are padded with zeros, and of heads, which are adjacent.
#pragma once

#include "kernels/registers/lanes.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

// The inverse root mean square of x [width], which is padded with zeros to a multiple of 16.
SLUICE_INLINE float inverse_rms(const float* x, int padded_width, int width, float epsilon) {
  Lanes sums = all16(0);
  for (int i = 0; i < padded_width; i += 16) {
    const Lanes value = load16(x + i);
    sums = fma16(value, value, sums);
  }
  return 1.0f / __builtin_sqrtf(sum_of(sums) / static_cast<float>(width) + epsilon);
}

// RMS norm: multiply a row [width], padded with zeros, by the inverse of its root mean square and by `weight`.
template <class Input>
void normalize(const float* x, const float* weight, int width, float epsilon, Input* out) {
  const Lanes factor = all16(inverse_rms(x, padded(width), width, epsilon));
  for (int i = 0; i < padded(width); i += 16) store_input(out + i, load16(x + i) * factor * load16(weight + i));
}

// Add the numbers of a row of any width lane by lane, each changed by f.
template <class F>
SLUICE_INLINE float sum_each(const float* x, int width, const F& f) {
  float lanes[16] = {};
  int i = 0;
  for (; i + 16 <= width; i += 16)
    for (int j = 0; j < 16; ++j) lanes[j] += f(x[i + j]);
  for (int j = 0; i < width; ++i, ++j) lanes[j] += f(x[i]);
  return sum_of(load16(lanes));
}

// The mean of a row of any width, and the inverse of its standard deviation.
struct Spread {
  float mean, inverse;
};
inline Spread spread_of(const float* x, int width, float epsilon) {
  const float mean = sum_each(x, width, [](float v) { return v; }) / static_cast<float>(width);
  const float variance =
      sum_each(x, width, [=](float v) { return (v - mean) * (v - mean); }) / static_cast<float>(width);
  return {mean, 1.0f / __builtin_sqrtf(variance + epsilon)};
}

// Layer norm of a row [width], padded with zeros. The padding of the weights and of the bias is zeros as well.
template <class Input>
void normalize_layer(const float* x, const Norm& norm, int width, float epsilon, Input* out) {
  const Spread spread = spread_of(x, width, epsilon);
  for (int i = 0; i < padded(width); i += 16) {
    const Lanes centered = load16(x + i) + all16(-spread.mean);
    const Lanes bias = norm.bias == nullptr ? all16(0) : load16(norm.bias + i);
    store_input(out + i, centered * all16(spread.inverse) * load16(norm.weight + i) + bias);
  }
}

// Normalize a row of the residual as the plan says, or copy it if the norm has no weight.
template <class Input>
void normalize_row(const DecoderPlan& plan, const float* x, const Norm& norm, Input* out) {
  const int width = plan.hidden_size;
  if (norm.weight == nullptr) {
    for (int i = 0; i < padded(width); i += 16) store_input(out + i, load16(x + i));
  } else if (plan.norm_kind == NormKind::Rms) {
    normalize(x, norm.weight, width, plan.norm_epsilon, out);
  } else {
    normalize_layer(x, norm, width, plan.norm_epsilon, out);
  }
}

// Divide a row of any width by its root mean square.
inline void head_norm(float* x, int width, float epsilon) {
  const float mean = sum_each(x, width, [](float v) { return v * v; }) / static_cast<float>(width);
  const float factor = 1.0f / __builtin_sqrtf(mean + epsilon);
  for (int i = 0; i < width; ++i) x[i] *= factor;
}

// Normalize one head, or all heads together, in place. The weights begin at `first`.
inline void head_norm(const DecoderPlan& plan, float* x, const Norm& norm, int first, int width) {
  const float* weight = norm.weight + first;
  if (plan.norm_kind == NormKind::Rms) {
    const float mean = sum_each(x, width, [](float v) { return v * v; }) / static_cast<float>(width);
    const float factor = 1.0f / __builtin_sqrtf(mean + plan.norm_epsilon);
    for (int i = 0; i < width; ++i) x[i] = x[i] * factor * weight[i];
  } else {
    const Spread spread = spread_of(x, width, plan.norm_epsilon);
    for (int i = 0; i < width; ++i)
      x[i] = (x[i] - spread.mean) * spread.inverse * weight[i] + (norm.bias == nullptr ? 0 : norm.bias[first + i]);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
