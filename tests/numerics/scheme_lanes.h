// Every function of a scheme in lanes against the same function on one value, over random and extreme inputs:
// what a kernel calls, in the order in which it does. Compiled once for each instruction set
// (tests/lanes/lane_check.h).
#pragma once
#include <type_traits>

#include "fused_schemes.h"
#include "numerics/contract.h"
#include "numerics/exp_table.h"
#include "numerics/ordered_rounding.h"
#include "tests/lanes/lane_check.h"

namespace octet::lane_check {
namespace {

inline constexpr int kFewTableBits = 5, kTableBits = 7;  ///< looked up in registers, and gathered
inline constexpr int kTableEntries = static_cast<int>(linear_table_entries(kTableBits));
inline constexpr int kVariants = 12;  ///< every value of every option at least twice
inline constexpr int kTrials = 60;
inline constexpr int kBlocks = 4;  ///< of a trial, one after another

/// The largest sum of products of 8-bit codes that schemes are made for: 127 * 127 * 256, rounded up.
inline constexpr std::int32_t kMostAcc = 1 << 22;

template <template <class> class SchemeOf, class L>
class SchemeCheck {
  using S = SchemeOf<L>;
  using One = SchemeOf<ScalarLane>;
  static constexpr int kLanes = L::kWidth;

 public:
  SchemeCheck(Report& report, const char* name) : report_(report), name_(name) {}

  void run() {
    float table[kTableEntries];
    for (int variant = 0; variant < kVariants; ++variant) {
      Prepare p = call(variant);
      p.table = table;
      if constexpr (requires { &One::fill_table; }) One::fill_table(p.options, table);
      const S lanes = S::prepare(p);
      const One one = One::prepare(p);
      for (int trial = 0; trial < kTrials; ++trial) {
        if constexpr (S::kRowLanes)
          float_rows(lanes, one);
        else
          integer_row(lanes, one), rows_together(one);
      }
    }
  }

 private:
  Prepare call(int variant) {
    Prepare p;
    p.softmax_scale = 0.125f;
    p.head_dim = 64;
    p.q_scale = plausible_scale(), p.k_scale = plausible_scale(), p.v_scale = plausible_scale();
    p.options.table = static_cast<SchemeOptions::Table>(variant % 3);
    p.options.table_bits = variant < kVariants / 2 ? kFewTableBits : kTableBits;
    p.options.row_sum = static_cast<SchemeOptions::RowSum>(variant % 2);
    p.options.quotient = static_cast<SchemeOptions::Quotient>(variant / 2 % 2);
    p.options.rescale = static_cast<SchemeOptions::Rescale>(variant / 4 % 2);
    return p;
  }

  // --- Inputs.

  /// 2^-14...2^2.
  float plausible_scale() {
    return power_of_two(static_cast<int>(random_.below(16)) - 14) *
           (1.0f + static_cast<float>(random_.below(1 << 20)) / (1 << 20));
  }
  /// Any float for a float scheme; an integer one promises nothing for scales that are negative or no
  /// numbers.
  float scale() {
    if (random_.below(4) != 0) return plausible_scale();
    float x = 0;
    draw(random_, x);
    if (S::kRowLanes) return x;
    return x > 0 && x < float_of(kF32Inf) ? x : 0.0f;
  }
  /// V's scale as integer schemes have it too: on the grid of 16 / g.
  float v_scale() {
    if (S::kRowLanes) return scale();
    // Now and then one that is not on the grid of `integer`, and none.
    if (random_.below(64) == 0) return random_.below(2) == 0 ? 0.0f : 0.97f;
    return power_of_two(-static_cast<int>(random_.below(12))) * 16.0f /
           static_cast<float>(16 + random_.below(16));
  }
  float bias() {
    constexpr float kSome[] = {0.0f, -0.0f, 1.5f, -99.5f, -101.0f, 3e38f, -3e38f};
    return random_.below(2) == 0 ? 0.0f : kSome[random_.below(7)];
  }
  std::int32_t acc(std::int32_t) {
    const std::int32_t any = static_cast<std::int32_t>(random_.below(2 * kMostAcc + 1)) - kMostAcc;
    return any >> random_.below(20);
  }
  float acc(float) {
    float x = 0;
    if (random_.below(8) == 0)
      draw(random_, x);
    else
      x = 0.001f * static_cast<float>(acc(std::int32_t{}) >> 6);
    return x;
  }

