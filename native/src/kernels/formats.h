// How a step along the columns of a packed weight is loaded and multiplied, for each type of weight.
//
// A format defines Weight and Input, the stored types; kColumns, the number of columns per step; kWeights, the number
// of elements of Weight per step of 16 rows; and load, broadcast and add.
#pragma once

#include "kernels/registers/lanes.h"

namespace sluice {
namespace SLUICE_SET {

struct Float32Format {
  using Weight = float;
  using Input = float;
  static constexpr int kColumns = 1, kWeights = 16;
  using Loaded = Lanes;
  using Spread = V;
  static SLUICE_INLINE Loaded load(const Weight* w) { return load16(w); }
  static SLUICE_INLINE Spread broadcast(const Input* x) { return set1(*x); }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) { sum.v[r] = fma(w.v[r], x, sum.v[r]); });
  }
};

// A format of keys and values only. It has the layout of Float32Format and is widened to float32, which is exact.
struct Float16Format : Float32Format {
  using Weight = uint16_t;
  static SLUICE_INLINE Loaded load(const Weight* w) { return load16_half(w); }
};

// The format of keys and values that are bytes. Queries and weights are floats until they are quantized.
struct CachedBytes {
  using Weight = uint8_t;
  using Input = float;
};

#if defined(SLUICE_SET_avx512bf16)
struct BFloat16Format {
  using Weight = uint16_t;
  using Input = uint16_t;
  static constexpr int kColumns = 2, kWeights = 32;
  using Loaded = __m512i;
  using Spread = __m512i;
  static SLUICE_INLINE Loaded load(const Weight* w) { return _mm512_loadu_si512(w); }
  static SLUICE_INLINE Spread broadcast(const Input* x) {
    int pair;
    std::memcpy(&pair, x, sizeof pair);
    return _mm512_set1_epi32(pair);
  }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    sum.v[0] = _mm512_dpbf16_ps(sum.v[0], (__m512bh)w, (__m512bh)x);
  }
};
#elif defined(SLUICE_SET_neonbf16)
struct BFloat16Format {
  using Weight = uint16_t;
  using Input = uint16_t;
  static constexpr int kColumns = 2, kWeights = 32;
  using Loaded = IntLanes;
  using Spread = int32x4_t;
  static SLUICE_INLINE Loaded load(const Weight* w) { return load16_int(w); }
  static SLUICE_INLINE Spread broadcast(const Input* x) {
    int pair;
    std::memcpy(&pair, x, sizeof pair);
    return vdupq_n_s32(pair);
  }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      sum.v[r] =
          (V)vbfdotq_f32((float32x4_t)sum.v[r], vreinterpretq_bf16_s32((int32x4_t)w.v[r]), vreinterpretq_bf16_s32(x));
    });
  }
};
#else
struct BFloat16Format {  // widened to float32, which is exact
  using Weight = uint16_t;
  using Input = float;
  static constexpr int kColumns = 2, kWeights = 32;
  struct Loaded {
    Lanes even, odd;
  };
  struct Spread {
    V even, odd;
  };
  static SLUICE_INLINE Loaded load(const Weight* w) {
    const IntLanes pairs = load16_int(w);
    Loaded x;
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      x.even.v[r] = as_float(shift_left<16>(pairs.v[r]));
      x.odd.v[r] = as_float(and_int(pairs.v[r], set1_int(static_cast<int>(0xffff0000u))));
    });
    return x;
  }
  static SLUICE_INLINE Spread broadcast(const Input* x) { return {set1(x[0]), set1(x[1])}; }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      sum.v[r] = fma(w.even.v[r], x.even, sum.v[r]);
      sum.v[r] = fma(w.odd.v[r], x.odd, sum.v[r]);
    });
  }
};
#endif

