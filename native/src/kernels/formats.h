// How a step along the columns of a packed weight is read and multiplied, for each type of weight.
//
// A format has: Weight and Input, the stored types; kColumns, how many columns one step takes; kWeights, how many
// elements of Weight that is for 16 rows; load, broadcast and add.
#pragma once

#include "lanes.h"

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
      sum.v[r] = (V)vbfdotq_f32((float32x4_t)sum.v[r], vreinterpretq_bf16_s32((int32x4_t)w.v[r]),
                                vreinterpretq_bf16_s32(x));
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

// sums[m][n] += the products of `steps` steps along input row m and weight group n. Each sum is one chain along the
// columns, so its bits don't depend on which rows and groups are computed together.
template <class Format, int M, int N>
SLUICE_INLINE void multiply(Lanes (&sums)[M][N], const typename Format::Input* const (&x)[M],
                            const typename Format::Weight* const (&w)[N], int steps) {
  for (int step = 0; step < steps; ++step) {
    typename Format::Loaded weights[N];
    const size_t at = static_cast<size_t>(step) * Format::kWeights;
    unroll<N>([&](auto n) __attribute__((always_inline)) { weights[n] = Format::load(w[n] + at); });
    unroll<M>([&](auto m) __attribute__((always_inline)) {
      const auto input = Format::broadcast(x[m] + step * Format::kColumns);
      unroll<N>([&](auto n) __attribute__((always_inline)) { Format::add(sums[m][n], weights[n], input); });
    });
  }
}

}  // namespace SLUICE_SET
}  // namespace sluice