  // --- Structs of lanes: each member is kLanes values of four bytes.

  template <class T>
  static constexpr int kMembers = std::is_empty_v<T> ? 0 : static_cast<int>(sizeof(T)) / 4;

  template <class V, class O>
  static V in_lanes(const O* ones) {
    V lanes{};
    if constexpr (kMembers<O> != 0) {
      static_assert(sizeof(V) == kLanes * sizeof(O), "members that are not four bytes a lane");
      std::uint32_t words[kMembers<O>][kLanes];
      for (int i = 0; i < kLanes; ++i) {
        std::uint32_t one[kMembers<O>];
        std::memcpy(one, &ones[i], sizeof one);
        for (int m = 0; m < kMembers<O>; ++m) words[m][i] = one[m];
      }
      std::memcpy(static_cast<void*>(&lanes), words, sizeof words);
    }
    return lanes;
  }
  template <class V, class O>
  static V in_all_lanes(const O& one) {
    O ones[kLanes];
    for (O& x : ones) x = one;
    return in_lanes<V>(ones);
  }

  template <class V, class O>
  void expect(const char* what, const V& lanes, const O* ones) {
    if constexpr (kMembers<O> != 0) {
      static_assert(sizeof(V) == kLanes * sizeof(O), "members that are not four bytes a lane");
      std::uint32_t got[kMembers<O>][kLanes], want[kMembers<O>][kLanes];
      std::memcpy(got, &lanes, sizeof got);
      for (int i = 0; i < kLanes; ++i) {
        std::uint32_t one[kMembers<O>];
        std::memcpy(one, &ones[i], sizeof one);
        for (int m = 0; m < kMembers<O>; ++m) want[m][i] = one[m];
      }
      char text[64];
      std::snprintf(text, sizeof text, "%s, %s", name_, what);
      // A word that is a NaN on both sides is the same one: payloads are nobody's promise.
      for (int m = 0; m < kMembers<O>; ++m) {
        for (int i = 0; i < kLanes; ++i) {
          const bool nans = (got[m][i] << 1) > 0xff000000u && (want[m][i] << 1) > 0xff000000u;
          if (nans) got[m][i] = want[m][i];
        }
        compare(report_, text, got[m], want[m], kLanes);
      }
    }
  }

  /// What score() to mass() give for one row and kLanes keys.
  struct Keys {
    typename One::Key key[kLanes];
    typename One::Bias bias[kLanes];
    typename One::Acc acc[kLanes];
    typename One::Score score[kLanes];
  };

  /// Constants of keys, in lanes and alone.
  template <class Block, class OneBlock>
  typename S::Key keys(const S& s, const One& one, const Block& block, const OneBlock& one_block, Keys& keys,
                       typename S::Bias& biases) {
    float k[kLanes], v[kLanes], b[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      k[i] = scale(), v[i] = v_scale(), b[i] = bias();
      keys.key[i] = one.key({k[i], v[i]}, one_block);
      keys.bias[i] = one.bias(b[i]);
      keys.acc[i] = acc(typename One::Acc{});
    }
    const typename S::Key in_lanes_of_keys = s.key({L::load(k), L::load(v)}, block);
    expect("key", in_lanes_of_keys, keys.key);
    biases = s.bias(L::load(b));
    expect("bias", biases, keys.bias);
    return in_lanes_of_keys;
  }

  template <class T>
  static T largest(const T* x) {
    T peak = x[0];
    for (int i = 1; i < kLanes; ++i) peak = x[i] > peak ? x[i] : peak;
    return peak;
  }

