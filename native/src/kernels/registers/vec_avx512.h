// SIMD registers with AVX-512: V has 16 floats, VI 16 int32. The other vec_*.h have the same functions.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace sluice {
namespace SLUICE_SET {

constexpr int kLanes = 16;
using V = __m512;
using VI = __m512i;  // int32 or bytes, by function

inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V v) { _mm512_storeu_ps(p, v); }
inline V load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_half(uint16_t* p, V v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline V set1(float x) { return _mm512_set1_ps(x); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm512_max_ps(a, b); }
inline V min(V a, V b) { return _mm512_min_ps(a, b); }
// Select `low` where x is less than `bound`, otherwise `high`.
inline V below(V x, V bound, V low, V high) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), high, low);
}
inline V sqrt(V a) { return _mm512_sqrt_ps(a); }
inline VI load_int(const void* p) { return _mm512_loadu_si512(p); }
inline void store_int(void* p, VI v) { _mm512_storeu_si512(p, v); }
inline VI set1_int(int x) { return _mm512_set1_epi32(x); }
inline VI add_int(VI a, VI b) { return _mm512_add_epi32(a, b); }
inline VI and_int(VI a, VI b) { return _mm512_and_si512(a, b); }
inline V to_float(VI v) { return _mm512_maskz_cvtepi32_ps(0xffff, v); }  // _mm512_cvtepi32_ps warns in GCC 12
inline V as_float(VI v) { return _mm512_castsi512_ps(v); }
inline VI as_int(V v) { return _mm512_castps_si512(v); }
template <int N>
inline VI shift_left(VI v) {
  return _mm512_slli_epi32(v, N);
}
template <int N>
inline VI shift_right(VI v) {
  return _mm512_srli_epi32(v, N);
}

// The even or odd signed bytes as int16. multiply_pairs: int32 sums of the products of adjacent int16.
inline VI even_bytes(VI v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
inline VI odd_bytes(VI v) { return _mm512_srai_epi16(v, 8); }
inline VI multiply_pairs(VI a, VI b) { return _mm512_madd_epi16(a, b); }

}  // namespace SLUICE_SET
}  // namespace sluice
