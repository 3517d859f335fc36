// The softmax of a row of `integer` in 16-bit lanes: the narrow form of docs/numerics/integer.md, whose bits
// are those of the wide one (IntegerScheme::fits_u16); part of attend.inl's nest.
#pragma once
#include <cstdint>

#include "cpu/bias.inl"
#include "cpu/kernel.h"
#include "cpu/reduce.inl"
#include "cpu/visit.inl"
#include "numerics/integer.h"

namespace octet::cpu {
namespace {

template <class S, class Isa>
struct IntegerWords {
  using L = typename Isa::Lane;
  using W = typename Isa::Words;
  using U16 = typename W::U16;
  using I32 = typename L::I32;
  using Wide = IntegerScheme<W>;  ///< for its exponential
  static constexpr std::int64_t kLanes = Isa::kLanes;
  static constexpr std::int64_t kRun = 2 * kLanes;  ///< keys of a vector of words
  static constexpr std::int64_t kChunk = 2 * kRun;  ///< keys whose codes are stored together
  static constexpr std::int64_t kPBytes = kPBytesOf<S, Isa>;
  /// Distances are stored that much higher: what is subtracted from them is then never negative, for a
  /// reference lies less than a unit of its grid above the nearest key.
  static constexpr std::int32_t kAbove = 1 << S::kGridBits;
  /// What stands for a hidden key: no reference is that far from the nearest key, and the weight is 0.
  static constexpr std::uint16_t kHidden = 65535;

  /// Keys beyond `count`, to the next run, are hidden and have no mass.
  static void constants(const KeyConstants& keys, std::int64_t count, std::byte* levels, std::uint16_t* mass,
                        FixedBlock* block) {
    *block = {};
    block->k_largest = 1;
    const auto* distance = reinterpret_cast<const std::byte*>(keys.members);
    const std::byte* multiplier = distance + 4 * keys.stride;
    auto* masses = reinterpret_cast<std::byte*>(mass);
    for (std::int64_t j = 0; j < count; j += kRun) {
      const std::int64_t next = j + kLanes;
      const auto low = lanes_within<Isa>(-j, count - j), high = lanes_within<Isa>(-next, count - next);
      const auto words = [&](const std::byte* of, std::int32_t more, std::int32_t beyond) {
        const I32 none = simd::fill<I32>(beyond);
        return Isa::pack_words(low ? load<I32>(of + 4 * j) + more : none,
                               high ? load<I32>(of + 4 * next) + more : none);
      };
      store(levels + 2 * j, words(distance, kAbove, kHidden));
      store(masses + 2 * j, words(multiplier, 0, 0));
    }
  }

  /// With a bias: z of the nearest key, counted from the row's largest bias, up to which 16 bits are enough.
  /// What saturates lies 32 octaves at least from there, less the rounding of a unit, and weights end at 16.
  static constexpr std::int32_t kMostNearest = 32767 - (16 << S::kUnitBits);

  /// What distances() makes of the distances without bias of keys [at, at + kRun).
  static U16 unbiased(U16 words, std::int64_t /*at*/) { return words; }
  /// Adds how far the bias lies below `largest`, the largest that the row sees; 65535 and no less for a
  /// hidden key. |largest| < 2^28.
  static auto below(const S& scheme, const float* bias, std::int32_t largest) {
    return [&scheme, bias, largest](U16 words, std::int64_t at) {
      const I32 low = largest - scheme.bias(L::load(bias + at));
      const I32 high = largest - scheme.bias(L::load(bias + at + kLanes));
      return W::adds_u16(words, Isa::pack_words(low, high));
    };
  }

  static_assert(kHidden - kMostNearest - 2 * kAbove >= 16 << S::kUnitBits,
                "a weight of 0 whatever the reference");

  /// What a row's distances are made of.
  struct RowView {
    std::int32_t from;  ///< the largest sum, and the half that rounds
    std::int32_t right;
    std::uint16_t multiplier;
  };