  /// Scores of the keys against one row.
  template <class View, class OneView>
  typename S::Score scores(const S& s, const One& one, const View& view, const OneView& one_view,
                           const typename S::Key& key, const typename S::Bias& biases, Keys& keys) {
    for (int i = 0; i < kLanes; ++i)
      keys.score[i] = one.score(keys.acc[i], one_view, keys.key[i], keys.bias[i]);
    const typename S::Score score = s.score(L::load(keys.acc), view, key, biases);
    expect("score", score, keys.score);
    return score;
  }

  /// Weights, codes and masses of the keys; returns the sum of the masses.
  template <class Step, class OneStep>
  auto weigh(const S& s, const One& one, const Step& step, const OneStep& one_step,
             const typename S::Key& key, typename S::Score score, const Keys& keys) {
    using Code = decltype(one.code(one.weight(keys.score[0], one_step)));
    using Mass = decltype(one.mass(one.weight(keys.score[0], one_step), Code{}, keys.key[0]));
    Code code[kLanes];
    Mass mass[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const auto weight = one.weight(keys.score[i], one_step);
      code[i] = one.code(weight);
      mass[i] = one.mass(weight, code[i], keys.key[i]);
    }
    const auto weight = s.weight(score, step);
    const auto codes = s.code(weight);
    expect("code", codes, code);
    ordered_codes(s, one, weight, key, keys);
    expect("mass", s.mass(weight, codes, key), mass);
    typename One::Sum sum{};
    for (const Mass& m : mass) sum = static_cast<typename One::Sum>(sum + m);
    return sum;
  }

  /// Codes that the places of keys round, of weights about and below 1.
  template <class Weight>
  void ordered_codes(const S& s, const One& one, const Weight& weight, const typename S::Key& key,
                     const Keys& keys) {
    if constexpr (requires { one.code(1.0f, 0.0f, keys.key[0], 1.0f); }) {
      static constexpr RoundingOffsets<kLanes> kOffsets;
      constexpr float kVLargest = 3;
      alignas(64) float weights[kLanes];
      __builtin_memcpy(weights, &weight, sizeof weights);
      std::int32_t code[kLanes];
      for (const float unit : {1.0f, 1.0f / 128, 1.0f / 512}) {
        for (int i = 0; i < kLanes; ++i)
          code[i] = one.code(weights[i] * unit, kOffsets.of[i], keys.key[i], kVLargest);
        expect("ordered code", s.code(weight * unit, L::load(kOffsets.of), key, kVLargest), code);
      }
    }
  }

  // --- Schemes whose rows come in lanes.

  void float_rows(const S& s, const One& one) {
    const typename S::Block block = s.block(1.0f);
    const typename One::Block one_block = one.block(1.0f);

    typename One::Row row[kLanes];
    typename One::View view[kLanes];
    typename One::State state[kLanes];
    typename One::Step step[kLanes];
    float q[kLanes], peak[kLanes], sum[kLanes], lse[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      q[i] = scale();
      row[i] = one.row(q[i]);
      view[i] = one.view(row[i], one_block, {});
      if (random_.below(4) != 0) state[i] = {acc(0.0f), plausible_scale()};  // else a row that saw nothing
      peak[i] = acc(0.0f), sum[i] = acc(0.0f);
    }
    const typename S::Row rows = s.row(L::load(q));
    const typename S::View views = s.view(rows, block, typename S::Acc{});
    typename S::State states = in_lanes<typename S::State>(state);
    expect("row", rows, row);
    expect("view", views, view);
    const typename S::State fresh{};
    const typename One::State one_fresh[kLanes];
    expect("fresh state", fresh, one_fresh);

    // One row against keys.
    Keys k;
    typename S::Bias biases;
    const typename S::Key key = keys(s, one, block, one_block, k, biases);
    const auto score = scores(s, one, in_all_lanes<typename S::View>(view[0]), view[0], key, biases, k);
    peak[0] = largest(k.score);

    for (int i = 0; i < kLanes; ++i) step[i] = one.step(state[i], peak[i], view[i]);
    const typename S::Step steps = s.step(states, L::load(peak), views);
    expect("step", steps, step);
    const typename S::Step first_step = in_all_lanes<typename S::Step>(step[0]);
    weigh(s, one, first_step, step[0], key, score, k);

    for (int i = 0; i < kLanes; ++i) {
      state[i] = one.absorb(state[i], step[i], sum[i]);
      lse[i] = one.lse(state[i], row[i]);
    }
    states = s.absorb(states, steps, L::load(sum));
    expect("absorb", states, state);
    expect("lse", s.lse(states, rows), lse);
    channels(s, one, first_step, step[0], in_all_lanes<typename S::State>(state[0]), state[0],
             in_all_lanes<typename S::Row>(row[0]), row[0]);
  }

