// Verbs of lanes/scalar.h for i64 in one register, and the words that they are made of.
#pragma once
#include <cstdint>
#include <utility>

#include "lanes/native_register.h"
#include "lanes/pair.h"

namespace octet::simd {

/// a >> s with the sign coming in, 0 <= s < 64. Before AVX-512 there is only the shift that brings in zeros:
/// the sign bit is flipped before it, and its shifted place is subtracted after it.
struct ShiftRightI64 {
  std::uint32_t by;

  template <class V>
  OCTET_HD V operator()(V a) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_srav_epi64(cast<__m512i>(a), _mm512_set1_epi64(by)));
#endif
    using U = Like<std::uint64_t, V>;
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    return cast<V>(((cast<U>(a) ^ kSign) >> std::uint64_t{by}) - (kSign >> by));
  }
};

struct ShiftLeftI64 {
  std::uint32_t by;

  template <class V>
  OCTET_HD V operator()(V a) const {
    return cast<V>(cast<Like<std::uint64_t, V>>(a) << std::uint64_t{by});
  }
};

/// Which 32 bits of each lane.
enum class Word : int { low, high };

template <Word kWord, class V, int... kLane>
OCTET_HD auto words(V low, V high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, (2 * kLane + static_cast<int>(kWord))...);
}

/// These words of all lanes, in half of the registers.
template <Word kWord, class V>
OCTET_HD auto words(V a) {
  if constexpr (kIsPair<V>) {
    if constexpr (kIsPair<decltype(V::lo)>) {
      return join(words<kWord>(a.lo), words<kWord>(a.hi));
    } else {
      using Half = RegisterOf<std::int32_t, sizeof(V) / 2>;
      const Half low = cast<Half>(a.lo), high = cast<Half>(a.hi);
#if defined(__AVX2__)
      if constexpr (sizeof(Half) == 32) {
        // The shuffle takes two words of each operand's 128 bits.
        constexpr int kWords = kWord == Word::low ? 0x88 : 0xdd, kQuartersInOrder = 0xd8;
        const __m256i mixed = cast<__m256i>(_mm256_shuffle_ps(cast<__m256>(low), cast<__m256>(high), kWords));
        return cast<Half>(_mm256_permute4x64_epi64(mixed, kQuartersInOrder));
      } else
#endif
        return words<kWord>(low, high, std::make_integer_sequence<int, kLanesOf<Half>>{});
    }
  } else {
    using Words = RegisterOf<std::int32_t, sizeof(V)>;
    const Words all = cast<Words>(a);
    return words<kWord>(all, all, std::make_integer_sequence<int, kLanesOf<V>>{});
  }
}

}  // namespace octet::simd
