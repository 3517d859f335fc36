// The softmax of a row in 16-bit lanes, for schemes that have such a form (numerics/fixed16.h): part of
// attend.inl's nest.
//
// Isa: Words (a lane of 2 kLanes words), keys_of_words() (the key of a run of 2 kLanes that each word is of),
// pack_words() (two vectors of keys to words in that order), level_words(), largest_words(), add_mass(),
// store_weights() (their codes), weight() (fixed16::weight of how far words lie below the largest).
#pragma once
#include <cstdint>

#include "cpu/bias.inl"
#include "cpu/kernel.h"
#include "cpu/reduce.inl"
#include "cpu/visit.inl"
#include "numerics/fixed16.h"

namespace octet::cpu {
namespace {

template <class S, class Isa>
struct FixedSoftmax {
  using L = typename Isa::Lane;
  using W = typename Isa::Words;
  using U16 = typename W::U16;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Mantissa = typename S::FixedMantissa;
  static constexpr std::int64_t kRun = 2 * Isa::kLanes;  ///< keys of a vector of words
  static constexpr std::int64_t kChunk = 2 * kRun;       ///< keys whose codes are stored together
  static constexpr std::int64_t kPBytes = kPBytesOf<S, Isa>;

  /// Runs of a key block that rows take without a loop: those of 128 keys where vectors have 64 bytes.
  static constexpr int kTogether = 4;
  static_assert(kTogether <= fixed16::kPairsPerSum);

  /// What stands for a key that nobody sees: its word is 0, the least.
  static constexpr float kNoLevel = -0x1p64f;

  /// Constants of a key block of `count` keys. Keys beyond, of whose scales there are any numbers to the next
  /// run, are seen by nobody and have no mass.
  static void constants(const KeyConstants& keys, std::int64_t count, std::byte* levels, std::uint16_t* mass,
                        FixedBlock* block) {
    const Extremes k = extremes(keys.k_scale, count), v = extremes(keys.v_scale, count);
    *block = {};
    constexpr float kLeastV = power_of_two(-96), kMostV = power_of_two(96);  // reciprocals stay finite
    if (!(v.least >= kLeastV && v.largest <= kMostV && v.largest <= v.least * fixed16::kScaleRange)) return;
    constexpr float kMassOne = 1 << fixed16::kMassBits;
    block->reference = log2_poly(v.largest);
    block->mass_unit = fixed16::kCodeOne / fixed16::kWeightOne / (kMassOne * v.least);
    block->k_largest = k.largest;
    block->k_one_scale = k.least == k.largest ? k.largest : 0;
    auto* level = reinterpret_cast<float*>(levels);
    const auto put_level = [&](std::int64_t j) {
      const F32 scale = L::load(keys.v_scale + j);
      const I32 there = lanes_within<Isa>(-j, count - j);
      L::store(level + j, there
                              ? (log2_poly(scale) - block->reference) * fixed16::kUnits + fixed16::kWordOffset
                              : L::broadcast(kNoLevel));
      const I32 units = L::nearest_i32(kMassOne * (L::broadcast(v.least) / scale));
      return there ? units : I32{};
    };
    for (std::int64_t j = 0; j < count; j += kRun) {
      const I32 low = put_level(j), high = put_level(j + Isa::kLanes);
      const U16 words = Isa::pack_words(low, high);
      __builtin_memcpy(mass + j, &words, sizeof words);
    }
  }

  /// A row's scores as words, from `sums`, keys [0, count): count is rounded up to runs. factor: units of x
  /// an accumulator unit, K's scale in it unless k_scale is given. level(j): of keys from j on, a vector.
  template <class Level>
  static void score(const std::byte* sums, const float* k_scale, float factor, const Level& level,
                    std::int64_t count, std::byte* words) {
    for (std::int64_t j = 0; j < count; j += kRun) {
      const typename Isa::Levels levels{level(j), level(j + Isa::kLanes)};
      if (k_scale)
        Isa::level_words(sums + 4 * j, k_scale + j, factor, levels, words + 2 * j);
      else
        Isa::level_words(sums + 4 * j, factor, levels, words + 2 * j);
    }
  }

