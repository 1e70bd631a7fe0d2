#include "machine/sets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace sluice {

namespace {

#if defined(__x86_64__)
// CPU features from CPUID, since some compilers' __builtin_cpu_supports does not know the newer names.
struct Features {
  bool avx2 = false, avx512 = false, avx512bf16 = false, amx = false;

  Features() {
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return;
    const bool has_fma = (c & bit_FMA) != 0 && (c & bit_F16C) != 0;
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const bool saves_256 = (low & 0x6) == 0x6, saves_512 = (low & 0xe6) == 0xe6;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return;
    const unsigned most = a;
    const bool has_tiles = (d & (1u << 22)) != 0 && (d & (1u << 24)) != 0 && (d & (1u << 25)) != 0;  // bf16 and int8
    avx2 = saves_256 && has_fma && (b & bit_AVX2) != 0 && (b & bit_BMI2) != 0;
    avx512 = avx2 && saves_512 && (b & bit_AVX512F) != 0 && (b & bit_AVX512BW) != 0 && (b & bit_AVX512DQ) != 0 &&
             (b & bit_AVX512VL) != 0;
    const bool has_vnni = (c & (1u << 11)) != 0;
    if (most < 1 || __get_cpuid_count(7, 1, &a, &b, &c, &d) == 0) return;
    avx512bf16 = avx512 && has_vnni && (a & (1u << 5)) != 0;
    amx = avx512bf16 && has_tiles && (low & 0x60000) == 0x60000 && may_use_tiles();
  }

  // Linux lets a process use the tile registers only after it has requested permission.
  static bool may_use_tiles() {
#if defined(__linux__)
    constexpr long kAskFor = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
#else
    return false;
#endif
  }
};
#endif

#define SLUICE_SET_ROW(name, is_runnable)                                                                       \
  {#name, name::run_step, name::read_memory, name::multiply_registers, name::product_name, name::largest_logit, \
   name::weigh_logits, name::part_above, name::drop_below, name::collect_between, is_runnable}

std::vector<InstructionSet> make_sets() {
  std::vector<InstructionSet> sets;
#if defined(__x86_64__)
  const Features has;
#if defined(SLUICE_HAS_amx)
  sets.push_back(SLUICE_SET_ROW(amx, has.amx));
#endif
#if defined(SLUICE_HAS_avx512bf16)
  sets.push_back(SLUICE_SET_ROW(avx512bf16, has.avx512bf16));
#endif
#if defined(SLUICE_HAS_avx512)
  sets.push_back(SLUICE_SET_ROW(avx512, has.avx512));
#endif
#if defined(SLUICE_HAS_avx2)
  sets.push_back(SLUICE_SET_ROW(avx2, has.avx2));
#endif
#elif defined(SLUICE_HAS_neonbf16)
#if defined(__linux__) && defined(HWCAP2_BF16)
  const bool has_bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  const bool has_bf16 = false;
#endif
  sets.push_back(SLUICE_SET_ROW(neonbf16, has_bf16));
#endif
#if defined(SLUICE_HAS_portable)
  sets.push_back(SLUICE_SET_ROW(portable, true));
#endif
  return sets;
}

#undef SLUICE_SET_ROW

}  // namespace

const std::vector<InstructionSet>& instruction_sets() {
  static const std::vector<InstructionSet> sets = make_sets();
  return sets;
}

const InstructionSet* find_set(const std::string& name) {
  for (const InstructionSet& set : instruction_sets())
    if (set.is_runnable && (name == "auto" || name == set.name)) return &set;
  return nullptr;
}

std::string unsupported_set_text(const std::string& name) {
  std::string built, usable;
  for (const InstructionSet& set : instruction_sets()) {
    built += (built.empty() ? "" : ", ") + std::string(set.name);
    if (set.is_runnable) usable += ", " + std::string(set.name);
  }
  if (usable.empty())
    return "instruction_set: this CPU supports none of the sets in this build of sluice_native (" + built +
           "); build native/ for this CPU, or with an empty SLUICE_SETS for all CPUs";
  return "instruction_set must be one of auto" + usable + " (got " + name + ")";
}

}  // namespace sluice