  template <class Step, class OneStep, class State, class OneState, class Row, class OneRow>
  void channels(const S& s, const One& one, const Step& step, const OneStep& one_step, const State& state,
                const OneState& one_state, const Row& row, const OneRow& one_row) {
    using Finished = decltype(one.finish(typename One::Out{}, one_state, one_row, typename One::Channel{}));
    float v[kLanes], value[kLanes];
    std::int32_t exponent[kLanes];
    typename One::Channel channel[kLanes];
    typename One::Out out[kLanes], folded[kLanes];
    typename One::PvAcc pv[kLanes];
    Finished finished[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      v[i] = scale(), exponent[i] = static_cast<std::int32_t>(random_.below(60)) - 30;
      channel[i] = one.channel({v[i], exponent[i]});
      out[i] = acc(0.0f), pv[i] = acc(typename One::PvAcc{});
      folded[i] = out[i];
      one.fold(folded[i], pv[i], one_step, channel[i]);
      finished[i] = one.finish(folded[i], one_state, one_row, channel[i]);
      if constexpr (requires { one.value(v[i]); }) value[i] = one.value(v[i]);
    }
    const typename S::Channel in_lanes_of_channels = s.channel({L::load(v), L::load(exponent)});
    expect("channel", in_lanes_of_channels, channel);
    typename S::Out outs = L::load(out);
    s.fold(outs, L::load(pv), step, in_lanes_of_channels);
    expect("fold", outs, folded);
    expect("finish", s.finish(outs, state, row, in_lanes_of_channels), finished);
    if constexpr (requires { s.value(L::load(v)); }) expect("value", s.value(L::load(v)), value);
  }

  // --- Schemes whose rows are plain numbers.

  auto block_of(const auto& scheme, float k, float v) {
    if constexpr (requires { scheme.block(k, v); })
      return scheme.block(k, v);
    else
      return scheme.block(k);
  }

  void integer_row(const S& s, const One& one) {
    const float q = scale();
    const typename S::Row row = s.row(q);
    const typename One::Row one_row = one.row(q);
    typename S::State state{};
    typename One::State one_state{};
    typename S::Out out{};
    typename One::Out ones[kLanes]{};
    for (int b = 0; b < kBlocks; ++b) {
      const float k_scale = scale();
      const typename S::Block block = block_of(s, k_scale, 1.0f);
      const typename One::Block one_block = block_of(one, k_scale, 1.0f);
      Keys k;
      typename S::Bias biases;
      const typename S::Key key = keys(s, one, block, one_block, k, biases);
      const std::int32_t row_peak = largest(k.acc);
      const typename S::View view = s.view(row, block, row_peak);
      const typename One::View one_view = one.view(one_row, one_block, row_peak);
      const auto score = scores(s, one, view, one_view, key, biases, k);
      const std::int32_t peak = largest(k.score);
      const typename S::Step step = s.step(state, peak, view);
      const typename One::Step one_step = one.step(one_state, peak, one_view);
      const auto sum = weigh(s, one, step, one_step, key, score, k);

      std::int32_t pv[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        pv[i] = acc(std::int32_t{});
        one.fold(ones[i], pv[i], one_step, {});
      }
      s.fold(out, L::load(pv), step, typename S::Channel{});
      state = s.absorb(state, step, sum);
      one_state = one.absorb(one_state, one_step, sum);
      const float lse = s.lse(state, row), one_lse = one.lse(one_state, one_row);
      compare(report_, name_, &lse, &one_lse, 1);
      end_row(s, one, out, ones, state, one_state, row, one_row);
    }
  }

