// SIMD registers with AVX2: V has 8 floats, VI 8 int32.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace sluice {
namespace SLUICE_SET {

constexpr int kLanes = 8;
using V = __m256;
using VI = __m256i;

inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, V v) { _mm256_storeu_ps(p, v); }
inline V load_half(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void store_half(uint16_t* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline V set1(float x) { return _mm256_set1_ps(x); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm256_max_ps(a, b); }
inline V min(V a, V b) { return _mm256_min_ps(a, b); }
// Select `low` where x is below the border, otherwise `high`.
inline V below(V x, V border, V low, V high) {
  return _mm256_blendv_ps(high, low, _mm256_cmp_ps(x, border, _CMP_LT_OQ));
}
inline V sqrt(V a) { return _mm256_sqrt_ps(a); }
inline VI load_int(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_int(void* p, VI v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline VI set1_int(int x) { return _mm256_set1_epi32(x); }
inline VI add_int(VI a, VI b) { return _mm256_add_epi32(a, b); }
inline VI and_int(VI a, VI b) { return _mm256_and_si256(a, b); }
inline V to_float(VI v) { return _mm256_cvtepi32_ps(v); }
inline V as_float(VI v) { return _mm256_castsi256_ps(v); }
inline VI as_int(V v) { return _mm256_castps_si256(v); }
template <int N>
inline VI shift_left(VI v) {
  return _mm256_slli_epi32(v, N);
}
template <int N>
inline VI shift_right(VI v) {
  return _mm256_srli_epi32(v, N);
}

// Even and odd bytes of signed bytes, as 16-bit numbers; sums of the products of adjacent 16-bit numbers.
inline VI even_bytes(VI v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
inline VI odd_bytes(VI v) { return _mm256_srai_epi16(v, 8); }
inline VI multiply_pairs(VI a, VI b) { return _mm256_madd_epi16(a, b); }

}  // namespace SLUICE_SET
}  // namespace sluice
