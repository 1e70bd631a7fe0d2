// SIMD registers with the compiler's vector types (SSE2 on x86, NEON on Arm): V has 4 floats, VI 4 int32.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace sluice {
namespace SLUICE_SET {

constexpr int kLanes = 4;
typedef float V __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef uint32_t VU __attribute__((vector_size(16)));

inline V load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, V v) { std::memcpy(p, &v, sizeof v); }
inline V set1(float x) { return V{x, x, x, x}; }
#if defined(__ARM_NEON)
inline V fma(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
#else
inline V fma(V a, V b, V c) { return a * b + c; }  // rounded twice, since there is no fused instruction
#endif
inline V max(V a, V b) { return a > b ? a : b; }
inline V min(V a, V b) { return a < b ? a : b; }
// Select `low` where x is below the border, otherwise `high`.
inline V below(V x, V border, V low, V high) { return x < border ? low : high; }
inline V sqrt(V a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
inline VI load_int(const void* p) {
  VI v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store_int(void* p, VI v) { std::memcpy(p, &v, sizeof v); }
inline VI set1_int(int x) { return VI{x, x, x, x}; }
inline VI add_int(VI a, VI b) { return (VI)((VU)a + (VU)b); }
inline VI and_int(VI a, VI b) { return a & b; }
inline V to_float(VI v) { return __builtin_convertvector(v, V); }
inline V as_float(VI v) { return (V)v; }
inline VI as_int(V v) { return (VI)v; }
template <int N>
inline VI shift_left(VI v) {
  return (VI)((VU)v << N);
}
template <int N>
inline VI shift_right(VI v) {
  return (VI)((VU)v >> N);
}

// Half precision. Stored values are NaN or have a magnitude of at most 65,504.
#if defined(__ARM_NEON)
inline V load_half(const uint16_t* p) { return (V)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline void store_half(uint16_t* p, V v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v))); }
#else
inline V load_half(const uint16_t* p) {
  const VI bits{p[0], p[1], p[2], p[3]};
  // The exponent's bias is 15 in float16 and 127 in float32; multiplication also normalizes denormal numbers.
  const VI scaled = (VI)((V)((bits & 0x7fff) << 13) * set1(0x1p112f));
  const VI special = ((bits & 0x7c00) == 0x7c00) & 0x7f800000;
  return (V)(scaled | special | (bits & 0x8000) << 16);
}
inline void store_half(uint16_t* p, V v) {
  for (int i = 0; i < kLanes; ++i) {
    const float value = v[i], size = __builtin_fabsf(value);
    uint32_t bits;
    std::memcpy(&bits, &size, sizeof bits);
    if (bits > 0x7f800000u) {
      bits = 0x7e00;
    } else if (size < 0x1p-14f) {  // denormal: its last bit is that of a float in [0.5, 1)
      const float shifted = size + 0.5f;
      std::memcpy(&bits, &shifted, sizeof bits);
      bits -= 0x3f000000u;
    } else {
      bits = (bits + 0xfff + ((bits >> 13) & 1) - (112u << 23)) >> 13;
    }
    p[i] = static_cast<uint16_t>(bits | (__builtin_signbit(value) != 0 ? 0x8000 : 0));
  }
}
#endif

// Even and odd bytes of signed bytes, as 16-bit numbers; sums of the products of adjacent 16-bit numbers.
typedef int16_t VS __attribute__((vector_size(16)));
inline VI even_bytes(VI v) { return (VI)(((VS)v << 8) >> 8); }
inline VI odd_bytes(VI v) { return (VI)((VS)v >> 8); }
inline VI multiply_pairs(VI a, VI b) {
#if defined(__SSE2__)
  return (VI)__builtin_ia32_pmaddwd128((VS)a, (VS)b);
#else
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

}  // namespace SLUICE_SET
}  // namespace sluice