  /// Rows that are made together, a row a lane, with their views and steps, against those of each.
  void rows_together(const One& one) {
    if constexpr (requires { typename One::template RowsOf<L>; }) {
      float scales[kLanes];
      typename One::Row row[kLanes];
      std::int32_t peak[kLanes], mantissa[kLanes], exponent[kLanes];
      const typename One::Block block = one.block(plausible_scale() * power_of_two(-12), 1.0f);
      for (int i = 0; i < kLanes; ++i) {
        const std::uint32_t kind = random_.below(16);
        scales[i] = kind == 0 ? 0.0f : kind == 1 ? power_of_two(-126) / 8 : plausible_scale();
        row[i] = one.row(scales[i]);
        mantissa[i] = static_cast<std::int32_t>(row[i].octaves.mantissa),
        exponent[i] = row[i].octaves.exponent;
        peak[i] = acc(std::int32_t{});
      }
      const auto rows = one.template rows<L>(L::load(scales), kLanes);
      expect("mantissas together", L::load(rows.mantissa), mantissa);
      expect("exponents together", L::load(rows.exponent), exponent);
      steps_together(one);
      bool fit = true;
      for (const typename One::Row& r : row) fit = fit && One::fits_u16(r, block);
      const std::int32_t fits = rows.fit_u16(block), each_fits = fit;
      compare(report_, name_, &fits, &each_fits, 1);
      if (!fit) return;
      std::int32_t multiplier[kLanes], right[kLanes], half[kLanes], position[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const typename One::View view = one.view(row[i], block, peak[i]);
        multiplier[i] = static_cast<std::int32_t>(view.multiplier >> 16);
        right[i] = static_cast<std::int32_t>(view.right), half[i] = view.half;
        position[i] = static_cast<std::int32_t>(view.position);
      }
      const auto views = rows.views(block);
      expect("multipliers together", views.multiplier, multiplier);
      expect("shifts together", views.right, right);
      expect("halves together", views.half, half);
      expect("positions together", views.position(L::load(peak)), position);
    }
  }

