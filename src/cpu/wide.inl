// The softmax of a group of rows in 32-bit lanes, which every scheme has; part of attend.inl's nest.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cpu/table_codes.inl"
#include "cpu/visit.inl"
#include "numerics/ordered_rounding.h"

namespace octet::cpu {
namespace {

template <class S, class Isa>
class WideSoftmax {
  using L = typename Isa::Lane;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = typename S::Acc;
  using Score = typename S::Score;
  using Key = typename S::Key;
  using Step = typename S::Step;
  using View = typename S::View;
  using Group = RowGroup<S, Isa>;
  using ThisVisit = Visit<S, Isa>;
  static constexpr std::int64_t kLanes = Isa::kLanes, kPBytes = kPBytesOf<S, Isa>;
  static constexpr bool kRowLanes = S::kRowLanes;
  /// Whether weights are the instruction set's own, within what the scheme allows.
  static constexpr bool kApproximates = requires {
    S::kWeightError;
    requires Isa::Approximate::kP == S::kP;
  };
  /// Whether hidden keys get the least score, which weighs nothing, instead of being asked for again.
  static constexpr bool kHidesByScores = kApproximates || TableCodes<S, Isa>::kHas;

 public:
  explicit WideSoftmax(const NestContext<S, Isa>& nest)
      : call_(nest.call),
        scheme_(nest.scheme),
        bias_(nest.bias),
        memory_(nest.memory),
        table_codes_(nest.call.prepare) {}

  /// Sums to codes of P, their mass into the group's state.
  void softmax(Group& group, ThisVisit& visit) const {
    if constexpr (kApproximates) {
      approximate(group, visit);
    } else {
      score(group, visit);
      weigh(group, visit);
    }
  }

  /// The largest sum that each row sees; room for as many rows as lanes.
  template <class Number>
  void largest_sums(const ThisVisit& visit, Number* largest) const {
    const Acc rows = visit.compared == visit.high && sees_all(visit)
                         ? rows_reduced<Isa::kRows>(reinterpret_cast<const Acc*>(visit.largest), Larger{})
                         : largest_of_any(visit);
    __builtin_memcpy(largest, &rows, sizeof rows);
  }

 private:
  /// Sums to scores, and what the weights of each row are counted from.
  void score(const Group& group, ThisVisit& visit) const {
    View views[Group::kSets];
    [[maybe_unused]] Element1<Acc> largest[kLanes] = {};
    if constexpr (kRowLanes) views[0] = scheme_.view(group.row[0], visit.block.constants, Acc{});
    if constexpr (S::kUsesRowPeak) largest_sums(visit, largest);
    if constexpr (kRowsTogether<S, Isa>) visit.into.clear();
    Score most[Isa::kRows];
    largest_made(visit, most);
    if constexpr (!kRowLanes)
      for (std::int64_t r = 0; r < visit.live; ++r)
        if (visit.seen >> r & 1) views[r] = scheme_.view(group.row_at(r), visit.block.constants, largest[r]);
    for (std::int64_t r = 0; r < visit.live && visit.low + visit.scored < visit.high; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      const RowKeys<Isa> keys = bias_.keys(r, visit.span(r));
      if constexpr (kRowLanes)
        score_row(visit, r, row_of<L>(views[0], r), keys, most[r]);
      else
        score_row(visit, r, views[r], keys, most[r]);
    }
    const Score peaks = rows_reduced_in_any_order<Isa::kRows>(most, Larger{});
    if constexpr (kRowLanes) {
      visit.step[0] = scheme_.step(group.state[0], peaks, views[0]);
    } else {
      alignas(64) Element1<Score> peak[kLanes];
      __builtin_memcpy(peak, &peaks, sizeof peak);
      for (std::int64_t r = 0; r < visit.live; ++r) {
        if (!(visit.seen >> r & 1)) continue;
        visit.step[r] = scheme_.step(group.state_at(r), peak[r], views[r]);
        if constexpr (kRowsTogether<S, Isa>) visit.into.put(r, scheme_.into(visit.step[r]));
      }
    }
  }

