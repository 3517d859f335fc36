// One query row through the contract of a scheme, on made-up accumulators: everything that a scheme computes,
// without the products. The same text runs on the host and on a GPU, and must give the same bits.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "lanes/scalar.h"
#include "numerics/contract.h"

namespace octet::trace {

inline constexpr int kBlock = 32;                                ///< keys a block
inline constexpr int kBlocks = 5;                                ///< blocks a row: the running maximum moves
inline constexpr int kChannels = 4;                              ///< channels of the output that are followed
inline constexpr int kWords = kBlock * kBlocks + kChannels + 2;  ///< codes, outputs, their scale, LSE

/// A counter-based generator: the same numbers on host and device. splitmix64's finaliser (Steele, Lea and
/// Flood 2014).
OCTET_HD std::uint32_t random_word(std::uint64_t seed, std::uint32_t index) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ull + index;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}
OCTET_HD float random_unit(std::uint64_t seed, std::uint32_t index) {
  return static_cast<float>(random_word(seed, index) >> 8) * (1.0f / 16777216.0f);
}

OCTET_HD std::uint32_t word_of(float x) { return bits_of(x); }
OCTET_HD std::uint32_t word_of(std::int32_t x) { return as_unsigned(x); }
OCTET_HD std::uint32_t word_of(std::uint8_t x) { return x; }
OCTET_HD std::uint32_t word_of(std::int8_t x) { return as_unsigned(std::int32_t{x}); }

/// Accumulator of key j: as a product of 8-bit codes would give at d = 64, or N(0,1)-like numbers for float
/// operands.
template <class S>
OCTET_HD typename S::Acc made_up_acc(std::uint64_t seed, std::uint32_t j) {
  const float centred = random_unit(seed, 3 * j) + random_unit(seed, 3 * j + 1) - 1.0f;
  if constexpr (is_float(S::kQk)) {
    return centred * 30.0f;
  } else {
    return static_cast<std::int32_t>(centred * 200000.0f);
  }
}

/// Writes kWords words for one row. options choose nothing: the scheme's defaults.
template <class S>
OCTET_HD void trace_row(const S& scheme, std::uint64_t seed, std::uint32_t* words) {
  const typename S::Row row = scheme.row(0.02f + 0.01f * random_unit(seed, 900001));
  typename S::State state{};
  typename S::Out out[kChannels]{};
  typename S::Channel unit = scheme.channel({});
  for (int b = 0; b < kBlocks; ++b) {
    const float k_scale = 0.01f + 0.02f * random_unit(seed, 900100 + b);
    const typename S::Block block = scheme.block(k_scale);
    typename S::Acc acc[kBlock];
    typename S::Score score[kBlock];
    typename S::Key key[kBlock];
    for (int j = 0; j < kBlock; ++j) {
      const std::uint32_t at = static_cast<std::uint32_t>(b * kBlock + j);
      acc[j] = made_up_acc<S>(seed, at);
      // A power of two, for `integer` takes no other scale of V.
      key[j] =
          scheme.key({k_scale, power_of_two(-static_cast<int>(random_word(seed, 700000 + at) % 6))}, block);
    }
    typename S::Acc row_peak = acc[0];
    for (int j = 1; j < kBlock; ++j) row_peak = acc[j] > row_peak ? acc[j] : row_peak;
    const typename S::View view = scheme.view(row, block, row_peak);
    for (int j = 0; j < kBlock; ++j)
      score[j] = scheme.score(acc[j], view, key[j], scheme.bias(0.25f * static_cast<float>(j % 3)));
    typename S::Score peak = score[0];
    for (int j = 1; j < kBlock; ++j) peak = score[j] > peak ? score[j] : peak;
    const typename S::Step step = scheme.step(state, peak, view);
    typename S::Sum sum{};
    typename S::PvAcc pv[kChannels]{};
    for (int j = 0; j < kBlock; ++j) {
      const auto weight = scheme.weight(score[j], step);
      const auto code = scheme.code(weight);
      sum += scheme.mass(weight, code, key[j]);
      words[b * kBlock + j] = word_of(code);
      for (int c = 0; c < kChannels; ++c) {
        const std::int32_t v =
            static_cast<std::int32_t>(random_word(seed, 500000 + 4 * (b * kBlock + j) + c) % 255u) - 127;
        pv[c] += static_cast<typename S::PvAcc>(code) * static_cast<typename S::PvAcc>(v);
      }
    }
    for (int c = 0; c < kChannels; ++c) scheme.fold(out[c], pv[c], step, unit);
    state = scheme.absorb(state, step, sum);
  }
  const auto finished = [&](int c) {
    return scheme.finish(out[c], state, row, scheme.channel({1.0f, c - 1}));
  };
  std::uint32_t* ends = words + kBlock * kBlocks;
  ends[kChannels] = 0;
  if constexpr (S::kOutput == Output::row_scale) {
    typename S::Wide peak = finished(0);
    for (int c = 1; c < kChannels; ++c) peak = scheme.larger(peak, finished(c));
    const typename S::Ending ending = scheme.ending(state, row, peak);
    for (int c = 0; c < kChannels; ++c) ends[c] = word_of(scheme.output_code(finished(c), ending));
    ends[kChannels] = word_of(scheme.output_scale(ending));
  } else {
    for (int c = 0; c < kChannels; ++c) ends[c] = word_of(finished(c));
  }
  ends[kChannels + 1] = word_of(scheme.lse(state, row));
}

}  // namespace octet::trace
