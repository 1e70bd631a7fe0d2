// Attention of one instruction set, with keys and values of all formats.
#include "kernels/attention/attention.h"

namespace sluice {
namespace SLUICE_SET {

template <class Out>
void attend(const Step& step, int layer, int number, int after, uint8_t* scratch, const HeadRows<Out>& heads) {
  with_cached(*step.cache, [&](auto format) {
    attend_cached<decltype(format)>(step, layer, number, after, scratch, heads);
  });
}

template void attend(const Step&, int, int, int, uint8_t*, const HeadRows<float>&);
#if defined(SLUICE_SET_avx512bf16) || defined(SLUICE_SET_neonbf16)
template void attend(const Step&, int, int, int, uint8_t*, const HeadRows<Half>&);
#endif

void write_head(const Step& step, const CachedSlot& to, const float* key, const float* value, int head_dim) {
  const Head head = head_of(step, to.layer, to.sequence, to.kv_head);
  with_cached(*step.cache, [&](auto format) {
    using Format = decltype(format);
    if constexpr (kIsBytes<Format>)
      write_bytes(head, to.slot, key, value, head_dim, to.clears);
    else
      write_slot<Format>(head, to.slot, key, value, head_dim, to.clears);
  });
}

void write_latent(const Step& step, const CachedSlot& to, const float* latent, int width) {
  const Head head = head_of(step, to.layer, to.sequence, to.kv_head);
  with_cached_numbers(*step.cache, [&](auto format) {
    write_key<decltype(format)>(head, to.slot, latent, width, to.clears);
  });
}

}  // namespace SLUICE_SET
}  // namespace sluice