  /// The largest visible ones, two words a lane. seen: of keys [0, count), or to a later one where all that
  /// come are to be taken as they are.
  template <class Visible>
  static I32 largest(const std::byte* words, const KeySpan& seen, std::int64_t count,
                     const Visible& visible) {
    U16 most{};
    std::int64_t j = 0;
    if (seen.first <= 0)
      for (; j + kRun <= seen.last; j += kRun) most = Isa::largest_words(most, load<U16>(words + 2 * j));
    for (; j < count; j += kRun)
      most = Isa::largest_words(most, visible(j) ? load<U16>(words + 2 * j) : U16{});
    return reinterpret_cast<I32>(most);
  }
  /// The larger word of all of each row's, from largest(): row r's in lane r. note: words to the end, and one
  /// choice between two of each lane there.
  template <int kRows>
  static I32 largest_of_rows(const I32* rows) {
    constexpr std::int32_t kWord = 16, kLow = 0xffff;
    const I32 pairs = rows_reduced<kRows>(rows, LargerWords{});
    return Larger{}(pairs & kLow, (pairs >> kWord) & kLow);
  }

  /// Words and codes of rows that see all keys: row r's at words + r * words_row and p + r * p_row.
  struct WholeRows {
    const std::byte* words;
    std::int64_t words_row;
    std::byte* p;
    std::int64_t p_row;
  };

  /// largest() of kRows such rows, of `runs` vectors of words each.
  template <int kRows>
  static void largest_of_whole(const WholeRows& rows, std::int64_t runs, I32 (&largest)[kRows]) {
    U16 most[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) most[r] = load<U16>(rows.words + r * rows.words_row);
    const auto see = [&](std::int64_t run) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        most[r] = Isa::largest_words(most[r], load<U16>(rows.words + r * rows.words_row + 2 * kRun * run));
    };
    static_assert(kTogether == 4);
    if (runs == kTogether)
      see(1), see(2), see(3);
    else
      for (std::int64_t run = 1; run < runs; ++run) see(run);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) largest[r] = reinterpret_cast<I32>(most[r]);
  }

  /// Codes of P from kRuns vectors of words; returns the sum of w r, in lanes.
  template <int kRuns>
  static I32 weigh_of(const std::byte* words, std::int32_t peak, const std::uint16_t* mass, std::byte* p) {
    const auto largest = simd::fill<U16>(static_cast<std::uint16_t>(peak));
    U16 of[kRuns];
#pragma GCC unroll 8
    for (int run = 0; run < kRuns; ++run)
      of[run] = Isa::template weight<Mantissa>(largest, load<U16>(words + 2 * kRun * run));
    I32 sum{};
#pragma GCC unroll 8
    for (int run = 0; run < kRuns; ++run)
      sum = Isa::add_mass(sum, of[run], load<U16>(reinterpret_cast<const std::byte*>(mass + kRun * run)));
#pragma GCC unroll 4
    for (int run = 0; run < kRuns; run += 2)
      Isa::store_weights(p + run * kRun * kPBytes, of[run], of[run + 1]);
    return sum;
  }
  /// weigh() of kRows such rows, counted from peak[r].
  template <int kRows>
  static void weigh_whole(const WholeRows& rows, const std::int32_t* peak, const std::uint16_t* mass,
                          std::int64_t runs, F32 (&sums)[kRows]) {
    if (runs == kTogether) {
      for (int r = 0; r < kRows; ++r)
        sums[r] = L::to_f32(
            weigh_of<kTogether>(rows.words + r * rows.words_row, peak[r], mass, rows.p + r * rows.p_row));
      return;
    }
    for (int r = 0; r < kRows; ++r) {
      stay_awake<Isa>(r, runs * kRun);
      const auto largest = simd::fill<U16>(static_cast<std::uint16_t>(peak[r]));
      const std::byte* words = rows.words + r * rows.words_row;
      const auto* masses = reinterpret_cast<const std::byte*>(mass);
      std::byte* p = rows.p + r * rows.p_row;
      const auto weights = [&](std::int64_t run) {
        return Isa::template weight<Mantissa>(largest, load<U16>(words + 2 * kRun * run));
      };
      const auto chunk = [&](I32 sum) {
        const U16 low = weights(0), high = weights(1);
        sum = Isa::add_mass(sum, low, load<U16>(masses));
        sum = Isa::add_mass(sum, high, load<U16>(masses + 2 * kRun));
        Isa::store_weights(p, low, high);
        words += 2 * kChunk, masses += 2 * kChunk, p += kChunk * kPBytes;
        return sum;
      };
      F32 total{};
      std::int64_t left = runs;
      for (; left >= fixed16::kPairsPerSum; left -= fixed16::kPairsPerSum)
        total += L::to_f32(chunk(chunk(I32{})));
      I32 sum{};
      if (left >= 2) sum = chunk(sum), left -= 2;
      if (left > 0) {
        const U16 low = weights(0);
        sum = Isa::add_mass(sum, low, load<U16>(masses));
        Isa::store_weights(p, low, U16{});
      }
      sums[r] = total + L::to_f32(sum);
    }
  }

