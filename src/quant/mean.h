// The mean of many floats, none of which overflows on the way: what they are multiplied by, and what their
// sum becomes. The same text on the host and on the GPU.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "lanes/scalar.h"

namespace octet::quant {

/// 2^-s, s = ceil(log2(length)): what elements are multiplied by before they are summed; length > 0.
OCTET_HD float mean_factor(std::int64_t length) {
  int halvings = 0;
  while ((std::int64_t{1} << halvings) < length) ++halvings;
  return power_of_two(-halvings);
}

/// What a sum with that factor is divided by: (1/2, 1].
OCTET_HD float mean_divisor(std::int64_t length) { return static_cast<float>(length) * mean_factor(length); }

/// The mean of elements whose sum with that factor is `sum`, in lanes L.
template <class L>
OCTET_HD typename L::F32 mean_of_scaled(typename L::F32 sum, float divisor) {
  using F32 = typename L::F32;
  constexpr float kLargest = 0x1.fffffep127f;
  const F32 mean = L::div(sum, divisor);
  const F32 above = L::select(L::less(kLargest, mean), kLargest, mean);
  return L::select(L::less(above, -kLargest), -kLargest, above);
}
OCTET_HD float mean_of_scaled(float sum, float divisor) { return mean_of_scaled<ScalarLane>(sum, divisor); }
/// The same of `length` elements.
OCTET_HD float mean_of_sum(float sum, std::int64_t length) {
  return mean_of_scaled(sum, mean_divisor(length));
}

}  // namespace octet::quant
