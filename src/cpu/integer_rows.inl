// The softmax in words of a group of rows of `integer` (integer_words.inl has a row's); part of attend.inl's
// nest.
#pragma once
#include <cstdint>

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
    std::int32_t largest[kLanes], nearest[kLanes], bias[kRows] = {};
    wide_.largest_sums(visit, largest);
    const GroupViews views(group, visit.block.constants, largest);
    I32 least[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      least[r] = I32{};
      if (!(visit.seen >> r & 1)) continue;
      const std::byte* sums = memory_.score + r * memory_.score_row + 4 * begin;
      const KeySpan seen = this->seen(visit, r);
      const auto distances = [&](const auto& below) {
        return Words::distances(sums, views.of(r), level, seen, count, this->visible(seen), this->words(r),
                                below);
      };
      if (bias_.any()) {
        bias[r] = scheme_.bias(L::broadcast(bias_.largest(r)))[0];
        least[r] = distances(Words::below(scheme_, bias_.row(r) + begin, bias[r]));
      } else {
        least[r] = distances(Words::unbiased);
      }
    }
    L::store(nearest, rows_reduced<kRows>(least, Smaller{}));
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1 && nearest[r] > Words::kMostNearest) return false;

    std::int64_t sums[kRows];
    for (std::int64_t r = 0; r < visit.live; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      visit.step[r] = scheme_.step(group.state[r], bias[r] - nearest[r], views.of(r));
      sums[r] = Words::weigh(this->words(r), visit.step[r].origin - bias[r], multiplier, count,
                             this->codes(visit, r));
    }
    clear_unseen(memory_, visit, begin);
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1) group.state[r] = scheme_.absorb(group.state[r], visit.step[r], sums[r]);
    return true;
  }

 private:
  /// Views of the group's rows, made in lanes.
  class GroupViews {
    using R = RowsLane<Isa>;

   public:
    GroupViews(const Group& group, const typename S::Block& block, const std::int32_t* largest)
        : v_exponent_(block.v_exponent) {
      const auto views = group.together.views(block);
      const typename R::I32 peak = R::load(largest);
      R::store(peak_, peak);
      R::store(multiplier_, views.multiplier);
      R::store(half_, views.half);
      R::store(right_, views.right);
      R::store(position_, views.position(peak));
    }
    typename S::View of(std::int64_t r) const {
      return {peak_[r],
              static_cast<std::uint32_t>(multiplier_[r]) << 16,
              S::kFar,
              half_[r],
              static_cast<std::uint32_t>(right_[r]),
              0,
              position_[r],
              v_exponent_};
    }

   private:
    std::int32_t peak_[R::kWidth], multiplier_[R::kWidth], half_[R::kWidth], right_[R::kWidth],
        position_[R::kWidth];
    std::int32_t v_exponent_;
  };

  const WideSoftmax<S, Isa> wide_;
};

}  // namespace
}  // namespace octet::cpu
