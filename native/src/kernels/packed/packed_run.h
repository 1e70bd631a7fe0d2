// The products of a run of packed weights, whose codes are unpacked once for all rows of inputs.
#pragma once

#include "kernels/packed/packed_codes.h"
#include "kernels/packed/packed_inputs.h"
#include "kernels/packed/packed_scales.h"

namespace sluice {
namespace SLUICE_SET {

// The arguments of a product of one span of N groups of the same kind with one span of each row of inputs. Results are
// added to out [rows][N][16].
template <int N>
struct SpanProduct {
  const uint8_t* codes[N];
  const SpanScales* scales[N];
  int steps;
  const PackedInputs* x;
  size_t x_stride;  // in spans
  int num_rows;
  float* out;
  size_t out_stride;
};

#if defined(SLUICE_SET_avx512bf16)
SLUICE_INLINE VI broadcast4(const uint8_t* p) {
  int four;
  std::memcpy(&four, p, sizeof four);
  return set1_int(four);
}

// Add the products of a run. Inputs are 16-bit: codes are multiplied with their low and with their high bytes.
template <Codes kCodes, int kStep, int N>
SLUICE_INLINE void multiply_run(const SpanProduct<N>& span, int run) {
  constexpr int kQuads = kStep / 4, kSteps = kCodeRun / kStep;
  VI quads[N][8];
  unroll<N>([&](auto n) __attribute__((always_inline)) {
    load_codes<kCodes>(span.codes[n] + run * kRunBytes<kCodes>, quads[n]);
  });
  for (int m = 0; m < span.num_rows; ++m) {
    const PackedInputs& input = span.x[m * span.x_stride];
    const uint8_t* low = run_of(input, run);
    float* out = span.out + m * span.out_stride;
    unroll<kSteps>([&](auto s) __attribute__((always_inline)) {
      const int step = run * kSteps + s;
      if (kSteps > 1 && step >= span.steps) return;
      VI lows[N], highs[N];
      unroll<N>([&](auto n) __attribute__((always_inline)) { lows[n] = highs[n] = set1_int(0); });
      unroll<kQuads>([&](auto q) __attribute__((always_inline)) {
        constexpr int kQuad = s * kQuads + q;
        const VI low_four = broadcast4(low + kQuad * 4), high_four = broadcast4(low + kCodeRun + kQuad * 4);
        unroll<N>([&](auto n) __attribute__((always_inline)) {
          lows[n] = add_products(lows[n], quads[n][kQuad], low_four);
          highs[n] = add_products(highs[n], quads[n][kQuad], high_four);
        });
      });
      const V input_scale = set1(input.scales[run]);
      const V input_sum = set1(kStep == 16 ? input.sums16[step] : input.sums32[step]);
      unroll<N>([&](auto n) __attribute__((always_inline)) {
        const V scale = load(span.scales[n]->scales + step * kRows), addend = load(span.scales[n]->addends + step * kRows);
        const V product = to_float(add_int(lows[n], shift_left<8>(highs[n]))) * input_scale;
        store(out + n * kRows, fma(input_sum, addend, fma(product, scale, load(out + n * kRows))));
      });
    });
  }
}
#else
// Registers of outputs that are computed together, so that they share the loads of inputs, if there are enough registers.
constexpr int kAtOnce = kLanes == 8 ? 2 : 1;

// The two adjacent inputs at an even column of a run, in all lanes.
SLUICE_INLINE VI broadcast_pair(const PackedInputs& span, int run, int column) {
  int both;
  std::memcpy(&both, run_of(span, run) + column * 2, sizeof both);
  return set1_int(both);
}

// The scales of a step of kAtOnce registers of outputs.
template <int kStep>
struct StepScales {
  V scales[kAtOnce], addends[kAtOnce];
  int step;

  SLUICE_INLINE StepScales(const SpanScales& of, int at_step, int lane) : step(at_step) {
    unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) {
      scales[r] = load(of.scales + step * kRows + lane + r * kLanes);
      addends[r] = load(of.addends + step * kRows + lane + r * kLanes);
    });
  }

  // Add the scaled sums of a row to `total`.
  SLUICE_INLINE void add(const VI (&sums)[kAtOnce], const PackedInputs& input, V (&total)[kAtOnce]) const {
    const V input_scale = set1(input.scales[step * kStep / kCodeRun]);
    const V input_sum = set1(kStep == 16 ? input.sums16[step] : input.sums32[step]);
    unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) {
      const V product = to_float(sums[r]) * input_scale;
      total[r] = fma(input_sum, addends[r], fma(product, scales[r], total[r]));
    });
  }
};