  /// Codes of P from the words; returns the sum of w r, in lanes.
  template <class Visible>
  static F32 weigh(const std::byte* words, std::int32_t peak, const std::uint16_t* mass, const KeySpan& seen,
                   std::int64_t count, const Visible& visible, std::byte* p) {
    const auto largest = simd::fill<U16>(static_cast<std::uint16_t>(peak));
    F32 total{};
    std::int64_t j = 0;
    const auto all = [&](std::int64_t at) {
      return Isa::template weight<Mantissa>(largest, load<U16>(words + 2 * at));
    };
    const auto some = [&](std::int64_t at) { return at < count ? (visible(at) ? all(at) : U16{}) : U16{}; };
    const auto rest = [&](std::int64_t at) { return at < seen.last ? all(at) : U16{}; };
    const auto step = [&](I32 sum, std::int64_t at, const auto& weights) {
      const U16 low = weights(at), high = weights(at + kRun);
      sum = Isa::add_mass(sum, low, load<U16>(reinterpret_cast<const std::byte*>(mass + at)));
      sum = Isa::add_mass(sum, high, load<U16>(reinterpret_cast<const std::byte*>(mass + at + kRun)));
      Isa::store_weights(p + at * kPBytes, low, high);
      return sum;
    };
    static_assert(fixed16::kPairsPerSum * kRun == 2 * kChunk);
    if (seen.first <= 0) {
      for (; j + 2 * kChunk <= seen.last; j += 2 * kChunk)
        total += L::to_f32(step(step(I32{}, j, all), j + kChunk, all));
      if (j + kChunk <= seen.last) total += L::to_f32(step(I32{}, j, all)), j += kChunk;
      if (j < count && round_up(count, kRun) <= seen.last)
        total += L::to_f32(step(I32{}, j, rest)), j += kChunk;
    }
    for (; j < count; j += kChunk) total += L::to_f32(step(I32{}, j, some));
    return total;
  }

 private:
  struct LargerWords {
    I32 operator()(I32 a, I32 b) const {
      return reinterpret_cast<I32>(Isa::largest_words(reinterpret_cast<U16>(a), reinterpret_cast<U16>(b)));
    }
  };

  struct Extremes {
    float least, largest;
  };
  static Extremes extremes(const float* scales, std::int64_t count) {
    F32 least = L::broadcast(scales[0]), largest = least;
    for (std::int64_t j = 0; j < count; j += Isa::kLanes) {
      const F32 some = lanes_within<Isa>(-j, count - j) ? L::load(scales + j) : L::broadcast(scales[0]);
      least = L::min(some, least), largest = L::max(some, largest);
    }
    return {reduced(least, Smaller{}), reduced(largest, Larger{})};
  }

  template <class V>
  static V load(const std::byte* at) {
    V lanes;
    __builtin_memcpy(&lanes, at, sizeof lanes);
    return lanes;
  }
};

}  // namespace
}  // namespace octet::cpu
