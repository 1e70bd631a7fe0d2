// Activation functions, and the soft cap of scores and logits. All of them keep NaNs: a comparison with a NaN is false,
// so the branch for false must be the one that returns it.
#pragma once

#include "kernels/registers/lanes.h"
#include "types.h"

namespace sluice {
namespace SLUICE_SET {

SLUICE_INLINE V negative(V x) { return set1(0.0f) - x; }
SLUICE_INLINE V magnitude(V x) { return max(x, negative(x)); }
SLUICE_INLINE V with_sign_of(V sign, V size) { return below(sign, set1(0.0f), negative(size), size); }

SLUICE_INLINE V sigmoid(V x) { return set1(1.0f) / (set1(1.0f) + exp(negative(x))); }

// Cephes' polynomial for small numbers; error at most 2 ulp.
SLUICE_INLINE V tanh(V x) {
  const V size = magnitude(x), square = x * x;
  V p = set1(-5.70498872745e-3f);
  p = fma(p, square, set1(2.06390887954e-2f));
  p = fma(p, square, set1(-5.37397155531e-2f));
  p = fma(p, square, set1(1.33314422036e-1f));
  p = fma(p, square, set1(-3.33332819422e-1f));
  const V small = fma(p * square, x, x);
  const V large = set1(1.0f) - set1(2.0f) / (exp(size + size) + set1(1.0f));
  return below(set1(0.625f), size, with_sign_of(x, large), small);
}

// Polynomials of Juffa's erff, for numbers below and above 475 / 512; error about 1 ulp.
SLUICE_INLINE V erf(V x) {
  const V size = min(magnitude(x), set1(4.0f)), square = size * size;
  V p = fma(set1(-1.72853470e-5f), size, set1(3.83197126e-4f));
  p = fma(p, square, fma(set1(-3.88396438e-3f), size, set1(2.42546219e-2f)));
  p = fma(p, size, set1(-1.06777877e-1f));
  p = fma(p, size, set1(-6.34846687e-1f));
  p = fma(p, size, set1(-1.28717512e-1f));
  p = fma(p, size, negative(size));
  const V large = set1(1.0f) - exp(p);
  V q = set1(-5.96761703e-4f);
  q = fma(q, square, set1(4.99119423e-3f));
  q = fma(q, square, set1(-2.67681349e-2f));
  q = fma(q, square, set1(1.12819925e-1f));
  q = fma(q, square, set1(-3.76125336e-1f));
  q = fma(q, square, set1(1.28379166e-1f));
  const V small = fma(q, size, size);
  return with_sign_of(x, below(size, set1(0.927734375f), small, large));
}

SLUICE_INLINE Lanes sigmoid(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return sigmoid(v); });
}

SLUICE_INLINE Lanes exp(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return exp(v); });
}

// log(1 + e^x), by the series of log(1 + u) = 2 * atanh(u / (2 + u)); error about 2 ulp.
SLUICE_INLINE Lanes softplus(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) {
    const V u = exp(negative(magnitude(v)));
    const V s = u / (set1(2.0f) + u), square = s * s;
    V p = set1(1.0f / 13);
    p = fma(p, square, set1(1.0f / 11));
    p = fma(p, square, set1(1.0f / 9));
    p = fma(p, square, set1(1.0f / 7));
    p = fma(p, square, set1(1.0f / 5));
    p = fma(p, square, set1(1.0f / 3));
    const V half = fma(p * square, s, s);
    return max(set1(0.0f), v) + (half + half);
  });
}

SLUICE_INLINE Lanes silu(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return v / (set1(1.0f) + exp(set1(0.0f) - v)); });
}

SLUICE_INLINE Lanes gelu(const Lanes& x) {
  return map(
      x, [](V v) __attribute__((always_inline)) { return v * set1(0.5f) * (set1(1.0f) + erf(v * set1(0.70710678f))); });
}

// x * (1 + tanh(y)) / 2 is x * sigmoid(2 * y), with y = sqrt(2 / pi) * (x + 0.044715 * x³).
SLUICE_INLINE Lanes gelu_tanh(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) {
    return v * sigmoid(set1(1.5957691f) * fma(set1(0.044715f) * v, v * v, v));
  });
}

SLUICE_INLINE Lanes relu(const Lanes& x) {
  return map(x, [](V v) __attribute__((always_inline)) { return below(v, set1(0.0f), set1(0.0f), v); });
}

SLUICE_INLINE Lanes squared_relu(const Lanes& x) {
  const Lanes positive = relu(x);
  return positive * positive;
}

// Huang and Schlag: xIELU (2024). `curve` is described in Layer.
SLUICE_INLINE Lanes xielu(const Lanes& x, const float* curve) {
  const V above = set1(curve[0]), under = set1(curve[1]), slope = set1(curve[2]), limit = set1(curve[3]);
  return map(x, [&](V v) __attribute__((always_inline)) {
    const V negative_part = (exp(min(v, limit)) - set1(1.0f) - v) * under;
    const V positive_part = above * v * v;
    return below(set1(0.0f), v, positive_part, negative_part) + slope * v;
  });
}

// Call body(function) with an activation function of Lanes.
template <class Body>
SLUICE_INLINE void with_activation(Activation activation, const float* curve, const Body& body) {
  switch (activation) {
    case Activation::Silu:
      return body([](const Lanes& x) __attribute__((always_inline)) { return silu(x); });
    case Activation::Gelu:
      return body([](const Lanes& x) __attribute__((always_inline)) { return gelu(x); });
    case Activation::GeluTanh:
      return body([](const Lanes& x) __attribute__((always_inline)) { return gelu_tanh(x); });
    case Activation::Relu:
      return body([](const Lanes& x) __attribute__((always_inline)) { return relu(x); });
    case Activation::SquaredRelu:
      return body([](const Lanes& x) __attribute__((always_inline)) { return squared_relu(x); });
    case Activation::Xielu:
      return body([&](const Lanes& x) __attribute__((always_inline)) { return xielu(x, curve); });
  }
}

// Limit numbers to (-cap, cap): cap * tanh(x / cap).
SLUICE_INLINE Lanes soft_capped(const Lanes& x, float cap) {
  const V limit = set1(cap);
  return map(x, [&](V v) __attribute__((always_inline)) { return limit * tanh(v / limit); });
}

SLUICE_INLINE Lanes limited(const Lanes& x, float limit) {
  const V most = set1(limit), least = set1(-limit);
  return map(x, [&](V v) __attribute__((always_inline)) { return below(most, v, most, below(v, least, least, v)); });
}

}  // namespace SLUICE_SET
}  // namespace sluice
