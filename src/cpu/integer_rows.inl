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
    const std::int64_t begin = this->first_key(visit), count = this->count(visit);
    const std::byte* level = call_.head.fixed.level + 4 * visit.block.begin + 2 * begin;
    const std::uint16_t* multiplier = call_.head.fixed.mass + visit.block.begin + begin;
    const Rows seen = rows_in(visit.seen);
    std::int32_t largest[kLanes];
    wide_.largest_sums(visit, largest);
    const auto views = group.together.views(visit.block.constants);
    const Rows peak = R::load(largest), position = views.position(peak);
    std::int32_t from[R::kWidth], right[R::kWidth], factor[R::kWidth], bias[R::kWidth] = {};
    R::store(from, R::add_i32(peak, views.half));
    R::store(right, views.right);
    R::store(factor, views.multiplier);
    I32 least[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      least[r] = I32{};
      if (!(visit.seen >> r & 1)) continue;
      const std::byte* sums = memory_.score + r * memory_.score_row + 4 * begin;
      const KeySpan keys = this->seen(visit, r);
      const auto distances = [&](const auto& below) {
        return Words::distances(sums, {from[r], right[r], static_cast<std::uint16_t>(factor[r])}, level, keys,
                                count, this->visible(keys), this->words(r), below);
      };
      if (bias_.any()) {
        bias[r] = scheme_.bias(L::broadcast(bias_.largest(r)))[0];
        least[r] = distances(Words::below(scheme_, bias_.row(r) + begin, bias[r]));
      } else {
        least[r] = distances(Words::unbiased);
      }
    }
    const Rows nearest = first_lanes<Rows>(rows_reduced<kRows>(least, Smaller{}));
    if (R::any_i32(seen & R::less_i32(Words::kMostNearest, nearest))) return false;

    const Rows score = R::sub_i32(R::load(bias), nearest);
    const auto steps = scheme_.steps(group.states, R::add_i32(position, score), visit.block.constants);
    std::int32_t reference[R::kWidth];
    R::store(reference, R::add_i32(Words::kAbove, R::sub_i32(nearest, steps.above())));
    typename Words::Mass sums[kRows];
    for (std::int64_t r = 0; r < kRows; ++r)
      sums[r] = visit.seen >> r & 1
                    ? Words::weigh(this->words(r), reference[r], multiplier, count, this->codes(visit, r))
                    : typename Words::Mass{};
    clear_unseen(memory_, visit, begin);
    steps.put_into(visit.into, seen);
    steps.absorb(group.states, totals(sums), seen);
    return true;
  }

 private:
  using R = RowsLane<Isa>;
  using Rows = typename R::I32;

  /// A mask of the rows whose bits are set.
  static Rows rows_in(std::uint32_t rows) {
    Rows bit{};
    for (int i = 0; i < R::kWidth; ++i) R::put_i32(bit, i, static_cast<std::int32_t>(1u << i));
    return R::equal_i32(bit & static_cast<std::int32_t>(rows), bit);
  }

  /// The sums of all lanes of each row: of as many rows at a time as a register has lanes.
  static typename R::I64 totals(const typename Words::Mass* sums) {
    constexpr std::int64_t kShares = (kRows + simd::kLanesOf<typename Words::Mass> - 1) /
                                     simd::kLanesOf<typename Words::Mass>,
                           kShare = kRows / kShares;
    static_assert(kShare * kShares == kRows);
    std::int64_t of_rows[R::kWidth] = {};
    for (std::int64_t r = 0; r < kRows; r += kShare) {
      const auto rows = rows_reduced<kShare>(sums + r, Plus{});
      __builtin_memcpy(of_rows + r, &rows, kShare * sizeof(std::int64_t));
    }
    return R::load(of_rows);
  }

  const WideSoftmax<S, Isa> wide_;
};

}  // namespace
}  // namespace octet::cpu
