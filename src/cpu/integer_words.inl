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
      const auto words = [&](const std::byte* of, std::int32_t more) {
        return Isa::pack_words(low ? load<I32>(of + 4 * j) + more : I32{},
                               high ? load<I32>(of + 4 * next) + more : I32{});
      };
      store(levels + 2 * j, words(distance, kAbove));
      store(masses + 2 * j, words(multiplier, 0));
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

  /// z + kAbove of keys [0, count) from their sums, z counted from the largest bias, saturated: count is
  /// rounded up to runs.
  template <class Below>
  static void distances(const std::byte* sums, const typename S::View& view, const std::byte* level,
                        std::int64_t count, std::byte* words, const Below& below) {
    const std::int32_t from = view.peak + view.half;
    const auto right = static_cast<std::int32_t>(view.right);
    const auto multiplier = simd::fill<U16>(static_cast<std::uint16_t>(view.multiplier >> 16));
    for (std::int64_t j = 0; j < count; j += kRun) {
      const I32 low = (from - load<I32>(sums + 4 * j)) >> right;
      const I32 high = (from - load<I32>(sums + 4 * (j + kLanes))) >> right;
      const U16 unbiased = W::mulhi_u16(Isa::pack_words(low, high), multiplier);
      store(words + 2 * j, below(W::adds_u16(unbiased, load<U16>(level + 2 * j)), j));
    }
  }

  /// The least z of the visible keys, in lanes.
  template <class Visible>
  static I32 nearest(const std::byte* words, const KeySpan& seen, std::int64_t count,
                     const Visible& visible) {
    const U16 farthest = simd::fill<U16>(65535);
    U16 least = farthest;
    std::int64_t j = 0;
    if (seen.first <= 0)
      for (; j + kRun <= seen.last; j += kRun) least = W::min_u16(least, load<U16>(words + 2 * j));
    for (; j < count; j += kRun) least = W::min_u16(least, visible(j) ? load<U16>(words + 2 * j) : farthest);
    constexpr std::int32_t kWord = 16, kLowWord = 0xffff;
    const I32 pairs = reinterpret_cast<I32>(least);
    return Smaller{}(pairs & kLowWord, (pairs >> kWord) & kLowWord) - kAbove;
  }

  /// Codes of P from the words; returns the sum of w g. origin: the score of weight 1.
  template <class Visible>
  static std::int64_t weigh(const std::byte* words, std::int32_t origin, const std::uint16_t* multiplier,
                            const KeySpan& seen, std::int64_t count, const Visible& visible, std::byte* p) {
    const auto above = simd::fill<U16>(static_cast<std::uint16_t>(kAbove - origin));
    Wide64 total{};
    const auto step = [&](I32 sum, std::int64_t at, const auto& see) {
      const U16 low = see(Wide::exp2_u16(W::subs_u16(load<U16>(words + 2 * at), above)), at);
      const U16 high = see(Wide::exp2_u16(W::subs_u16(load<U16>(words + 2 * (at + kRun)), above)), at + kRun);
      sum = Isa::add_mass(sum, low, load<U16>(reinterpret_cast<const std::byte*>(multiplier + at)));
      sum = Isa::add_mass(sum, high, load<U16>(reinterpret_cast<const std::byte*>(multiplier + at + kRun)));
      Isa::store_word_codes(p + at * kPBytes, W::mulhrs_u16(low, 255), W::mulhrs_u16(high, 255));
      return sum;
    };
    const auto all = [](U16 w, std::int64_t) { return w; };
    const auto some = [&](U16 w, std::int64_t at) { return visible(at) ? w : U16{}; };
    constexpr std::int64_t kChunks = S::kMassTerms / 4;  // a lane's sum of two pairs a chunk stays below 2^32
    std::int64_t j = 0;
    while (seen.first <= 0 && j + kChunk <= seen.last) {
      I32 sum{};
      for (std::int64_t n = 0; n < kChunks && j + kChunk <= seen.last; ++n, j += kChunk)
        sum = step(sum, j, all);
      total = add(total, sum);
    }
    for (; j < count; j += kChunk) total = add(total, step(I32{}, j, some));
    return static_cast<std::int64_t>(reduced(total, Plus{}));
  }

 private:
  /// 64-bit sums of the unsigned 32-bit ones in lanes 2 i and 2 i + 1.
  using Wide64 = simd::RegisterOf<std::uint64_t, sizeof(I32)>;

  static Wide64 add(Wide64 total, I32 sum) {
    Wide64 pairs;
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
