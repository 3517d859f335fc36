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
    bool fits = call_.head.fixed.blocks[visit.block.index].k_largest > 0 && bias_.ordinary();
    for (std::int64_t r = 0; r < visit.live; ++r)
      fits = fits && S::fits_u16(group.row[r], visit.block.constants);
    return fits;
  }

  /// Sums to codes of P, their mass into the group's state; false: some row's nearest key lies too far for
  /// words, and nothing was changed but words. Each stage takes all rows before the next begins: a row's own
  /// stages wait for each other.
  bool softmax(Group& group, ThisVisit& visit) const {
    const std::int64_t begin = this->first_key(visit), count = this->count(visit);
    const std::byte* level = call_.head.fixed.level + 4 * visit.block.begin + 2 * begin;
    const std::uint16_t* multiplier = call_.head.fixed.mass + visit.block.begin + begin;
    typename S::View views[kRows];
    std::int32_t largest[kLanes], nearest[kLanes], bias[kRows] = {};
    wide_.largest_sums(visit, largest);
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1) views[r] = scheme_.view(group.row[r], visit.block.constants, largest[r]);
    for (std::int64_t r = 0; r < visit.live; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      const std::byte* sums = memory_.score + r * memory_.score_row + 4 * begin;
      if (bias_.any()) {
        bias[r] = scheme_.bias(L::broadcast(bias_.largest(r)))[0];
        Words::distances(sums, views[r], level, count, this->words(r),
                         Words::below(scheme_, bias_.row(r) + begin, bias[r]));
      } else {
        Words::distances(sums, views[r], level, count, this->words(r), Words::unbiased);
      }
    }
    I32 least[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) {
      least[r] = I32{};
      if (!(visit.seen >> r & 1)) continue;
      const KeySpan seen = this->seen(visit, r);
      least[r] = Words::nearest(this->words(r), seen, count, this->visible(seen));
    }
    L::store(nearest, rows_reduced<kRows>(least, Smaller{}));
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1 && nearest[r] > Words::kMostNearest) return false;

    std::int64_t sums[kRows];
    for (std::int64_t r = 0; r < visit.live; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      const KeySpan seen = this->seen(visit, r);
      visit.step[r] = scheme_.step(group.state[r], bias[r] - nearest[r], views[r]);
      sums[r] = Words::weigh(this->words(r), visit.step[r].origin - bias[r], multiplier, seen, count,
                             this->visible(seen), this->codes(visit, r));
    }
    clear_unseen(memory_, visit, begin);
    for (std::int64_t r = 0; r < visit.live; ++r)
      if (visit.seen >> r & 1) group.state[r] = scheme_.absorb(group.state[r], visit.step[r], sums[r]);
    return true;
  }

 private:
  const WideSoftmax<S, Isa> wide_;
};

}  // namespace
}  // namespace octet::cpu