  /// Scores to codes of P, and their mass into the group's state.
  void weigh(Group& group, const ThisVisit& visit) const {
    alignas(64) float mass[kLanes] = {};
    for (std::int64_t r = 0; r < visit.live; ++r) {
      if (!(visit.seen >> r & 1)) continue;
      const RowKeys<Isa> keys = bias_.keys(r, visit.span(r));
      if constexpr (kRowLanes) {
        mass[r] = weigh_row(visit, r, row_of<L>(visit.step[0], r), keys);
      } else {
        const auto sum = weigh_row(visit, r, visit.step[r], keys) + padding(visit, visit.step[r]);
        group.put_state(r, scheme_.absorb(group.state_at(r), visit.step[r], sum));
      }
    }
    clear_unseen(memory_, visit, visit.low);
    if constexpr (kRowLanes) {
      F32 lanes;
      __builtin_memcpy(&lanes, mass, sizeof lanes);
      absorb_lanes(scheme_, group, visit, lanes);
    }
  }

  /// softmax() with the instruction set's own weights: scores are sums times one factor, or with a bias what
  /// score() stores. Each stage takes all rows before the next begins: a row's own stages wait for each
  /// other.
  void approximate(Group& group, ThisVisit& visit) const {
    using Own = typename Isa::Approximate;
    static_assert(Own::kError <= S::kWeightError, "the error bound counts what the scheme says");
    const bool scored = bias_.any();
    const float factor = scored ? 1 : scheme_.octaves;
    const auto sums = [&](std::int64_t r) {
      const std::byte* row = memory_.score + r * memory_.score_row;
      const KeySpan keys = scored ? KeySpan{visit.low, visit.high} : visit.span(r);
      return typename Own::Row{reinterpret_cast<const float*>(row), keys, visit.low, visit.high};
    };
    F32 rows[Isa::kRows];
    if (scored) {
      score(group, visit);
    } else {
      for (std::int64_t r = 0; r < Isa::kRows; ++r)
        rows[r] = visit.seen >> r & 1 ? Own::largest(sums(r)) : F32{};
      const F32 peaks = rows_reduced<Isa::kRows>(rows, Larger{}) * factor;
      visit.step[0] =
          scheme_.step(group.state[0], peaks, scheme_.view(group.row[0], visit.block.constants, Acc{}));
    }
    for (std::int64_t r = 0; r < Isa::kRows; ++r)
      rows[r] = visit.seen >> r & 1 ? Own::weigh(sums(r), factor, lane_of<L>(visit.step[0].origin, r),
                                                 memory_.p + r * memory_.p_row)
                                    : F32{};
    clear_unseen(memory_, visit, visit.low);
    absorb_lanes(scheme_, group, visit, rows_reduced<Isa::kRows>(rows, Plus{}));
  }

  static bool sees_all(const ThisVisit& visit) { return visit.whole && visit.live == Isa::kRows; }

  /// Each row's largest sum of keys that it sees, in whichever form they are.
  __attribute__((noinline)) Acc largest_of_any(const ThisVisit& visit) const {
    Acc lanes[Isa::kRows];
    if (sees_all(visit) && visit.compared > 0)
      largest_of_whole(visit, lanes);
    else
      for (std::int64_t r = 0; r < Isa::kRows; ++r)
        lanes[r] = visit.seen >> r & 1 ? largest_lanes(visit, r) : Acc{};
    return rows_reduced<Isa::kRows>(lanes, Larger{});
  }

  /// largest_lanes() of rows that see all keys.
  void largest_of_whole(const ThisVisit& visit, Acc (&most)[Isa::kRows]) const {
    for (std::int64_t r = 0; r < Isa::kRows; ++r) most[r] = load<Acc>(visit.largest + 4 * kLanes * r);
    for (std::int64_t at = visit.compared; at < visit.high; at += kLanes) {
      const auto there = lanes_within<Isa>(-at, visit.last - at);
      for (std::int64_t r = 0; r < Isa::kRows; ++r) {
        const Acc acc = load<Acc>(memory_.score + r * memory_.score_row + 4 * at);
        most[r] = (there & (acc > most[r])) ? acc : most[r];
      }
    }
  }

  Acc largest_lanes(const ThisVisit& visit, std::int64_t r) const {
    const std::byte* row = memory_.score + r * memory_.score_row;
    const RowKeys<Isa> keys = bias_.keys(r, visit.span(r));
    Acc most = visit.compared > 0 ? load<Acc>(visit.largest + 4 * kLanes * r) : lowest<Acc>();
    if (visit.low + visit.compared >= visit.high) return most;
    for_keys(
        keys, visit.low + visit.compared, visit.high,
        [&](std::int64_t at) {
          const Acc acc = load<Acc>(row + 4 * at);
          most = acc > most ? acc : most;
        },
        [&](std::int64_t at) {
          const Acc acc = load<Acc>(row + 4 * at);
          most = (keys.visible(at) & (acc > most)) ? acc : most;
        });
    return most;
  }

