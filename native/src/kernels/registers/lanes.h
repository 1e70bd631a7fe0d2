// Vectors of 16 floats, in as many registers as the set needs, and the small functions that all kernels use.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
#include "kernels/registers/vec_avx512.h"
#elif defined(SLUICE_SET_avx2)
#include "kernels/registers/vec_avx2.h"
#else
#include "kernels/registers/vec_portable.h"
#endif

#define SLUICE_INLINE __attribute__((always_inline)) inline

namespace sluice {
namespace SLUICE_SET {

#if defined(SLUICE_SET_avx512bf16) || defined(SLUICE_SET_neonbf16)
constexpr bool kHasDot = true;  // products of bf16 pairs
using Half = uint16_t;          // inputs of bf16 weights
#else
constexpr bool kHasDot = false;
using Half = float;  // without such an instruction, float inputs cost nothing
#endif

// Unrolled loop whose counter is a constant in each iteration, so that arrays of registers stay in registers.
template <int N, class Body>
SLUICE_INLINE void unroll(Body&& body) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, N>{});
}

constexpr int kRegisters = 16 / kLanes;

struct Lanes {
  V v[kRegisters];
};

struct IntLanes {
  VI v[kRegisters];
};

SLUICE_INLINE Lanes load16(const float* p) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = load(p + r * kLanes); });
  return x;
}
SLUICE_INLINE void store16(float* p, const Lanes& x) {
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { store(p + r * kLanes, x.v[r]); });
}
// Load 16 numbers, or the first `count` of them followed by zeros.
SLUICE_INLINE Lanes load_some(const float* p, int count) {
  if (count >= 16) return load16(p);
  alignas(64) float some[16] = {};
  for (int i = 0; i < count; ++i) some[i] = p[i];
  return load16(some);
}
SLUICE_INLINE Lanes load16_half(const uint16_t* p) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = load_half(p + r * kLanes); });
  return x;
}
// Store as float16: round to nearest, ties to even, and saturate at the largest number; a NaN stays a NaN.
SLUICE_INLINE void store16_half(uint16_t* p, const Lanes& x) {
  const V most = set1(65504.0f), least = set1(-65504.0f);
  unroll<kRegisters>([&](auto r)
                         __attribute__((always_inline)) { store_half(p + r * kLanes, min(most, max(least, x.v[r]))); });
}
SLUICE_INLINE Lanes all16(float value) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = set1(value); });
  return x;
}
// The even and the odd bytes as unsigned 16-bit numbers.
SLUICE_INLINE VI low_bytes(VI v) { return and_int(v, set1_int(0x00ff00ff)); }
SLUICE_INLINE VI high_bytes(VI v) { return and_int(shift_right<8>(v), set1_int(0x00ff00ff)); }

SLUICE_INLINE IntLanes load16_int(const void* p) {
  IntLanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
    x.v[r] = load_int(static_cast<const uint8_t*>(p) + r * kLanes * 4);
  });
  return x;
}

template <class F>
SLUICE_INLINE Lanes map(const Lanes& a, F&& f) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = f(a.v[r]); });
  return x;
}
template <class F>
SLUICE_INLINE Lanes map(const Lanes& a, const Lanes& b, F&& f) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = f(a.v[r], b.v[r]); });
  return x;
}
SLUICE_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  return map(a, b, [](V x, V y) __attribute__((always_inline)) { return x + y; });
}
SLUICE_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  return map(a, b, [](V x, V y) __attribute__((always_inline)) { return x * y; });
}
SLUICE_INLINE Lanes fma16(const Lanes& a, const Lanes& b, const Lanes& c) {
  Lanes x;
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { x.v[r] = fma(a.v[r], b.v[r], c.v[r]); });
  return x;
}
SLUICE_INLINE Lanes max16(const Lanes& a, const Lanes& b) {
  return map(a, b, [](V x, V y) __attribute__((always_inline)) { return max(x, y); });
}

// Store the lowest byte of each float's bits.
SLUICE_INLINE void store_low_bytes(uint8_t* p, const Lanes& x) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(as_int(x.v[0])));
#else
  int32_t whole[16];
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { store_int(whole + r * kLanes, as_int(x.v[r])); });
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(whole[i]);
#endif
}

// Reductions over the lanes, in the same order for every set: halves, quarters, eighths.
SLUICE_INLINE float sum_of(const Lanes& x) {
  alignas(64) float a[16];
  store16(a, x);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) a[i] += a[i + width];
  return a[0];
}
SLUICE_INLINE float max_of(const Lanes& x) {
  alignas(64) float a[16];
  store16(a, x);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) a[i] = a[i] > a[i + width] ? a[i] : a[i + width];
  return a[0];
}

// The same maximum by one instruction, if there is one.
SLUICE_INLINE float largest_of(const Lanes& x) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_reduce_max_ps(x.v[0]);
#else
  return max_of(x);
#endif
}

// e to the power of x, for x up to 88; exactly 1 for 0, and 0 below -87. Cephes' polynomial; error at most 2 ulp.
SLUICE_INLINE V exp(V x) {
  const V low = set1(-87.3f), high = set1(88.3f);
  const V clamped = min(max(x, low), high);
  const V shifted = fma(clamped, set1(1.44269504f), set1(12582912.0f));  // the integer lies in the lowest bits
  const V whole = shifted - set1(12582912.0f);
  V r = fma(whole, set1(-0.693359375f), clamped);
  r = fma(whole, set1(2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, r * r, r) + set1(1.0f);
  const VI power = shift_left<23>(add_int(as_int(shifted), set1_int(127)));
  const V result = p * as_float(power);
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ), result);
#elif defined(SLUICE_SET_avx2)
  return _mm256_and_ps(result, _mm256_cmp_ps(x, low, _CMP_GE_OQ));
#else
  return as_float(and_int(as_int(result), (VI)(x >= low)));
#endif
}

// e to the power of x, for x up to 0, with an error of at most 1e-4 of the result where that is enough.
SLUICE_INLINE V quick_exp(V x) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  const V power = max(x, set1(-200.0f)) * set1(1.44269504f);
  const V whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT), rest = power - whole;
  V p = fma(set1(0.0096181291f), rest, set1(0.0555041087f));
  p = fma(p, rest, set1(0.2402265070f));
  p = fma(p, rest, set1(0.6931471806f));
  p = fma(p, rest, set1(1.0f));
  return _mm512_scalef_ps(p, whole);
#else
  return exp(x);
#endif
}

SLUICE_INLINE float bf16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
// Round to nearest, ties to even; a NaN stays a NaN.
SLUICE_INLINE uint16_t float_to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Store floats in the type of a product's inputs.
SLUICE_INLINE void store_input(float* p, const Lanes& x) { store16(p, x); }
SLUICE_INLINE void store_input(uint16_t* p, const Lanes& x) {
#if defined(SLUICE_SET_avx512bf16)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v[0]));
#else
  alignas(64) float a[16];
  store16(a, x);
  for (int i = 0; i < 16; ++i) p[i] = float_to_bf16(a[i]);
#endif
}
SLUICE_INLINE void store_input(float* p, float value) { *p = value; }
SLUICE_INLINE void store_input(uint16_t* p, float value) { *p = float_to_bf16(value); }

}  // namespace SLUICE_SET
}  // namespace sluice
