// Operations on single rows: quantization, rotation, embedding.
#pragma once

#include "kernels/linear.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

// Quantize a row [width] to bytes, 128 + value / scale, and return the scale, which is NaN if a value is not finite.
inline float quantize(const float* x, int width, uint8_t* out) {
  const auto values = [&](int i) {
    if (i + 16 <= width) return load16(x + i);
    alignas(64) float last[16] = {};
    for (int j = 0; i + j < width; ++j) last[j] = x[i + j];
    return load16(last);
  };
  Lanes largest = all16(0), broken = all16(0);
  for (int i = 0; i < width; i += 16) {
    const Lanes value = values(i);
    largest = max16(largest, max16(value, value * all16(-1)));
    broken = fma16(value, all16(0), broken);
  }
  const float highest = max_of(largest);
  const Lanes inverse = all16(highest > 0 ? 127 / highest : 0);
  for (int i = 0; i < width; i += 16) {
    alignas(64) int32_t whole[16];
    const Lanes shifted = fma16(values(i), inverse, all16(12582912.0f));  // the integer lies in the lowest bits
    unroll<kRegisters>([&](auto r)
                           __attribute__((always_inline)) { store_int(whole + r * kLanes, as_int(shifted.v[r])); });
    for (int j = 0; j < 16; ++j) out[i + j] = static_cast<uint8_t>(whole[j] + 128);
  }
  return highest / 127 + sum_of(broken);
}

// Formats whose inputs are quantized rows.
template <class Format>
constexpr bool kIsQuantized = std::is_same_v<Format, Int8Format> || std::is_same_v<Format, PackedFormat>;

// Quantize a row [width] to inputs of a format, and return the scale of all of them.
template <class Format>
SLUICE_INLINE float quantize_inputs(const float* x, int width, void* to) {
  if constexpr (std::is_same_v<Format, Int8Format>) return quantize(x, width, static_cast<uint8_t*>(to));
  quantize(x, width, static_cast<PackedInputs*>(to));
  return 1;
}

// The width of a row of inputs in elements.
template <class Format>
SLUICE_INLINE int input_width(int width) {
  return std::is_same_v<Format, PackedFormat> ? packed_width(width) : padded(width);
}

// Rotate x[i] and x[i + half] of a head by an angle, in place. The head may have more dimensions than are rotated.
inline void rotate(float* x, const float* cosines, const float* sines, int half) {
  for (int i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosines[i] - b * sines[i];
    x[i + half] = b * cosines[i] + a * sines[i];
  }
}

// Multiply a query [width] by its factor at a position (AttentionPlan).
inline void grow(float* x, int width, float growth, int period, int position) {
  const float factor = 1.0f + growth * __builtin_logf(1.0f + static_cast<float>(position / period));
  for (int i = 0; i < width; ++i) x[i] *= factor;
}

inline void embed(const Weights& weights, const DecoderPlan& plan, int token, float* out) {
  const int width = plan.hidden_size;
  if (weights.rows == nullptr) {
    unpack_row(*weights.embedding, token, out);
  } else if (weights.rows_type == Type::Float32) {
    std::memcpy(out, static_cast<const float*>(weights.rows) + static_cast<size_t>(token) * width,
                width * sizeof(float));
  } else {
    const auto* row = static_cast<const uint16_t*>(weights.rows) + static_cast<size_t>(token) * width;
    for (int i = 0; i < width; ++i) out[i] = bf16_to_float(row[i]);
  }
  if (plan.embedding_multiplier != 1)
    for (int i = 0; i < width; ++i) out[i] *= plan.embedding_multiplier;
  for (int i = width; i < padded(width); ++i) out[i] = 0;
}

}  // namespace SLUICE_SET
}  // namespace sluice