  /// z + kAbove of keys [0, count) from their sums, z counted from the largest bias, saturated, and kHidden
  /// for keys that the row does not see: count is rounded up to runs. Returns the least z in lanes.
  template <class Below, class Visible>
  static I32 distances(const std::byte* sums, const RowView& view, const std::byte* level,
                       const KeySpan& seen, std::int64_t count, const Visible& visible, std::byte* words,
                       const Below& below) {
    const I32 from = simd::fill<I32>(view.from);
    const std::int32_t right = view.right;
    const auto multiplier = simd::fill<U16>(view.multiplier);
    const U16 hidden = simd::fill<U16>(kHidden);
    U16 least = hidden;
    const auto distance = [&](std::int64_t j) {
      const I32 low = (from - load<I32>(sums + 4 * j)) >> right;
      const I32 high = (from - load<I32>(sums + 4 * (j + kLanes))) >> right;
      const U16 unbiased = W::mulhi_u16(Isa::pack_words(low, high), multiplier);
      return below(W::adds_u16(unbiased, load<U16>(level + 2 * j)), j);
    };
    const auto keep = [&](std::int64_t j, U16 distances) {
      store(words + 2 * j, distances);
      least = W::min_u16(least, distances);
    };
    std::int64_t j = 0;
    if (seen.first <= 0)
      for (; j + kRun <= seen.last; j += kRun) keep(j, distance(j));
    for (; j < count; j += kRun) keep(j, visible(j) ? distance(j) : hidden);
    constexpr std::int32_t kWord = 16, kLowWord = 0xffff;
    const I32 pairs = reinterpret_cast<I32>(least);
    return Smaller{}(pairs & kLowWord, (pairs >> kWord) & kLowWord) - kAbove;
  }

  /// 64-bit lanes, as many as a register has.
  using Mass = simd::RegisterOf<std::uint64_t, sizeof(I32)>;

  /// Codes of P from the words; returns the sum of w g in lanes. reference: of the words whose weight is 1.
  static Mass weigh(const std::byte* words, std::int32_t reference, const std::uint16_t* multiplier,
                    std::int64_t count, std::byte* p) {
    const auto above = simd::fill<U16>(static_cast<std::uint16_t>(reference));
    Mass total{};
    I32 sum{};
    const auto weights = [&](std::int64_t at) {
      const U16 w = Wide::exp2_u16(W::sub_u16(load<U16>(words + 2 * at), above));
      sum = Isa::add_mass(sum, w, load<U16>(reinterpret_cast<const std::byte*>(multiplier + at)));
      return W::mulhrs_u16(w, 255);
    };
    constexpr std::int64_t kChunks = S::kMassTerms / 4;  // a lane's sum of two pairs a chunk stays below 2^32
    std::int64_t j = 0;
    while (j + kRun < count) {
      for (std::int64_t n = 0; n < kChunks && j + kRun < count; ++n, j += kChunk) {
        const U16 low = weights(j), high = weights(j + kRun);
        Isa::store_word_codes(p + j * kPBytes, low, high);
      }
      total = add(total, sum);
      sum = I32{};
    }
    if (j < count) {
      Isa::store_word_codes(p + j * kPBytes, weights(j), U16{});
      total = add(total, sum);
    }
    return total;
  }

 private:
  /// The unsigned 32-bit sums in lanes 2 i and 2 i + 1 to lane i.
  static Mass add(Mass total, I32 sum) {
    Mass pairs;
    __builtin_memcpy(&pairs, &sum, sizeof pairs);
    return total + (pairs & 0xffffffffu) + (pairs >> 32);
  }
  template <class V>
  static V load(const std::byte* at) {
    V lanes;
    __builtin_memcpy(&lanes, at, sizeof lanes);
    return lanes;
  }
  template <class V>
  static void store(std::byte* at, V lanes) {
    __builtin_memcpy(at, &lanes, sizeof lanes);
  }
};

}  // namespace
}  // namespace octet::cpu