// Add the products of M rows with the steps of a run. `pairs` has its codes as pairs of int16. It is not inlined, since
// compilers would otherwise keep codes in registers that sums need.
template <int M, int kStep>
__attribute__((noinline)) void multiply_pairs_of(const uint8_t* pairs, const SpanProduct<1>& span, int run,
                                                 int first_row) {
  constexpr int kSums = M <= 4 && kLanes == 16 ? 2 : 1;  // independent sums hide the latency of add
  constexpr int kSteps = kCodeRun / kStep, kUnrolled = 2;
  const PackedInputs* x[M];
  for (int m = 0; m < M; ++m) x[m] = span.x + (first_row + m) * span.x_stride;
  for (int s = 0; s < kSteps && run * kSteps + s < span.steps; ++s)
    for (int lane = 0; lane < kRows; lane += kLanes * kAtOnce) {
      VI sums[M][kSums][kAtOnce];
      unroll<M * kSums * kAtOnce>([&](auto i) __attribute__((always_inline)) {
        sums[i / kAtOnce / kSums][i / kAtOnce % kSums][i % kAtOnce] = set1_int(0);
      });
      const uint8_t* weights = pairs + s * kStep * kRows * 2 + lane * 4;
      for (int first = 0; first < kStep / 2; first += kUnrolled)
        unroll<kUnrolled>([&](auto i) __attribute__((always_inline)) {
          VI weight[kAtOnce];
          unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) {
            weight[r] = load_int(weights + (first + i) * 64 + r * kLanes * 4);
          });
          unroll<M>([&](auto m) __attribute__((always_inline)) {
            const VI both = broadcast_pair(*x[m], run, s * kStep + (first + i) * 2);
            unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) {
              sums[m][i % kSums][r] = add_products(sums[m][i % kSums][r], weight[r], both);
            });
          });
        });
      const StepScales<kStep> scales(*span.scales[0], run * kSteps + s, lane);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        unroll<kSums - 1>([&](auto i) __attribute__((always_inline)) {
          unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) {
            sums[m][0][r] = add_int(sums[m][0][r], sums[m][i + 1][r]);
          });
        });
        float* out = span.out + (first_row + m) * span.out_stride + lane;
        V total[kAtOnce];
        unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) { total[r] = load(out + r * kLanes); });
        scales.add(sums[m][0], *x[m], total);
        unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) { store(out + r * kLanes, total[r]); });
      });
    }
}

// Add the products of M rows, so few that codes are used as soon as they are unpacked.
template <Codes kCodes, int M, int kStep>
SLUICE_INLINE void multiply_few(const SpanProduct<1>& span, int run) {
  constexpr int kSteps = kCodeRun / kStep, kQuads = kStep / 4;
  VI sums[M][kSteps][kRegisters];
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
    VI quads[8];
    load_codes<kCodes>(span.codes[0] + run * kRunBytes<kCodes> + r * kLanes * 4, quads);
    unroll<M * kSteps>([&](auto i) __attribute__((always_inline)) { sums[i / kSteps][i % kSteps][r] = set1_int(0); });
    unroll<8>([&](auto q) __attribute__((always_inline)) {
      const VI low = low_bytes(quads[q]), high = high_bytes(quads[q]);
      unroll<M>([&](auto m) __attribute__((always_inline)) {
        const PackedInputs& input = span.x[m * span.x_stride];
        VI& sum = sums[m][q / kQuads][r];
        sum = add_products(sum, low, broadcast_pair(input, run, q * 4));
        sum = add_products(sum, high, broadcast_pair(input, run, q * 4 + 2));
      });
    });
  });
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    float* out = span.out + m * span.out_stride;
    for (int lane = 0; lane < kRows; lane += kLanes * kAtOnce) {
      V total[kAtOnce];
      unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) { total[r] = load(out + lane + r * kLanes); });
      unroll<kSteps>([&](auto s) __attribute__((always_inline)) {
        VI some[kAtOnce];
        unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) { some[r] = sums[m][s][lane / kLanes + r]; });
        if (run * kSteps + s < span.steps)
          StepScales<kStep>(*span.scales[0], run * kSteps + s, lane).add(some, span.x[m * span.x_stride], total);
      });
      unroll<kAtOnce>([&](auto r) __attribute__((always_inline)) { store(out + lane + r * kLanes, total[r]); });
    }
  });
}

// Add the products of a run, as many rows at a time as there are registers for.
template <Codes kCodes, int kStep, int N>
SLUICE_INLINE void multiply_run(const SpanProduct<N>& span, int run) {
  constexpr int kMost = kLanes == 16 ? 12 : 4;
  if (span.num_rows == 1) return multiply_few<kCodes, 1, kStep>(span, run);
  if (span.num_rows == 2) return multiply_few<kCodes, 2, kStep>(span, run);
  alignas(64) uint8_t pairs[kCodeRun * kRows * 2];
  unroll<kRegisters>([&](auto r) __attribute__((always_inline)) {
    constexpr int kAt = r * kLanes * 4;
    VI quads[8];
    load_codes<kCodes>(span.codes[0] + run * kRunBytes<kCodes> + kAt, quads);
    unroll<8>([&](auto i) __attribute__((always_inline)) {
      store_int(pairs + i * 128 + kAt, low_bytes(quads[i]));
      store_int(pairs + i * 128 + 64 + kAt, high_bytes(quads[i]));
    });
  });
  for (int row = 0; row < span.num_rows;) {
    const int left = span.num_rows - row;
    const int rows = left >= kMost ? kMost : left < 4 ? left : 4;
    if (rows == kMost)
      multiply_pairs_of<kMost, kStep>(pairs, span, run, row);
    else if (rows == 4)
      multiply_pairs_of<4, kStep>(pairs, span, run, row);
    else if (rows == 3)
      multiply_pairs_of<3, kStep>(pairs, span, run, row);
    else if (rows == 2)
      multiply_pairs_of<2, kStep>(pairs, span, run, row);
    else
      multiply_pairs_of<1, kStep>(pairs, span, run, row);
    row += rows;
  }
}
#endif

}  // namespace SLUICE_SET
}  // namespace sluice