  /// A number a lane, of whatever type the lanes have.
  template <class V>
  using Element1 = std::conditional_t<std::is_same_v<V, F32>, float, std::int32_t>;

  template <class T>
  static T lowest() {
    if constexpr (__is_same(T, F32))
      return L::broadcast(kMinusInfinity);
    else
      return T{} - 2147483647 - 1;
  }

  /// The mass of the keys that the sequence's last block lacks, for a scheme that counts them.
  auto padding(const ThisVisit& visit, const Step& step) const {
    const auto missing = static_cast<std::int32_t>(call_.prepare.key_block - visit.block.keys());
    if constexpr (requires { scheme_.padding_mass(step); })
      return scheme_.padding_mass(step) * missing;
    else
      return 0;
  }

  /// Calls plain(at) for the vectors of keys [low, high) that a row sees wholly, masked(at) for others; for
  /// all of them where its bias hides any key.
  template <class Plain, class Masked>
  static void for_keys(const RowKeys<Isa>& keys, std::int64_t low, std::int64_t high, const Plain& plain,
                       const Masked& masked) {
    std::int64_t full = round_up(keys.span.first, kLanes), past = keys.span.last / kLanes * kLanes;
    if (keys.hides || past <= full) full = past = high;
    std::int64_t at = low;
    for (; at < full; at += kLanes) masked(at);
    for (; at < past; at += kLanes) plain(at);
    for (; at < high; at += kLanes) masked(at);
  }

  /// The largest of the scores that came with the products, in lanes; the least of rows that have none, 0 of
  /// those that see no key.
  void largest_made(const ThisVisit& visit, Score (&most)[Isa::kRows]) const {
    for (std::int64_t r = 0; r < Isa::kRows; ++r) most[r] = visit.seen >> r & 1 ? lowest<Score>() : Score{};
    if constexpr (kScoresOf<S, Isa> || requires { S::kSumsAreScores; }) {
      if (visit.scored == 0) return;
      const std::byte* scores = memory_.score + 4 * visit.low;
      Score found[Isa::kRows];
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < Isa::kRows; ++r) found[r] = load<Score>(scores + r * memory_.score_row);
      for (std::int64_t at = kLanes; at < visit.scored; at += kLanes)
#pragma GCC unroll 16
        for (std::int64_t r = 0; r < Isa::kRows; ++r)
          found[r] = Larger{}(found[r], load<Score>(scores + r * memory_.score_row + 4 * at));
#pragma GCC unroll 16
      for (std::int64_t r = 0; r < Isa::kRows; ++r) most[r] = found[r];
    }
  }

  /// Replaces the row's sums that are no scores yet by these, those of hidden keys by the least where that is
  /// what hides them; the largest visible one of each lane and what is there go to `largest`.
  void score_row(const ThisVisit& visit, std::int64_t r, const View& view, const RowKeys<Isa>& keys,
                 Score& largest) const {
    std::byte* row = memory_.score + r * memory_.score_row;
    const auto no_bias = scheme_.bias(F32{});
    const std::int64_t begin = visit.block.begin;
    Score most = largest;
    for_keys(
        keys, visit.low + visit.scored, visit.high,
        [&](std::int64_t at) {
          const auto bias = keys.bias ? scheme_.bias(keys.bias_at(at)) : no_bias;
          const Score score = scheme_.score(load<Acc>(row + 4 * at), view, key(begin + at), bias);
          most = score > most ? score : most;
          store(row + 4 * at, score);
        },
        [&](std::int64_t at) {
          const I32 mask = keys.visible(at);
          const F32 bias = mask ? keys.bias_at(at) : F32{};
          const Score score =
              scheme_.score(load<Acc>(row + 4 * at), view, key(begin + at), scheme_.bias(bias));
          most = (mask & (score > most)) ? score : most;
          if constexpr (kHidesByScores)
            store(row + 4 * at, mask ? score : lowest<Score>());
          else
            store(row + 4 * at, score);
        });
    largest = most;
  }

