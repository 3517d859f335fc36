// What of a key's constants follows from the scale of its V, where P carries that scale.
#pragma once
#include "base/bits.h"
#include "base/hd.h"
#include "numerics/exp2.h"

namespace octet {

/// The least V scale that P carries. The row sum holds 1 / scale times up to 2^8 a key, which stays finite
/// to 2^23 keys; a smaller scale (|V| < 1.6e-27) is taken for this one, an error below 127 * 2^-96 in V.
inline constexpr float kLeastCarriedV = power_of_two(-96);

template <class F32>
struct ValueWords {
  F32 log2_v;  ///< log2 of V's token scale: P carries it
  F32 rv;      ///< its reciprocal: the row sum does not
};

/// A key in a block of zero V has V scale 0: any finite stand-in gives the same output, 0.
template <class L>
OCTET_HD ValueWords<typename L::F32> value_words(typename L::F32 scale) {
  using F32 = typename L::F32;
  const F32 v = L::select(scale > 0.0f, L::max(scale, kLeastCarriedV), L::broadcast(1));
  return {log2_poly(v), 1.0f / v};
}

}  // namespace octet
