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

  /// What a row's distances are made of, in every lane but for the shift.
  struct RowView {
    I32 from;  ///< the largest sum, and the half that rounds
    std::int32_t right;
    U16 multiplier;

    /// Distances of a run, without bias, from its sums.
    U16 distances(const std::byte* sums, const std::byte* level) const {
      const I32 low = (from - load<I32>(sums)) >> right,
                high = (from - load<I32>(sums + 4 * kLanes)) >> right;
      return W::adds_u16(W::mulhi_u16(Isa::pack_words(low, high), multiplier), load<U16>(level));
    }
  };

  /// The lesser of each two words.
  struct SmallerWords {
    I32 operator()(I32 a, I32 b) const {
      return reinterpret_cast<I32>(W::min_u16(reinterpret_cast<U16>(a), reinterpret_cast<U16>(b)));
    }
  };
  /// z of the lesser word of each lane.
  template <class Rows>
  static Rows nearest(Rows words) {
    constexpr std::int32_t kWord = 16, kLowWord = 0xffff;
    return Smaller{}(words & kLowWord, (words >> kWord) & kLowWord) - kAbove;
  }

  /// z + kAbove of keys [0, count) from their sums, z counted from the largest bias, saturated, and kHidden
  /// for keys that the row does not see: count is rounded up to runs. Returns the least words in lanes.
  template <class Below, class Visible>
  static I32 distances(const std::byte* sums, const RowView& view, const std::byte* level,
                       const KeySpan& seen, std::int64_t count, const Visible& visible, std::byte* words,
                       const Below& below) {
    const U16 hidden = simd::fill<U16>(kHidden);
    U16 least = hidden;
    const auto distance = [&](std::int64_t j) {
      return below(view.distances(sums + 4 * j, level + 2 * j), j);
    };
    const auto keep = [&](std::int64_t j, U16 distances) {
      store(words + 2 * j, distances);
      least = W::min_u16(least, distances);
    };
    std::int64_t j = 0;
    if (seen.first <= 0)
      for (; j + kRun <= seen.last; j += kRun) keep(j, distance(j));
    for (; j < count; j += kRun) keep(j, visible(j) ? distance(j) : hidden);
    return reinterpret_cast<I32>(least);
  }

  /// Words that are the least of none.
  static I32 farthest() { return reinterpret_cast<I32>(simd::fill<U16>(kHidden)); }

  /// The same of a row that sees all keys, of `runs` vectors of words. before: the least words of other keys.
  static I32 distances_of_whole(const std::byte* sums, const RowView& view, const std::byte* level,
                                std::int64_t runs, std::byte* words, I32 before) {
    auto least = reinterpret_cast<U16>(before);
    if (runs == 1) {
      const U16 distances = view.distances(sums, level);
      store(words, distances);
      return reinterpret_cast<I32>(W::min_u16(least, distances));
    }
    for (std::int64_t run = 0; run < runs; ++run) {
      const U16 distances = view.distances(sums, level);
      store(words, distances);
      least = W::min_u16(least, distances);
      sums += 4 * kRun, level += 2 * kRun, words += 2 * kRun;
    }
    return reinterpret_cast<I32>(least);
  }

  /// 64-bit lanes, as many as a register has.
  using Mass = simd::RegisterOf<std::uint64_t, sizeof(I32)>;

  /// Codes of P from `runs` vectors of words; returns the sum of w g in lanes. reference: of the words whose
  /// weight is 1.
  static OCTET_HOST Mass weigh(const std::byte* words, std::int32_t reference, const std::byte* multiplier,
                               std::int64_t runs, std::byte* p) {
    const auto above = simd::fill<U16>(static_cast<std::uint16_t>(reference));
    Mass total{};
    const auto weights = [&](std::int64_t run) {
      return Wide::exp2_u16(W::sub_u16(load<U16>(words + 2 * kRun * run), above));
    };
    const auto mass = [&](I32 sum, U16 w, std::int64_t run) {
      return Isa::add_mass(sum, w, load<U16>(multiplier + 2 * kRun * run));
    };
    const auto chunk = [&](I32 sum) {
      const U16 low = weights(0), high = weights(1);
      sum = mass(mass(sum, low, 0), high, 1);
      Isa::store_word_codes(p, W::mulhrs_u16(low, 255), W::mulhrs_u16(high, 255));
      words += 2 * kChunk, multiplier += 2 * kChunk, p += kChunk * kPBytes;
      return sum;
    };
    // A lane's sum of two terms a run stays below 2^32.
    constexpr std::int64_t kRunsPerSum = S::kMassTerms / 2;
    static_assert(kRunsPerSum == 8);
    for (; runs >= kRunsPerSum; runs -= kRunsPerSum) total = add(total, chunk(chunk(chunk(chunk(I32{})))));
    if (runs == 0) return total;
    I32 sum{};
    for (; runs >= 2; runs -= 2) sum = chunk(sum);
    if (runs > 0) return total + weigh_run(words, reference, multiplier, p, sum);
    return add(total, sum);
  }
  /// The same of one vector of words, the last one of a row. sum: of terms before, in lanes.
  static OCTET_HOST Mass weigh_run(const std::byte* words, std::int32_t reference,
                                   const std::byte* multiplier, std::byte* p, I32 sum) {
    const auto above = simd::fill<U16>(static_cast<std::uint16_t>(reference));
    const U16 w = Wide::exp2_u16(W::sub_u16(load<U16>(words), above));
    Isa::store_word_codes(p, W::mulhrs_u16(w, 255), U16{});
    return add(Mass{}, Isa::add_mass(sum, w, load<U16>(multiplier)));
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