// Bytes, of which four columns are multiplied at a time; either weights or inputs are unsigned, with an offset of kZero.
// Sums are int32 stored in the bits of floats, and are scaled afterwards.
template <class W, class X>
struct BytesFormat {
  using Weight = W;
  using Input = X;
  static constexpr int kColumns = 4, kWeights = 64, kZero = 128;
#if defined(SLUICE_SET_avx512bf16)
  using Loaded = __m512i;
  using Spread = __m512i;
  static SLUICE_INLINE Loaded load(const Weight* w) { return _mm512_loadu_si512(w); }
  static SLUICE_INLINE Spread broadcast(const Input* x) {
    int four;
    std::memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    const VI ints = as_int(sum.v[0]);  // the unsigned bytes are the first ones that are multiplied
    sum.v[0] = as_float(kIsSigned ? _mm512_dpbusd_epi32(ints, x, w) : _mm512_dpbusd_epi32(ints, w, x));
  }
#else
  // Even and odd bytes separately, as 16-bit numbers, since the instruction that takes bytes would saturate.
  struct Loaded {
    IntLanes even, odd;
  };
  struct Spread {
    VI even, odd;
  };
  static SLUICE_INLINE Loaded load(const Weight* w) {
    const IntLanes bytes = load16_int(w);
    Loaded x;
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      x.even.v[r] = kIsSigned ? even_bytes(bytes.v[r]) : low_bytes(bytes.v[r]);
      x.odd.v[r] = kIsSigned ? odd_bytes(bytes.v[r]) : high_bytes(bytes.v[r]);
    });
    return x;
  }
  static SLUICE_INLINE Spread broadcast(const Input* x) { return {pair(x[0], x[2]), pair(x[1], x[3])}; }
  static SLUICE_INLINE void add(Lanes& sum, const Loaded& w, const Spread& x) {
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      const VI both = add_int(multiply_pairs(w.even.v[r], x.even), multiply_pairs(w.odd.v[r], x.odd));
      sum.v[r] = as_float(add_int(as_int(sum.v[r]), both));
    });
  }
  static SLUICE_INLINE VI pair(int low, int high) {
    return set1_int(static_cast<int>((static_cast<uint32_t>(low) & 0xffff) | static_cast<uint32_t>(high) << 16));
  }
#endif

 private:
  static constexpr bool kIsSigned = std::is_signed_v<Weight>;
};
using Int8Format = BytesFormat<int8_t, uint8_t>;
using KeyFormat = BytesFormat<uint8_t, int8_t>;  // of keys that are bytes

// Eight columns of four bits at a time; sums of 32 columns are scaled before they are added up.
struct Int4Format {
  using Weight = uint32_t;
  using Input = Half;
  static constexpr int kColumns = 8, kWeights = 16, kSteps = 4;  // kSteps of them share a scale

  static SLUICE_INLINE Lanes scales(const uint16_t* scales) {
    alignas(64) float wide[16];
    for (int i = 0; i < 16; ++i) wide[i] = bf16_to_float(scales[i]);
    return load16(wide);
  }

#if defined(SLUICE_SET_avx512bf16)
  // A table of the 16 values in bf16 converts a nibble to a number. It has two copies, since the index has five bits.
  static SLUICE_INLINE __m512i table() {
    const __m256i once = _mm256_setr_epi16(
        static_cast<short>(0xC100), static_cast<short>(0xC0E0), static_cast<short>(0xC0C0), static_cast<short>(0xC0A0),
        static_cast<short>(0xC080), static_cast<short>(0xC040), static_cast<short>(0xC000), static_cast<short>(0xBF80),
        0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0);
    return _mm512_broadcast_i64x4(once);
  }
  template <int Pair>
  static SLUICE_INLINE BFloat16Format::Loaded pair(const IntLanes& words) {
    return _mm512_permutexvar_epi16(shift_right<4 * Pair>(words.v[0]), table());
  }
#elif defined(SLUICE_SET_neonbf16)
  template <int Pair>
  static SLUICE_INLINE BFloat16Format::Loaded pair(const IntLanes& words) {
    BFloat16Format::Loaded x;
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      const VI mask = set1_int(15);
      const V even = to_float(and_int(shift_right<4 * Pair>(words.v[r]), mask)) - set1(8);
      const V odd = to_float(and_int(shift_right<4 * Pair + 16>(words.v[r]), mask)) - set1(8);
      x.v[r] = as_int(odd) | shift_right<16>(as_int(even));  // such small numbers are exact in bf16
    });
    return x;
  }