  /// Steps of rows over several key blocks: what they add to outputs, and their states.
  void steps_together(const One& one) {
    typename One::template StatesOf<L> states;
    typename One::template IntoOf<L> into{};
    states.clear();
    for (int b = 0; b < 6; ++b) {
      typename One::Block block{};
      block.v_exponent = static_cast<std::int32_t>(random_.below(60)) - 30;
      std::int32_t largest[kLanes], seen[kLanes];
      std::int64_t sums[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        // Most blocks are near each other; some lie bins above or below all others.
        const std::int32_t reach = random_.below(4) == 0 ? 1 << 22 : 1 << 14;
        largest[i] = static_cast<std::int32_t>(random_.below(2 * static_cast<std::uint32_t>(reach))) - reach;
        seen[i] = random_.below(4) == 0 ? 0 : -1;
        sums[i] = (std::int64_t{random_.below(1 << 22)} << 22) + random_.below(1 << 22);
      }
      const auto mask = L::equal_i32(L::load(seen), -1);
      const auto steps = one.template steps<L>(states, L::load(largest), block);
      steps.put_into(into, mask);
      std::int32_t above[kLanes], want_bin[kLanes];
      std::int64_t want_factor[kLanes];
      typename One::State want[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        typename One::View view{};
        view.position = largest[i], view.v_exponent = block.v_exponent;
        want[i] = states.at(i);
        const typename One::Step step = one.step(want[i], 0, view);
        const typename One::Into one_into = seen[i] ? one.into(step) : typename One::Into{};
        above[i] = step.origin, want_bin[i] = one_into.bin, want_factor[i] = one_into.factor;
        if (seen[i]) want[i] = one.absorb(want[i], step, sums[i]);
        const bool lanes_open = into.opens >> i & 1;
        const std::int32_t room[] = {lanes_open, lanes_open ? into.moved[i] : 0,
                                     lanes_open ? into.used[i] : 0};
        const std::int32_t want_room[] = {one_into.opens, one_into.opens ? one_into.moved : 0,
                                          one_into.opens ? one_into.used : 0};
        compare(report_, "room together", room, want_room, 3);
      }
      expect("references together", steps.above(), above);
      compare(report_, "bins together", into.bin, want_bin, kLanes);
      compare(report_, "factors together", into.factor, want_factor, kLanes);
      steps.absorb(states, L::load(sums), mask);
      for (int i = 0; i < kLanes; ++i) {
        const typename One::State got = states.at(i);
        const std::int64_t of[] = {got.out_top,    got.sum_top,    got.out_unused, got.out_factor,
                                   got.sum.bin[0], got.sum.bin[1], got.sum.bin[2]};
        const std::int64_t of_one[] = {want[i].out_top,    want[i].sum_top,    want[i].out_unused,
                                       want[i].out_factor, want[i].sum.bin[0], want[i].sum.bin[1],
                                       want[i].sum.bin[2]};
        compare(report_, "states together", of, of_one, 7);
      }
    }
  }

  template <class State, class OneState, class Row, class OneRow>
  void end_row(const S& s, const One& one, const typename S::Out& out, const typename One::Out* ones,
               const State& state, const OneState& one_state, const Row& row, const OneRow& one_row) {
    using Finished = decltype(one.finish(ones[0], one_state, one_row, typename One::Channel{}));
    float v[kLanes];
    std::int32_t exponent[kLanes];
    typename One::Channel channel[kLanes];
    Finished finished[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      v[i] = random_.below(2) == 0 ? 1.0f : scale();
      exponent[i] = static_cast<std::int32_t>(random_.below(60)) - 30;
      channel[i] = one.channel({v[i], exponent[i]});
      finished[i] = one.finish(ones[i], one_state, one_row, channel[i]);
    }
    const typename S::Channel channels = s.channel({L::load(v), L::load(exponent)});
    expect("channel", channels, channel);
    const auto wide = s.finish(out, state, row, channels);
    expect("finish", wide, finished);
    if constexpr (S::kOutput == Output::row_scale) {
      Finished peak = finished[0];
      for (const Finished& x : finished) peak = one.larger(peak, x);
      const auto ending = s.ending(state, row, s.larger(wide, wide));
      const auto one_ending = one.ending(one_state, one_row, peak);
      const float scale = s.output_scale(ending), one_scale = one.output_scale(one_ending);
      compare(report_, name_, &scale, &one_scale, 1);
      std::int32_t code[kLanes];
      for (int i = 0; i < kLanes; ++i) code[i] = one.output_code(finished[i], one_ending);
      expect("output code", s.output_code(wide, ending), code);
    }
  }

  Report& report_;
  const char* name_;
  Random random_;
};

template <class L>
void check_every_scheme(Report& report) {
#define OCTET_FUSED_SCHEME(name, Template) SchemeCheck<Template, L>(report, #name).run();
  OCTET_FUSED_SCHEMES
#undef OCTET_FUSED_SCHEME
}

/// In the lanes that the nests of an instruction set compute with.
template <class L>
Report check_schemes() {
  Report report;
  check_every_scheme<L>(report);
  return report;
}

}  // namespace
}  // namespace octet::lane_check
