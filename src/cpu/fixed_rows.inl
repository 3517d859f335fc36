// The softmax in words of a group of rows (fixed.inl has a row's), for schemes that have a 16-bit form; part
// of attend.inl's nest.
#pragma once
#include <cstdint>

#include "base/ask_for.h"
#include "cpu/fixed.inl"
#include "cpu/visit.inl"
#include "cpu/word_rows.inl"
#include "numerics/fixed16.h"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class FixedRows : public WordRows<S, Isa> {
  using Base = WordRows<S, Isa>;
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = typename S::Acc;
  using Group = RowGroup<S, Isa>;
  using ThisVisit = Visit<S, Isa>;
  using Fixed = FixedSoftmax<S, Isa>;
  using Base::bias_, Base::call_, Base::memory_, Base::scheme_;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;

 public:
  explicit FixedRows(const NestContext<S, Isa>& nest) : Base(nest) {}

  /// Whether every score of the group in this block lies in the range of the form.
  bool fits(const Group& group, const ThisVisit& visit) const {
    const FixedBlock& block = constants(visit);
    return block.k_largest > 0 && group.reach * block.k_largest < fixed16::kReach && bias_.ordinary();
  }

  /// Asks for the constants of the block's keys, which come from memory as K and V do.
  void fetch_constants(const ThisVisit& visit) const {
    const std::int64_t begin = visit.block.begin, keys = visit.block.keys();
    const auto fetch = [&](const void* from, std::int64_t bytes) {
      if (call_.ahead.near())
        ask_for<Nearness::first_level>(from, 0, bytes);
      else
        ask_for(from, 0, bytes);
    };
    fetch(call_.head.fixed.level + 4 * begin, 4 * keys);
    fetch(call_.head.fixed.mass + begin, 2 * keys);
    if (constants(visit).k_one_scale == 0) fetch(call_.head.keys + begin, 4 * keys);
  }

  /// What the tiles of Q K^T need to end in words, from key visit.low on, where no row has a bias. factor:
  /// room for kLanes.
  TileWords tile_words(const Group& group, const ThisVisit& visit, float* factor) const {
    L::store(factor, word_factors(group, visit));
    return {factor, word_scales(visit, visit.low), levels(visit, visit.low), memory_.words,
            memory_.words_row};
  }

  /// Sums, but for those that are words already, to codes of P, their mass into the group's state; true: all
  /// of them fit. Each stage takes all rows before the next begins: a row's own stages wait for each other.
  /// note: not inlined. Within a visit gcc 12 keeps pointers of the rows' loops in vector registers, and
  /// 197 keys took 3 % longer (Zen 4). At a cache line, for 48 bytes behind one blocks of 128 keys took 3 %
  /// longer (Zen 5).
  __attribute__((noinline, aligned(64))) bool softmax(Group& group, ThisVisit& visit) const {
    make_words(group, visit);
    I32 peaks;
    F32 sums[kRows];
    if (sees_all(visit))
      peaks = weigh_whole(visit, sums);
    else
      peaks = weigh(visit, sums);

    const FixedBlock& block = constants(visit);
    F32 octaves = (L::to_f32(peaks) - fixed16::kWordOffset) * (1 / fixed16::kUnits) + block.reference;
    if (bias_.any()) octaves += bias_octaves(visit);
    if (visit.before == 0)
      visit.step[0] = scheme_.first_step(octaves);
    else
      visit.step[0] =
          scheme_.step(group.state[0], octaves, scheme_.view(group.row[0], visit.block.constants, Acc{}));
    absorb_lanes(scheme_, group, visit, block.mass_unit * rows_reduced<kRows>(sums, Plus{}));
    return true;
  }

 private:
  /// Whether every row has words of all keys: with a bias, whose hidden keys have words of weight 0, rows
  /// that see any.
  bool sees_all(const ThisVisit& visit) const {
    constexpr std::uint32_t kAll = (1u << kRows) - 1;
    return visit.live == kRows && (visit.whole || (bias_.any() && visit.seen == kAll));
  }

  /// Codes of P of rows that have words of all keys, and their sums of w r; returns their largest words.
  /// note: apart from weigh(), whose choices for each row and run take as long as the weights of 128 keys.
  I32 weigh_whole(const ThisVisit& visit, F32 (&sums)[kRows]) const {
    const typename Fixed::WholeRows rows{memory_.words, memory_.words_row, this->codes(visit, 0),
                                         memory_.p_row};
    const std::int64_t runs = (this->count(visit) + Base::kRun - 1) / Base::kRun;
    I32 largest[kRows];
    Fixed::template largest_of_whole<kRows>(rows, runs, largest);
    const I32 peaks = Fixed::template largest_of_rows<kRows>(largest);
    alignas(64) std::int32_t peak[kLanes];
    __builtin_memcpy(peak, &peaks, sizeof peak);
    const std::uint16_t* mass = call_.head.fixed.mass + visit.block.begin + this->first_key(visit);
    Fixed::template weigh_whole<kRows>(rows, peak, mass, runs, sums);
    return peaks;
  }

  /// The same of any rows.
  I32 weigh(const ThisVisit& visit, F32 (&sums)[kRows]) const {
    const std::int64_t count = this->count(visit);
    I32 largest[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      const KeySpan seen = visit.seen >> r & 1 ? this->seen(visit, r) : KeySpan{};
      largest[r] = Fixed::largest(this->words(r), seen, visit.seen >> r & 1 ? count : 0, this->visible(seen));
    }
    const I32 peaks = Fixed::template largest_of_rows<kRows>(largest);
    alignas(64) std::int32_t peak[kLanes];
    __builtin_memcpy(peak, &peaks, sizeof peak);

    const std::uint16_t* mass = call_.head.fixed.mass + visit.block.begin + this->first_key(visit);
    for (std::int64_t r = 0; r < kRows; ++r) {
      sums[r] = F32{};
      if (!(visit.seen >> r & 1)) continue;
      const KeySpan seen = this->seen(visit, r);
      sums[r] = Fixed::weigh(this->words(r), peak[r], mass, seen, count, this->visible(seen),
                             this->codes(visit, r));
    }
    clear_unseen(memory_, visit, this->first_key(visit));
    return peaks;
  }

  const FixedBlock& constants(const ThisVisit& visit) const {
    return call_.head.fixed.blocks[visit.block.index];
  }

  void make_words(const Group& group, const ThisVisit& visit) const {
    const std::int64_t at = this->first_key(visit) + visit.words_made, end = this->end_key(visit);
    const float* const of_keys = levels(visit, at);
    const F32 factors = word_factors(group, visit);
    for (std::int64_t r = 0; r < visit.live && at < end; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      const auto score = [&](const auto& level) {
        Fixed::score(memory_.score + r * memory_.score_row + 4 * at, word_scales(visit, at),
                     lane_of<L>(factors, r), level, end - at, this->words(r) + 2 * visit.words_made);
      };
      if (bias_.any())
        // How far a key lies below the row's largest bounds the words whatever is added to the scores.
        score([&, below = bias_.below_largest(r, at, kLog2E * fixed16::kUnits)](std::int64_t j) {
          return L::load(of_keys + j) + below(j);
        });
      else
        score([&](std::int64_t j) { return L::load(of_keys + j); });
    }
  }

  /// Units of a word in a unit of each row's sums, K's scale in it where the block's keys share one; else the
  /// scales are word_scales().
  F32 word_factors(const Group& group, const ThisVisit& visit) const {
    const float one_k = constants(visit).k_one_scale;
    return group.row[0].octaves * fixed16::kUnits * (one_k > 0 ? one_k : 1.0f);
  }
  const float* word_scales(const ThisVisit& visit, std::int64_t at) const {
    return constants(visit).k_one_scale > 0 ? nullptr : call_.head.keys + visit.block.begin + at;
  }

  /// Levels of the block's keys from `begin` on.
  const float* levels(const ThisVisit& visit, std::int64_t begin) const {
    return reinterpret_cast<const float*>(call_.head.fixed.level) + visit.block.begin + begin;
  }

  /// What words were counted from: each row's largest bias.
  F32 bias_octaves(const ThisVisit& visit) const {
    alignas(64) float largest[kLanes] = {};
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1) largest[r] = bias_.largest(r) * kLog2E;
    return L::load(largest);
  }
};

}  // namespace
}  // namespace octet::cpu