  /// Replaces the row's scores by codes of P; returns the mass that the row sum gains.
  auto weigh_row(const ThisVisit& visit, std::int64_t r, const Step& step, const RowKeys<Isa>& keys) const {
    if constexpr (requires(const S& s) { s.with_weights([](const auto&) {}); }) {
      const S own = scheme_;  // for compilers, which a code that is stored might change scheme_
      decltype(weigh_keys(own, visit, r, step, keys)) sum;
      own.with_weights([&](const auto& weights) { sum = weigh_keys(weights, visit, r, step, keys); });
      return sum;
    } else {
      return weigh_keys(scheme_, visit, r, step, keys);
    }
  }

  /// weights: the scheme, or what it calls with_weights() with.
  template <class Weights>
  auto weigh_keys(const Weights& weights, const ThisVisit& visit, std::int64_t r, const Step& step,
                  const RowKeys<Isa>& keys) const {
    using Weight = decltype(weights.weight(Score{}, step));
    using Mass = decltype(weights.mass(Weight{}, weights.code(Weight{}), Key{}));
    const std::byte* row = memory_.score + r * memory_.score_row;
    std::byte* p = memory_.p + r * memory_.p_row;
    const std::int64_t begin = visit.block.begin;
    const float v_largest = call_.head.block_v_largest[visit.block.index];
    constexpr bool kWide = __is_same(typename S::Sum, std::int64_t);
    MassSum<Mass, kWide> sum;
    if constexpr (TableCodes<S, Isa>::kHas)
      if (table_codes_.any())
        return static_cast<float>(table_codes_.look_up(scheme_, step, row + 4 * visit.low,
                                                       visit.high - visit.low, p + kPBytes * visit.low));
    for_keys(
        keys, visit.low, visit.high,
        [&](std::int64_t at) {
          const auto weight = weights.weight(load<Score>(row + 4 * at), step);
          const Key of_keys = key(begin + at);
          const auto code = code_of(weights, weight, of_keys, v_largest);
          sum.add(weights.mass(weight, code, of_keys));
          store_code<S, Isa>(p + kPBytes * at, code);
        },
        [&](std::int64_t at) {
          const I32 mask = keys.visible(at);
          Score score = load<Score>(row + 4 * at);
          // A hidden key may score above the largest visible one, and a table has no entry for that.
          if constexpr (std::is_same_v<Score, F32>) score = mask ? score : lowest<Score>();
          const auto weight = weights.weight(score, step);
          const Key of_keys = key(begin + at);
          const auto code = code_of(weights, weight, of_keys, v_largest);
          const Mass mass = weights.mass(weight, code, of_keys);
          sum.add(mask ? mass : Mass{});
          store_code<S, Isa>(p + kPBytes * at, mask ? code : decltype(code){});
        });
    return sum.total();
  }

  /// Codes of P of a vector of keys, which begins a whole number of vectors from the key block's begin.
  template <class Weights, class Weight>
  static auto code_of(const Weights& weights, const Weight& weight, const Key& of_keys, float v_largest) {
    static constexpr RoundingOffsets<kLanes> kOffsets;
    static_assert(kLanes % kPlaces == 0);
    if constexpr (requires { weights.code(weight, F32{}, of_keys, v_largest); })
      return weights.code(weight, L::load(kOffsets.of), of_keys, v_largest);
    else
      return weights.code(weight);
  }

  /// Lanes of mass; 32-bit integers whose sum may not fit are widened.
  template <class Mass, bool kWide>
  struct MassSum {
    Mass lanes{};
    void add(Mass mass) { lanes += mass; }
    auto total() const { return reduced(lanes, Plus{}); }
  };
  template <class Mass>
  struct MassSum<Mass, true> {
    typename L::I64 lanes{};
    void add(Mass mass) { lanes += L::widen(mass); }
    std::int64_t total() const {
      std::int64_t part[kLanes], sum = 0;
      __builtin_memcpy(part, &lanes, sizeof part);
      for (std::int64_t x : part) sum += x;
      return sum;
    }
  };

  Key key(std::int64_t at) const { return lanes_at<L, Key>(call_.head.keys, call_.head.key_stride, at); }

  const RowsCall& call_;
  const S& scheme_;
  const GroupBias<Isa>& bias_;
  const GroupMemory& memory_;
  [[no_unique_address]] const std::conditional_t<TableCodes<S, Isa>::kHas, TableCodes<S, Isa>, NoTableCodes>
      table_codes_;
};

}  // namespace
}  // namespace octet::cpu
