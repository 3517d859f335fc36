// The softmax in words of a group of rows of `integer` (integer_words.inl has a row's); part of attend.inl's
// nest.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cpu/integer_words.inl"
#include "cpu/visit.inl"
#include "cpu/wide.inl"
#include "cpu/word_rows.inl"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class IntegerRows : public WordRows<S, Isa> {
  using Base = WordRows<S, Isa>;
  using L = typename Isa::Lane;
  using I32 = typename L::I32;
  using Group = RowGroup<S, Isa>;
  using ThisVisit = Visit<S, Isa>;
  using Words = IntegerWords<S, Isa>;
  using Base::bias_, Base::call_, Base::memory_, Base::scheme_;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;

 public:
  explicit IntegerRows(const NestContext<S, Isa>& nest) : Base(nest), wide_(nest) {}

  /// Whether 16 bits are enough for the group's rows, as far as their scales say.
  bool fits(const Group& group, const ThisVisit& visit) const {
    return call_.head.fixed.blocks[visit.block.index].k_largest > 0 && bias_.ordinary() &&
           group.together.fit_u16(visit.block.constants);
  }

  /// Sums to codes of P, their mass into the group's state; false: some row's nearest key lies too far for
  /// words, and nothing was changed but words. Each stage takes all rows before the next begins: a row's own
  /// stages wait for each other.
  bool softmax(Group& group, ThisVisit& visit) const {
    const Rows seen = rows_in(visit.seen);
    const bool whole = visit.whole && visit.live == kRows;
    std::int32_t largest[kLanes];
    wide_.largest_sums(visit, largest);
    const auto views = group.together.views(visit.block.constants);
    const Rows peak = R::load(largest), position = views.position(peak);
    RowViews of_rows;
    R::store(of_rows.from, R::add_i32(peak, views.half));
    R::store(of_rows.right, views.right);
    R::store(of_rows.factor, views.multiplier);
    std::int32_t bias[R::kWidth] = {};
    const Rows nearest = whole ? distances_of_whole(visit, of_rows) : distances(visit, of_rows, bias);
    if (R::any_i32(seen & R::less_i32(Words::kMostNearest, nearest))) return false;

    const Rows score = R::sub_i32(R::load(bias), nearest);
    const auto steps = scheme_.steps(group.states, R::add_i32(position, score), visit.block.constants);
    std::int32_t reference[R::kWidth];
    R::store(reference, R::add_i32(Words::kAbove, R::sub_i32(nearest, steps.above())));
    steps.put_into(visit.into, seen);
    steps.absorb(group.states, whole ? weigh_whole(visit, reference) : weigh(visit, reference), seen);
    return true;
  }

 private:
  using R = RowsLane<Isa>;
  using Rows = typename R::I32;
  using Mass = typename Words::Mass;

  /// What the rows' distances are made of: IntegerWords::RowView.
  struct RowViews {
    std::int32_t from[R::kWidth], right[R::kWidth], factor[R::kWidth];

    typename Words::RowView of(std::int64_t r) const {
      return {simd::fill<I32>(from[r]), right[r],
              simd::fill<typename Words::U16>(static_cast<std::uint16_t>(factor[r]))};
    }
  };

  const std::byte* level(const ThisVisit& visit) const {
    return call_.head.fixed.level + 4 * visit.block.begin + 2 * this->first_key(visit);
  }
  const std::byte* multiplier(const ThisVisit& visit) const {
    return reinterpret_cast<const std::byte*>(call_.head.fixed.mass + visit.block.begin +
                                              this->first_key(visit));
  }

  /// Sums to distances in words; returns z of each row's nearest key. bias: each row's largest.
  Rows distances(const ThisVisit& visit, const RowViews& views, std::int32_t* bias) const {
    const std::int64_t begin = this->first_key(visit), count = this->count(visit);
    I32 least[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      least[r] = I32{};
      if (!(visit.seen >> r & 1)) continue;
      const KeySpan keys = this->seen(visit, r);
      const auto distances = [&](const auto& below) {
        return Words::distances(memory_.score + r * memory_.score_row + 4 * begin, views.of(r), level(visit),
                                keys, count, this->visible(keys), this->words(r), below);
      };
      if (bias_.any()) {
        bias[r] = scheme_.bias(L::broadcast(bias_.largest(r)))[0];
        least[r] = distances(Words::below(scheme_, bias_.row(r) + begin, bias[r]));
      } else {
        least[r] = distances(Words::unbiased);
      }
    }
    return nearest(least);
  }
  static Rows nearest(const I32* least) {
    return Words::nearest(first_lanes<Rows>(rows_reduced<kRows>(least, typename Words::SmallerWords{})));
  }

  /// Words to codes of P; returns the rows' masses.
  typename R::I64 weigh(const ThisVisit& visit, const std::int32_t* reference) const {
    const std::int64_t runs = (this->count(visit) + Base::kRun - 1) / Base::kRun;
    Mass sums[kRows];
    for (std::int64_t r = 0; r < kRows; ++r)
      sums[r] = visit.seen >> r & 1 ? Words::weigh(this->words(r), reference[r], multiplier(visit), runs,
                                                   this->codes(visit, r))
                                    : Mass{};
    clear_unseen(memory_, visit, this->first_key(visit));
    return totals(sums);
  }

  // The same of rows that see all keys of the block, without a bias.
  // note: apart, for what a row chooses takes as long as its distances from 128 keys.

  Rows distances_of_whole(const ThisVisit& visit, const RowViews& views) const {
    const std::byte* const level = call_.head.fixed.level + 4 * visit.block.begin;
    const std::int64_t runs = (visit.block.keys() + Base::kRun - 1) / Base::kRun;
    const GroupMemory memory = memory_;
    I32 least[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      stay_awake<Isa>(r, visit.block.keys());
      least[r] = Words::distances_of_whole(memory.score + r * memory.score_row, views.of(r), level, runs,
                                           memory.words + r * memory.words_row);
    }
    return nearest(least);
  }
  typename R::I64 weigh_whole(const ThisVisit& visit, const std::int32_t* reference) const {
    const auto* const mass = reinterpret_cast<const std::byte*>(call_.head.fixed.mass + visit.block.begin);
    const std::int64_t runs = (visit.block.keys() + Base::kRun - 1) / Base::kRun;
    const GroupMemory memory = memory_;
    Mass sums[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      stay_awake<Isa>(r, visit.block.keys());
      sums[r] = Words::weigh(memory.words + r * memory.words_row, reference[r], mass, runs,
                             memory.p + r * memory.p_row);
    }
    return totals(sums);
  }

  /// A mask of the rows whose bits are set.
  static Rows rows_in(std::uint32_t rows) {
    Rows bit{};
    for (int i = 0; i < R::kWidth; ++i) R::put_i32(bit, i, static_cast<std::int32_t>(1u << i));
    return R::equal_i32(bit & static_cast<std::int32_t>(rows), bit);
  }

  /// The sums of all lanes of each row: of as many rows at a time as a register has lanes.
  static typename R::I64 totals(const Mass* sums) {
    constexpr std::int64_t kShare = simd::kLanesOf<Mass>, kRest = kRows % kShare;
    alignas(64) std::int64_t of_rows[R::kWidth] = {};
    for (std::int64_t r = 0; r + kShare <= kRows; r += kShare)
      store(reinterpret_cast<std::byte*>(of_rows + r), rows_reduced<kShare>(sums + r, Plus{}));
    if constexpr (kRest > 0)
      store(reinterpret_cast<std::byte*>(of_rows + kRows - kRest),
            rows_reduced<kRest>(sums + kRows - kRest, Plus{}));
    return R::load(of_rows);
  }

  const WideSoftmax<S, Isa> wide_;
};

}  // namespace
}  // namespace octet::cpu
