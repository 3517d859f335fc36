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
  using Mass = typename Words::Mass;
  using R = RowsLane<Isa>;
  using Rows = typename R::I32;
  using Base::bias_, Base::call_, Base::memory_, Base::scheme_;
  static constexpr std::int64_t kLanes = Isa::kLanes, kRows = Isa::kRows;

 public:
  explicit IntegerRows(const NestContext<S, Isa>& nest) : Base(nest), wide_(nest) {}

  /// Whether 16 bits are enough for the group's rows, as far as their scales say.
  bool fits(const Group& group, const ThisVisit& visit) const {
    return call_.head.fixed.blocks[visit.block.index].k_largest > 0 && bias_.ordinary() &&
           group.together.fit_u16(visit.block.constants);
  }

  /// What the rows' distances are made of: IntegerWords::RowView.
  struct RowViews {
    std::int32_t from[R::kWidth], right[R::kWidth], factor[R::kWidth];

    typename Words::RowView of(std::int64_t r) const {
      return {simd::fill<I32>(from[r]), right[r],
              simd::fill<typename Words::U16>(static_cast<std::uint16_t>(factor[r]))};
    }
  };

  /// What the distances of the group's rows are made of, and what their weights are counted from.
  struct Referred {
    RowViews views;
    Rows position;                      ///< of the largest sums
    std::int32_t reference[R::kWidth];  ///< in words: IntegerWords::weigh()
    integer::Steps<R> steps;
  };

  /// Sums to codes of P, their mass into the group's state; false: some row's nearest key lies too far for
  /// words, and nothing was changed but words. Each stage takes all rows before the next begins: a row's own
  /// stages wait for each other.
  bool softmax(Group& group, ThisVisit& visit) const {
    Referred referred;
    view(group, visit, referred);
    std::int32_t bias[R::kWidth] = {};
    const bool whole = sees_all(visit);
    const Rows nearest =
        whole ? distances_of_whole(visit, referred.views) : distances(visit, referred.views, bias);
    if (R::any_i32(rows_in(visit.seen) & R::less_i32(Words::kMostNearest, nearest))) return false;
    refer(group, visit, nearest, R::load(bias), referred);
    const auto* reference = referred.reference;
    const auto masses = whole ? weigh_whole(visit, reference) : weigh(visit, reference);
    referred.steps.absorb(group.states, masses, rows_in(visit.seen));
    return true;
  }

  // The stages of rows that see all keys, whose distances and weights come beside products of other rows.

  /// Whether every row but padding sees all keys of the block. Padding rows are computed as the others are:
  /// what they leave nobody reads.
  static bool sees_all(const ThisVisit& visit) { return visit.whole && !few_rows(visit); }

  void view(const Group& group, const ThisVisit& visit, Referred& referred) const {
    std::int32_t largest[kLanes];
    wide_.largest_sums(visit, largest);
    const auto views = group.together.views(visit.block.constants);
    const Rows peak = R::load(largest);
    referred.position = views.position(peak);
    R::store(referred.views.from, R::add_i32(peak, views.half));
    R::store(referred.views.right, views.right);
    R::store(referred.views.factor, views.multiplier);
  }

  struct Least {
    alignas(64) I32 of[kRows];
  };
  TileDistances distances_beside(const ThisVisit& visit, const Referred& referred, Least& least) const {
    static_assert(sizeof referred.views == 3 * TileDistances::kRows * sizeof(std::int32_t));
    return {memory_.score,
            call_.head.fixed.level + 4 * visit.block.begin,
            reinterpret_cast<const std::byte*>(&referred.views),
            memory_.words,
            memory_.words_row,
            reinterpret_cast<std::byte*>(least.of),
            visit.block.keys() / TileDistances::kKeys};
  }
  /// The distances of keys behind so many chunks, and references. note: without a bias the nearest key is the
  /// one of the largest sum or nearer, eight octaves away at most (IntegerScheme::fits_u16): words reach it.
  void refer_rest(const Group& group, ThisVisit& visit, std::int64_t chunks, Least& least,
                  Referred& referred) const {
    const std::int64_t first = chunks * TileDistances::kKeys;
    if (first < visit.block.keys()) distances_from(visit, referred.views, first, least.of);
    refer(group, visit, nearest(least.of), Rows{}, referred);
  }

  struct Masses {
    alignas(64) Mass of[kRows];
  };
  TileWeights weights_beside(const ThisVisit& visit, const Referred& referred, Masses& masses) const {
    static_assert(S::kUnitBits == TileWeights::kUnitBits);
    return {memory_.words,
            memory_.words_row,
            referred.reference,
            multiplier(visit),
            memory_.p,
            memory_.p_row,
            reinterpret_cast<std::byte*>(masses.of),
            visit.block.keys() / TileWeights::kKeys};
  }
  /// The weights of keys behind so many chunks, and the rows' masses into the group's state.
  void weigh_rest(Group& group, const ThisVisit& visit, std::int64_t chunks, Masses& masses,
                  const Referred& referred) const {
    const std::int64_t first = chunks * TileWeights::kKeys;
    if (first < visit.block.keys()) weigh_from(visit, referred.reference, first, masses);
    referred.steps.absorb(group.states, totals(masses.of), rows_in(visit.seen));
  }

 private:
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
    Least least;
    distances_from(visit, views, 0, least.of);
    return nearest(least.of);
  }
  /// Of keys from `first` on; least: where it is not 0, the least words of the keys before.
  /// note: not inlined, for the code between products is no more than the processor keeps decoded.
  __attribute__((noinline)) void distances_from(const ThisVisit& visit, const RowViews& views,
                                                std::int64_t first, I32* least) const {
    const std::byte* const level = call_.head.fixed.level + 4 * visit.block.begin + 2 * first;
    const std::int64_t runs = (visit.block.keys() - first + Base::kRun - 1) / Base::kRun;
    const GroupMemory memory = memory_;
    for (std::int64_t r = 0; r < kRows; ++r) {
      stay_awake<Isa>(r, visit.block.keys());
      least[r] = Words::distances_of_whole(memory.score + r * memory.score_row + 4 * first, views.of(r),
                                           level, runs, memory.words + r * memory.words_row + 2 * first,
                                           first > 0 ? least[r] : Words::farthest());
    }
  }
  typename R::I64 weigh_whole(const ThisVisit& visit, const std::int32_t* reference) const {
    Masses masses;
    weigh_from(visit, reference, 0, masses);
    return totals(masses.of);
  }
  /// Codes of P and masses of keys from `first` on; masses: where it is not 0, those of the keys before.
  /// note: not inlined, as distances_from().
  __attribute__((noinline)) void weigh_from(const ThisVisit& visit, const std::int32_t* reference,
                                            std::int64_t first, Masses& masses) const {
    const std::int64_t runs = (visit.block.keys() - first + Base::kRun - 1) / Base::kRun;
    const std::byte* const of_keys = multiplier(visit) + 2 * first;
    const GroupMemory memory = memory_;
    for (std::int64_t r = 0; r < kRows; ++r) {
      stay_awake<Isa>(r, visit.block.keys());
      const std::byte* const words = memory.words + r * memory.words_row + 2 * first;
      std::byte* const p = memory.p + r * memory.p_row + kPBytesOf<S, Isa> * first;
      const Mass mass = runs == 1 ? Words::weigh_run(words, reference[r], of_keys, p, I32{})
                                  : Words::weigh(words, reference[r], of_keys, runs, p);
      masses.of[r] = first > 0 ? masses.of[r] + mass : mass;
    }
  }

  /// References of the rows, from z of their nearest keys and their largest bias.
  void refer(const Group& group, ThisVisit& visit, Rows nearest, Rows bias, Referred& referred) const {
    const Rows largest = R::add_i32(referred.position, R::sub_i32(bias, nearest));
    referred.steps = scheme_.steps(group.states, largest, visit.block.constants);
    R::store(referred.reference, R::add_i32(Words::kAbove, R::sub_i32(nearest, referred.steps.above())));
    referred.steps.put_into(visit.into, rows_in(visit.seen));
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