#else
  template <int Pair>
  static SLUICE_INLINE BFloat16Format::Loaded pair(const IntLanes& words) {
    BFloat16Format::Loaded x;
    unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
      const VI mask = set1_int(15);
      x.even.v[r] = to_float(and_int(shift_right<4 * Pair>(words.v[r]), mask)) - set1(8);
      x.odd.v[r] = to_float(and_int(shift_right<4 * Pair + 16>(words.v[r]), mask)) - set1(8);
    });
    return x;
  }
#endif
};

// Add to sums[m][n] the products of `steps` steps along input row m and weight group n. Each sum is one chain along the
// columns, so its bits don't depend on which rows and groups are computed together. prefetch(n, weights, step) prefetches
// weights that are needed later.
template <class Format, int M, int N, class Prefetch>
SLUICE_INLINE void multiply_prefetching(Lanes (&sums)[M][N], const typename Format::Input* const (&x)[M],
                                        const typename Format::Weight* const (&w)[N], int steps,
                                        const Prefetch& prefetch) {
  for (int step = 0; step < steps; ++step) {
    typename Format::Loaded weights[N];
    const size_t at = static_cast<size_t>(step) * Format::kWeights;
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      weights[n] = Format::load(w[n] + at);
      prefetch(n, reinterpret_cast<const uint8_t*>(w[n] + at), step);
    });
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      const auto input = Format::broadcast(x[m] + step * Format::kColumns);
      unroll<N>([&](auto n) __attribute__((always_inline)) { Format::add(sums[m][n], weights[n], input); });
    });
  }
}

// The same product, which prefetches weights `ahead` bytes after those in use unless `ahead` is 0.
template <class Format, int M, int N>
SLUICE_INLINE void multiply(Lanes (&sums)[M][N], const typename Format::Input* const (&x)[M],
                            const typename Format::Weight* const (&w)[N], int steps, size_t ahead = 0) {
  multiply_prefetching<Format>(sums, x, w, steps, [&](int, const uint8_t* at, int) __attribute__((always_inline)) {
    if (ahead > 0) __builtin_prefetch(at + ahead, 0, 2);
  });
}

// The same product for four-bit weights; `scales` has a scale per row of a group and 32 columns.
template <int M, int N>
SLUICE_INLINE void multiply_int4(Lanes (&sums)[M][N], const Half* const (&x)[M], const uint32_t* const (&w)[N],
                                 const uint16_t* const (&scales)[N], int columns, size_t ahead) {
  for (int block = 0; block < columns / 32; ++block) {
    Lanes part[M][N];
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      unroll<N>([&](auto n) __attribute__((always_inline)) { part[m][n] = all16(0); });
    });
    for (int word = 0; word < Int4Format::kSteps; ++word) {
      const int step = block * Int4Format::kSteps + word;
      IntLanes words[N];
      unroll<N>([&](auto n) __attribute__((always_inline)) {
        words[n] = load16_int(w[n] + step * 16);
        if (ahead > 0) __builtin_prefetch(reinterpret_cast<const uint8_t*>(w[n] + step * 16) + ahead, 0, 2);
      });
      unroll<4>([&](auto pair) __attribute__((always_inline)) {
        BFloat16Format::Loaded weights[N];
        unroll<N>([&](auto n) __attribute__((always_inline)) {
          weights[n] = Int4Format::pair<decltype(pair)::value>(words[n]);
        });
        unroll<M>([&](auto m) __attribute__((always_inline)) {
          const auto input = BFloat16Format::broadcast(x[m] + step * 8 + pair * 2);
          unroll<N>([&](auto n) __attribute__((always_inline)) { BFloat16Format::add(part[m][n], weights[n], input); });
        });
      });
    }
    unroll<N>([&](auto n) __attribute__((always_inline)) {
      const Lanes scale = Int4Format::scales(scales[n] + block * 16);
      unroll<M>([&](auto m) __attribute__((always_inline)) { sums[m][n] = fma16(part[m][n], scale, sums[m][n]); });
    });
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
