// The operations on registers that packed weights need in addition to those of lanes.h.
#pragma once

#include "kernels/registers/lanes.h"

namespace sluice {
namespace SLUICE_SET {

// Add the sums of the products of adjacent codes and inputs, which must fit 32 bits: of four bytes, of which the inputs'
// are signed and half of an input, or of pairs of 16-bit numbers.
SLUICE_INLINE VI add_products(VI sum, VI codes, VI inputs) {
#if defined(SLUICE_SET_avx512bf16)
  return _mm512_dpbusd_epi32(sum, codes, inputs);
#else
  return add_int(sum, multiply_pairs(codes, inputs));
#endif
}

// Replace each byte, which is below 16, by a byte of the table.
SLUICE_INLINE VI look_up(VI bytes, const uint8_t* table) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), bytes);
#elif defined(SLUICE_SET_avx2)
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(once), bytes);
#else
  uint8_t each[sizeof(VI)];
  store_int(each, bytes);
  for (uint8_t& byte : each) byte = table[byte];
  return load_int(each);
#endif
}

// Load as many bytes or signed bytes as a register has lanes, as integers or floats.
SLUICE_INLINE VI load_byte_ints(const uint8_t* p) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(SLUICE_SET_avx2)
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  return VI{p[0], p[1], p[2], p[3]};
#endif
}
SLUICE_INLINE V load_bytes(const uint8_t* p) { return to_float(load_byte_ints(p)); }
SLUICE_INLINE V load_signed_bytes(const uint8_t* p) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return to_float(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(SLUICE_SET_avx2)
  return to_float(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  const auto* s = reinterpret_cast<const int8_t*>(p);
  return to_float(VI{s[0], s[1], s[2], s[3]});
#endif
}

// Convert the bits of e4m3. Its exponent and fraction are those of a float32 that is too small by a power of two.
SLUICE_INLINE V floats_of_e4m3(VI bytes) {
  const VI sign = shift_left<24>(and_int(bytes, set1_int(0x80))), rest = shift_left<20>(and_int(bytes, set1_int(0x7f)));
  return as_float(add_int(sign, rest)) * set1(0x1p120f);
}

// Convert as many bf16 numbers as a register has lanes.
SLUICE_INLINE V load_bf16(const uint16_t* p) {
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  return as_float(shift_left<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))));
#elif defined(SLUICE_SET_avx2)
  return as_float(shift_left<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
#else
  return as_float(shift_left<16>(VI{p[0], p[1], p[2], p[3]}));
#endif
}

}  // namespace SLUICE_SET
}  // namespace sluice
