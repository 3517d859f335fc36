// The nests of avx_vnni: those of avx2, whose lanes they share, with the products of AVX-VNNI.
#include <array>

#include "cpu/avx2/products.h"
#include "cpu/nests.h"

namespace octet::cpu {
namespace {

constexpr Multiplies kCodes{avx_vnni::multiply_s8_u8, avx_vnni::multiply_u8_s8, avx_vnni::multiply_few_s8_u8,
                            avx_vnni::multiply_few_u8_s8};

/// [scheme]; one without a nest has no function to attend with.
std::array<Nest, kSchemes> nests_with_vnni() {
  std::array<Nest, kSchemes> nests{};
  for (int s = 0; s < kSchemes; ++s) {
    Nest& nest = nests[static_cast<std::size_t>(s)];
    if (const Nest* const shared = avx2_nest(static_cast<Scheme>(s)))
      nest = *shared, nest.code_products = &kCodes;
  }
  return nests;
}

}  // namespace

const Nest* avx_vnni_nest(Scheme scheme) {
  static const std::array<Nest, kSchemes> nests = nests_with_vnni();
  const Nest& nest = nests[static_cast<std::size_t>(scheme)];
  return nest.attend ? &nest : nullptr;
}

}  // namespace octet::cpu
