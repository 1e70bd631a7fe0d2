// Keys of the cache, packed as values: latents are both.
#pragma once

#include "kernels/attention/cached.h"

namespace sluice {
namespace SLUICE_SET {

#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
// Transpose 16 rows of 16 words: first within quarters of the registers, then the quarters.
SLUICE_INLINE void transpose(__m512i (&x)[16]) {
  __m512i t[16];
  unroll<8>([&](auto i) __attribute__((always_inline)) {
    t[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  });
  unroll<4>([&](auto i) __attribute__((always_inline)) {
    x[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    x[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    x[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    x[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  });
  unroll<4>([&](auto j) __attribute__((always_inline)) {
    t[j] = _mm512_shuffle_i32x4(x[j], x[j + 4], 0x88);
    t[j + 4] = _mm512_shuffle_i32x4(x[j], x[j + 4], 0xdd);
    t[j + 8] = _mm512_shuffle_i32x4(x[j + 8], x[j + 12], 0x88);
    t[j + 12] = _mm512_shuffle_i32x4(x[j + 8], x[j + 12], 0xdd);
  });
  unroll<4>([&](auto j) __attribute__((always_inline)) {
    x[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
    x[j + 4] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0x88);
    x[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
    x[j + 12] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0xdd);
  });
}

// Return the number of rows of values that were packed; the rest are left.
SLUICE_INLINE int turn_whole(const float* keys, int width, float* values) {
  for (int d = 0; d < width; d += 16) {
    __m512i x[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) { x[i] = _mm512_loadu_si512(keys + (d + i) * 16); });
    transpose(x);
    unroll<16>([&](auto i) __attribute__((always_inline)) { _mm512_storeu_si512(values + (d + i) * 16, x[i]); });
  }
  return width;
}

SLUICE_INLINE __m512i alternate(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

// The same for pairs of bf16.
SLUICE_INLINE int turn_whole(const uint16_t* keys, int width, uint16_t* values) {
  int d = 0;
  for (; d + 32 <= width; d += 32) {
    __m512i x[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) { x[i] = _mm512_loadu_si512(keys + d * 16 + i * 32); });
    transpose(x);
    unroll<8>([&](auto p) __attribute__((always_inline)) {
      const __m512i even = x[2 * p], odd = x[2 * p + 1];
      uint16_t* to = values + d * 16 + p * 32;
      _mm512_storeu_si512(to, alternate(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd)));
      _mm512_storeu_si512(to + 256,
                          alternate(_mm512_extracti64x4_epi64(even, 1), _mm512_extracti64x4_epi64(odd, 1)));
    });
  }
  return d;
}
#endif

// Pack the keys of 16 slots, the rows of a matrix, as the columns of a matrix of `width` rows, a multiple of 16.
template <class Format>
void turn_part(const typename Format::Weight* keys, int width, typename Format::Weight* values) {
  constexpr int pair = Format::kColumns;
  int d = 0;
#if defined(SLUICE_SET_avx512) || defined(SLUICE_SET_avx512bf16)
  if constexpr (!std::is_same_v<Format, Float16Format>) d = turn_whole(keys, width, values);
#endif
  for (; d < width; d += 16)
    for (int i = 0; i < 16; ++i)
      for (int slot = 0; slot < 16; ++slot)
        values[d * 16 + slot / pair * 16 * pair + i * pair + slot % pair] =
            keys[(d + i) / pair * 16 * pair + slot * pair + (d + i) % pair];
}

// Let the values of slots be their first `width` keys, packed in scratch memory.
template <class Format>
void values_of_keys(Slots& slots, int width, uint8_t* scratch) {
  using Number = typename Format::Weight;
  for (int part = slots.begin; part < slots.end; ++part) {
    auto* values = reinterpret_cast<Number*>(scratch) + static_cast<size_t>(part) * 16 * width;
    turn_part<Format>(reinterpret_cast<const Number*>(slots.keys[part]), width, values);
    slots.values[part] = reinterpret_cast<const uint8_t*>(values);
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
