// Scheme `integer`: integers only between the quantised operands and the output codes, and the same bits
// whatever the order, grouping or split of the key blocks. P is u8 against each key block's own maximum, the
// exponential works in 16-bit lanes, the sums are exact. Specification, ranges and measurements:
// docs/numerics/integer.md.
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/fixed16.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_bins.h"
#include "numerics/integer_ends.h"
#include "numerics/integer_keys.h"
#include "numerics/integer_quick_ends.h"
#include "numerics/integer_quotient.h"
#include "numerics/integer_rough.h"
#include "numerics/integer_rows.h"
#include "numerics/integer_term_ends.h"
#include "numerics/integer_terms.h"
#include "numerics/integer_views.h"
#include "numerics/integer_window.h"

namespace octet {

template <class L>
struct IntegerScheme {
  using One = typename L::Scalar;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using U16 = typename L::U16;
  using I64 = typename L::I64;
  using Acc = I32;
  using PvAcc = I32;
  using Score = I32;  ///< minus the distance to the block's largest accumulator, 2^-10 octave
  using Sum = std::int64_t;
  using Bias = I32;  ///< 2^-10 octave
  using Out = integer::Bins<L>;
  using Merge = IntegerScheme;
  using Key = integer::Key<L>;
  using Channel = integer::ScaledLanes<L>;  ///< V's scale where it does not vary along tokens, and the
                                            ///< channel's exponent: 32 bits
  static constexpr Operand kQk = Operand::s8, kP = Operand::u8, kV = Operand::s8;
  static constexpr Output kOutput = Output::row_scale;
  static constexpr bool kUsesRowPeak = true;
  static constexpr bool kRowLanes = false;
  static constexpr bool kLongRows = true;
  /// Whether the score of a hidden key, the least there is, weighs nothing by itself.
  static constexpr bool kHiddenWeighsNothing = requires { L::kWords; };
  static constexpr int kMassTerms = 16;  ///< of at most 32767 * 7936 each: less than 2^32 together

  static constexpr std::int32_t kUnitBits = integer::kUnitBits;
  static constexpr std::int32_t kGridBits =
      6;  // references on a grid of 64 units: P keeps 255 codes up to 4 %
  static constexpr std::int32_t kFar = 1 << 29;  // distances and biases saturate here: 2^19 octaves

  struct Row {
    integer::Scaled octaves;  ///< q scale * softmax_scale * log2 e, 31 bits
  };
  struct Block {
    integer::Scaled k;        ///< K's scale, 24 bits
    std::int32_t v_exponent;  ///< least power of two >= V's largest scale in the block
  };
  /// Constants of R::kWidth rows, for kernels that make them and their views together.
  template <class R>
  struct RowsOf : integer::Views<R>::Rows {
    OCTET_HOST Row at(std::int64_t row) const { return {integer::Views<R>::Rows::at(row)}; }
    /// fits_u16() of all of them.
    OCTET_HOST bool fit_u16(const Block& block) const {
      return this->most + block.k.exponent + 55 + kUnitBits <= 0;
    }
    OCTET_HOST integer::Views<R> views(const Block& block) const {
      return integer::Views<R>::of(*this, block.k, kUnitBits);
    }
  };
  /// Outputs before their row's scale is known: 31 bits.
  struct Wide {
    I32 mantissa, exponent;
    I32 sign;  ///< -1 or 0
  };
  struct View {
    std::int32_t peak;         ///< largest visible accumulator
    std::uint32_t multiplier;  ///< 2^16 M: octaves an accumulator unit, 16-bit mantissa
    std::int32_t limit, half;
    std::uint32_t right, left;  ///< shifts around M
    std::int64_t position;      ///< of the largest accumulator, 2^-10 octave, absolute
    std::int32_t v_exponent;

    /// What score() needs of it, each word through `from`.
    template <class From>
    OCTET_HD View passed(const From& from) const {
      View v{};
      v.peak = from(peak), v.limit = from(limit), v.half = from(half);
      v.multiplier = from(multiplier), v.right = from(right), v.left = from(left);
      return v;
    }
  };
  /// What near_score() needs of the view of a row that fits_u16().
  struct NearView {
    std::int32_t from;  ///< largest visible accumulator, with what rounds the shift
    std::uint32_t right, multiplier;

    template <class From>
    OCTET_HD NearView passed(const From& of) const {
      return {of(from), of(right), of(multiplier)};
    }
  };
  struct State {
    std::int32_t out_top = integer::kNoBin, sum_top = integer::kNoBin;
    std::int32_t out_unused = 0;  ///< so many of the outputs' lowest bins are 0, whatever they hold
    std::int32_t out_factor = 0;  ///< of the last key block's sums
    integer::Bins<One> sum;
  };
  template <class R>
  using IntoOf = integer::IntoRows<R>;
  /// States of R::kWidth rows, for kernels that make their steps together.
  template <class R>
  struct StatesOf : integer::States<R> {
    OCTET_HOST State at(std::int64_t row) const {
      State state{this->out_top[row], this->sum_top[row], this->out_unused[row], this->out_factor[row], {}};
      for (int i = 0; i < integer::kBins; ++i) state.sum.bin[i] = this->bin[i][row];
      return state;
    }
    OCTET_HOST void put(std::int64_t row, const State& state) {
      this->out_top[row] = state.out_top, this->sum_top[row] = state.sum_top;
      this->out_unused[row] = state.out_unused, this->out_factor[row] = state.out_factor;
      for (int i = 0; i < integer::kBins; ++i) this->bin[i][row] = state.sum.bin[i];
    }
  };
  struct Step {
    std::int32_t origin;  ///< score of weight 1
    std::int32_t fold;    ///< 2^11 times the reference's fraction of an octave as a factor
    integer::Place out, sum;
    std::int32_t out_used = 0;  ///< bins of the outputs that hold sums before the block

    /// What weight() needs of it, each word through `from`.
    template <class From>
    OCTET_HD Step passed(const From& from) const {
      Step s{};
      s.origin = from(origin);
      return s;
    }
  };
  /// Where the sums of a key block go, times a factor: to the numbers out[c].bin[bin] of a row.
  struct Into {
    std::int32_t bin, factor;
    bool opens;  ///< whether make_room() comes first
    std::int32_t moved, used;
  };
  struct Ending {
    std::int32_t exponent;        ///< of the row's largest output
    std::uint32_t reciprocal;     ///< of the row sum's mantissa, 31 bits
    std::int32_t shift;           ///< from mantissa * reciprocal to codes, at that exponent
    std::int32_t scale_exponent;  ///< the row's scale is 2^scale_exponent

    /// What output_code() needs of it, each word through `from`.
    template <class From>
    OCTET_HD Ending passed(const From& from) const {
      return {from(exponent), from(reciprocal), from(shift), 0};
    }
  };

  /// What decides the codes of a row from its outputs as floats.
  enum class RoughOf : std::int32_t { outputs, sums };
  struct Rough {
    float factor;  ///< codes an output
    float scale;   ///< the row's
    bool sure;     ///< whether the row has such codes: see kRoughSure
  };
  static constexpr float kRoughSure = integer::kRoughSure;

  integer::Scaled octaves;  ///< softmax_scale * log2 e, 24 bits

  // --- Constants: from f32 scales, in integers.

  static OCTET_HD IntegerScheme prepare(const Prepare& p) {
    return {integer::split(p.softmax_scale * kLog2E)};
  }
  OCTET_HD Row row(float q_scale) const {
    const integer::Scaled q = integer::split(q_scale);
    return {integer::normalised(q.mantissa * octaves.mantissa, q.exponent + octaves.exponent, 31)};
  }
  /// row() of each of so many rows, one a lane; count: of those that matter.
  template <class R>
  OCTET_HOST RowsOf<R> rows(typename R::F32 q_scales, int count) const {
    return {integer::Views<R>::Rows::of(q_scales, octaves, count)};
  }
  /// v_largest: the largest of V's scales in the key block, seen by the row or not; 1 where they are not in
  /// P.
  OCTET_HD Block block(float k_scale, float v_largest = 1) const {
    const integer::Scaled v = integer::split(v_largest);
    const std::int32_t up = v.mantissa == 0x800000 ? 23 : 24;
    return {integer::split(k_scale), v.mantissa == 0 ? integer::kZeroBlock : v.exponent + up};
  }
  /// V's scales are on the grid (integer::on_grid()).
  OCTET_HD Key key(const KeyScales<L>& s, const Block& block) const { return Key::of(s.v, block.v_exponent); }
  /// Of a place behind a key block's last key: with an accumulator of kHiddenAcc its weight and mass are 0.
  static OCTET_HD Key no_key() { return {kFar, 0}; }
  static constexpr std::int32_t kHiddenAcc = -(1 << 24);  ///< below every sum of 256 products
  OCTET_HD Channel channel(const ChannelScales<L>& s) const {
    const Channel v = integer::split_lanes<L>(s.v);
    return {v.mantissa, L::add_i32(v.exponent, s.exponent)};
  }
  /// Saturates: two keys whose biases differ by more than 2^20 octaves are that far apart and no farther.
  OCTET_HD Bias bias(F32 b) const {
    constexpr float kMost = static_cast<float>(kFar);
    const F32 units = b * kLog2E * static_cast<float>(1 << kUnitBits);
    return L::nearest_i32(L::max(L::min(units, kMost), -kMost));
  }

  // --- One row against one key block.

  /// Whether a kernel may take the distances of the row's keys in 16 bits: no unit of an accumulator is as
  /// much as 32 octaves, and nothing is shifted left. What then saturates at 65535 lies 32 octaves below the
  /// largest accumulator, the nearest key at most 8, and weights end at 16: the bits are those of the wide
  /// form.
  static OCTET_HD bool fits_u16(const Row& row, const Block& block) {
    return row.octaves.exponent + block.k.exponent + 55 + kUnitBits <= 0;
  }
  OCTET_HD View view(const Row& row, const Block& block, std::int32_t peak) const;
  /// What the view of a row that fits_u16() has without its largest accumulator.
  using NearViews = integer::Views<L>;
  OCTET_HD NearViews near_views(const Row& row, const Block& block) const {
    const typename NearViews::Rows rows{
        {static_cast<std::int32_t>(row.octaves.mantissa)}, {row.octaves.exponent}, row.octaves.exponent};
    return NearViews::of(rows, block.k, kUnitBits);
  }
  /// view() of a row that fits_u16(), in words.
  OCTET_HD View near_view(const Row& row, const Block& block, std::int32_t peak) const {
    const NearViews v = near_views(row, block);
    return {peak,
            as_unsigned(v.multiplier) << 16,
            kFar,
            v.half,
            as_unsigned(v.right),
            0,
            v.position(peak),
            block.v_exponent};
  }
  static OCTET_HD NearView near(const NearViews& v, std::int32_t peak) {
    return {L::add_i32(peak, v.half), as_unsigned(v.right), as_unsigned(v.multiplier) << 16};
  }
  static OCTET_HD NearView near(const View& v) { return {L::add_i32(v.peak, v.half), v.right, v.multiplier}; }
  /// score() of such a row.
  OCTET_HD Score near_score(Acc acc, const NearView& v, const Key& key, Bias b) const {
    const auto scaled = L::srl_u32(as_unsigned(L::sub_i32(v.from, acc)), v.right);
    return L::sub_i32(L::sub_i32(b, as_signed(L::mulhi_u32(scaled, v.multiplier))), key.distance);
  }
  /// Minus score() where there is no bias. note: of the largest of what nvcc 13 knows to be minus a sum it
  /// loses signs.
  OCTET_HD I32 near_distance(Acc acc, const NearView& v, const Key& key) const {
    const auto scaled = L::srl_u32(as_unsigned(L::sub_i32(v.from, acc)), v.right);
    return L::add_i32(as_signed(L::mulhi_u32(scaled, v.multiplier)), key.distance);
  }
  OCTET_HD I32 distance(Acc acc, const View& v, const Key& key) const {
    return L::add_i32(far(acc, v), key.distance);
  }
  /// |bias - distance| <= 2^30 + 2^13.
  OCTET_HD Score score(Acc acc, const View& v, const Key& key, Bias b) const {
    return L::sub_i32(L::sub_i32(b, far(acc, v)), key.distance);
  }
  OCTET_HD Step step(const State& state, std::int32_t peak, const View& view) const;
  /// 2^((score - origin) / 1024) * 2^15, at most 32767.
  OCTET_HD U16 weight(Score score, const Step& step) const {
    if constexpr (requires { L::kWords; }) {
      return exp2_lifted(as_unsigned(step.origin) - as_unsigned(score) + kExp2Lift);
    } else {
      return exp2_u16(L::to_u16_i32(L::sub_i32(step.origin, score)));
    }
  }
  /// step() of the rows that `states` are of. largest: positions of their largest scores, below 2^23.
  template <class R>
  OCTET_HOST integer::Steps<R> steps(const integer::States<R>& states, typename R::I32 largest,
                                     const Block& block) const {
    return integer::Steps<R>::of(states, largest, block.v_exponent, kGridBits);
  }
  /// round(255 w / 2^15): 255 for w = 32767.
  OCTET_HD auto code(U16 weight) const {
    if constexpr (requires { L::kWords; })
      return typename L::template InByte<3>{weight * (255u << 9) + (1u << 23)};
    else
      return L::widen_u16(L::mulhrs_u16(weight, 255));
  }
  template <class Code>
  OCTET_HD I32 mass(U16 weight, const Code&, const Key& key) const {
    return L::mul_u15(L::widen_u16(weight), key.multiplier);
  }
  OCTET_HD Out& fold(Out& out, PvAcc pv, const Step& step, const Channel&) const {
    out.move_down(step.out.moved);
    out.add(step.out.slot, L::mul_wide(pv, step.fold << step.out.shift));
    return out;
  }
  /// What a row takes from a key block that is not added to others yet: integer_terms.h. largest: the
  /// position of its largest score, a word where the row fits_u16().
  using Term = integer::Term;
  struct Lone {
    std::int32_t above;  ///< of the reference, the largest score
    Term term;           ///< without its mass
  };
  template <class Int>
  OCTET_HD Lone lone(Int largest, std::int32_t v_exponent) const {
    const Int reference = -((-largest) >> kGridBits);
    const std::int32_t octave = static_cast<std::int32_t>(reference >> 4);
    return {static_cast<std::int32_t>((reference * (1 << kGridBits)) - largest),
            {0, octave, octave + v_exponent, fold_of(static_cast<std::int32_t>(reference & 15))}};
  }
  static OCTET_HD std::int64_t mass_of(Sum sum, const Term& term) {
    return integer::shift_round(sum * term.fold, 12);
  }
  /// The state of a row that has these terms alone, its sum in one bin.
  template <int kTerms>
  static OCTET_HD State state_of(const Term (&terms)[kTerms]) {
    State s{};
    s.sum_top = Term::highest(terms, [](const Term& t) { return t.octave; }) >> 4;
    s.out_top = Term::highest(terms, [](const Term& t) { return t.out_octave; }) >> 4;
    for (const Term& t : terms) s.sum.bin[0] += integer::below_top(t.mass, t.octave, s.sum_top);
    return s;
  }
  /// The sum of the bins of such a row's output, of the sums of the terms' products.
  template <int kTerms>
  static OCTET_HD std::int64_t total_of(const Term (&terms)[kTerms], const State& state,
                                        const PvAcc (&sums)[kTerms]) {
    std::int64_t total = 0;
    for (int i = 0; i < kTerms; ++i)
      total += integer::below_top(std::int64_t{sums[i]} * terms[i].fold, terms[i].out_octave, state.out_top);
    return total;
  }
  /// The same in steps: make_room() for each output where it says so, then sums times the factor are added
  /// to the bin, or set it if the row sees its first key block. Bins that are not in use may hold anything.
  OCTET_HD Into into(const Step& step) const {
    const integer::Place& place = step.out;
    if (place.slot >= integer::kBins) return {};
    return {place.slot, step.fold << place.shift, place.moved > 0 || place.slot >= step.out_used, place.moved,
            step.out_used};
  }
  /// The same in a window of bins.
  using Window = integer::Window;
  using SumsOf = integer::SumsOf;
  static OCTET_HD Window::Entry enter(Window& window, const Step& step, std::int32_t above) {
    return window.enter(step.out.top - step.out.slot, step.out.shift, step.fold, above);
  }
  /// The output of a row that has seen one key block, from the block's sums.
  OCTET_HD Out only(PvAcc pv, const State& state) const {
    Out out;
    out.bin[0] = L::mul_wide(pv, state.out_factor);
    return out;
  }
  OCTET_HD void make_room(Out& out, const Into& into) const {
    out.make_room(into.moved, into.bin, into.used);
  }
  OCTET_HD State absorb(const State& state, const Step& step, Sum sum) const {
    State next{step.out.top, step.sum.top, integer::kBins - used_after(step), into(step).factor, state.sum};
    next.sum.move_down(step.sum.moved);
    const std::int64_t mass = integer::shift_round(sum * step.fold, 12);
    next.sum.add(step.sum.slot, mass << step.sum.shift);
    return next;
  }
  /// The state of both sets of key blocks.
  static OCTET_HD State merge(State a, const State& b) {
    a.sum.merge(a.sum_top, b.sum, b.sum_top);
    a.sum_top = a.sum_top > b.sum_top ? a.sum_top : b.sum_top;
    a.out_top = a.out_top > b.out_top ? a.out_top : b.out_top;
    a.out_unused = 0;
    return a;
  }
  /// The sums of both, in place; the states are those before merge().
  static OCTET_HD void merge_out(Out& out, const State& state, Out other, const State& other_state) {
    out.make_room(0, integer::kBins, integer::kBins - state.out_unused);
    other.make_room(0, integer::kBins, integer::kBins - other_state.out_unused);
    out.merge(state.out_top, other, other_state.out_top);
  }

  /// 2^(-z / 1024) * 2^15, at most 32767, within 0.31 % plus half a unit; continuous, never increasing, 0
  /// from 16 octaves on.
  static OCTET_HD U16 exp2_u16(U16 z) {
    const U16 x = L::shl_u16(z, 16 - kUnitBits);  // fraction of an octave, 2^-16
    const U16 mantissa = fixed16::AccurateMantissa::of<L>(x);
    return L::avg_u16(L::srlv_u16(mantissa, L::srl_u16(z, kUnitBits)), 0);  // rounds half of it
  }
  /// The same of a word, z <= 2^32 - 2^14, in words: the fraction of an octave has ten bits, and floors are
  /// those of the above, brought together. lifted: z + kExp2Lift, so that its octaves are what the mantissa
  /// is shifted by.
  static constexpr std::uint32_t kMantissaBits = 10, kExp2Lift = kMantissaBits << kUnitBits;
  static OCTET_HD std::uint32_t exp2_lifted(std::uint32_t lifted) {
    const auto x = as_signed(lifted & ((1u << kUnitBits) - 1));
    // -(43900 - floor(11132 x / 2^10)), where 11132 / 2^10 is 2783 / 2^8
    const std::int32_t minus_slope = (x * 2783 - (43900 << 8)) >> 8;
    const std::int32_t mantissa = x * minus_slope + ((65534 << kMantissaBits) + (1 << kMantissaBits) - 1);
    return (L::srl_u32(as_unsigned(mantissa), lifted >> kUnitBits) + 1) >> 1;
  }

  // --- The end of a row.

  OCTET_HD Wide finish(const Out& out, const State& state, const Row&, const Channel& channel) const {
    return finish(out.total(state.out_unused), channel);
  }
  /// The same of the sum of its bins.
  OCTET_HD Wide finish(I64 sum, const Channel& channel) const {
    const integer::SignedWords<L> total = integer::words_of<L>(sum);
    const auto value = integer::product<L>(integer::normalised<L>(total.high, total.low), channel);
    return {value.mantissa, L::select_i32(L::equal_i32(value.mantissa, 0), kExponentOfZero, value.exponent),
            total.sign};
  }
  /// The larger in size of each lane's two; no sign.
  static OCTET_HD Wide larger(const Wide& a, const Wide& b) {
    const I32 exponent = L::max_i32(a.exponent, b.exponent);
    return {L::max_i32(mantissa_at(a, exponent), mantissa_at(b, exponent)), exponent, I32{}};
  }
  OCTET_HD Ending ending(const State& state, const Row& row, const Wide& peak) const;
  /// A quicker end of a row's outputs' sums, in words.
  using QuickEnds = integer::QuickEnds<std::conditional_t<L::kWidth == 1, L, One>>;
  OCTET_HD typename QuickEnds::Row quick_row(std::uint32_t largest, const State& state, std::uint32_t down,
                                             std::int32_t largest_exponent, integer::SumsOf sums) const {
    return QuickEnds::row(largest, state.sum.total(), state.out_top - state.sum_top, down, largest_exponent,
                          sums);
  }
  /// The same of a row of terms, by numbers in which its reciprocal is already.
  template <int kTerms>
  using TermEnds = integer::TermEnds<std::conditional_t<L::kWidth == 1, L, One>, kTerms>;
  template <int kTerms>
  static OCTET_HD typename TermEnds<kTerms>::Factors term_factors(const Term (&terms)[kTerms],
                                                                  const State& state, std::uint32_t largest) {
    return TermEnds<kTerms>::factors(terms, state.sum.total(), state.sum_top, largest);
  }
  /// What output_code() needs in a row whose scale is known. near: the sum's reciprocal within 6, of its 32
  /// highest bits.
  static OCTET_HD Ending ending(const State& state, std::int32_t scale_exponent, std::uint32_t near) {
    using Words = std::conditional_t<L::kWidth == 1, L, One>;
    constexpr std::int32_t kLeast = 1 << 30;
    const std::int64_t total = state.sum.total();
    const auto sum = integer::normalised<Words>(Words::high_word(total), Words::low_word(total));
    // A sum that is rounded up to the next power of two has twice the reciprocal.
    const bool is_double = sum.mantissa == kLeast && near < kLeast;
    const auto reciprocal = static_cast<std::uint32_t>(
        integer::reciprocal_of_sum(sum.mantissa, std::int64_t{near} << (is_double ? 1 : 0)));
    const std::int32_t shift =
        scale_exponent + sum.exponent - integer::kBinOctaves * (state.out_top - state.sum_top) + 61;
    return {0, reciprocal, shift, scale_exponent};
  }
  /// mantissa * reciprocal < 2^62, of which the upper word is enough: at least 53 bits are dropped.
  OCTET_HD I32 output_code(const Wide& wide, const Ending& e) const {
    const auto product = L::mulhi_u32(as_unsigned(wide.mantissa), e.reciprocal);
    const I32 code =
        integer::shift_round_lanes<L>(product, L::sub_i32(e.shift + e.exponent - 32, wide.exponent));
    return L::sub_i32(code ^ wide.sign, wide.sign);
  }
  /// The row's scale as f32, 0 for a row of zeros; the only float of the end.
  OCTET_HD float output_scale(const Ending& e) const {
    return e.reciprocal == 0 ? 0 : output_scale(e.scale_exponent);
  }
  static OCTET_HD float output_scale(std::int32_t exponent) {
    constexpr std::int32_t kLeast = -kF32Bias - kF32MantissaBits + 1;  // 2^kLeast is the least f32
    if (exponent < kLeast) return 0;
    if (exponent <= -kF32Bias) return float_of(1u << (exponent - kLeast));
    return exponent <= kF32Bias ? power_of_two(exponent) : float_of(kF32Inf);
  }
  /// An output's sum as a float.
  OCTET_HD F32 rough(const Out& out, const State& state) const {
    // note: most rows' outputs are one bin, and gcc 12 puts a choice of 64-bit lanes into memory.
    if (state.out_unused == integer::kBins - 1) return integer::rough_of<L>(out.bin[0]);
    return integer::rough_of<L>(out.total(state.out_unused));
  }
  /// The same of only(), but for the row's factor, a fold of 12 bits and zeros.
  OCTET_HD F32 rough(PvAcc pv) const { return L::to_f32(pv); }
  /// A channel's factor for it; NaN: no row of the call ends so.
  OCTET_HD F32 rough_channel(const ChannelScales<L>& s) const { return integer::rough_channel<L>(s); }
  /// largest: of the row's outputs, their channels' factors in them, in size.
  OCTET_HD Rough rough_ending(const State& state, float largest) const {
    const auto rows =
        integer::RoughRows<One>::of(state.sum.total(), state.out_top - state.sum_top, 1.0f, largest);
    if (!rows.sure) return {0, 0, false};
    return {rows.factor, rows.scale, true};
  }
  /// The same of rows that make their ends together. of: sums where `largest` is of rough(sums), which wants
  /// the row's factor yet.
  template <class R>
  OCTET_HOST integer::RoughRows<R> rough_endings(const integer::States<R>& states, RoughOf of,
                                                 typename R::F32 largest) const {
    const auto factor = of == RoughOf::sums ? R::to_f32(R::load(states.out_factor)) : R::broadcast(1.0f);
    return integer::RoughRows<R>::of(
        states.total(), R::sub_i32(R::load(states.out_top), R::load(states.sum_top)), factor, largest);
  }
  OCTET_HD float lse(const State& state, const Row& row) const {
    constexpr double kLn2Q24 = 0.693147180559945309417 / (1 << 24);
    return static_cast<float>(static_cast<double>(log2_sum_q24(state, row)) * kLn2Q24);
  }
  /// log2 of the row's sum of exponentials, 2^-24 octave: 2^18 mass units stand for 1.
  OCTET_HD std::int64_t log2_sum_q24(const State& state, const Row&) const {
    return integer::log2_q24(state.sum.total()) +
           (std::int64_t{integer::kBinOctaves * state.sum_top - 18} << 24);
  }

 private:
  static constexpr std::int32_t kExponentOfZero = -(1 << 28);  // below every other one
  /// The mantissas of those with this exponent, else 0.
  template <class Exponent>
  static OCTET_HD I32 mantissa_at(const Wide& wide, Exponent exponent) {
    return L::select_i32(L::equal_i32(wide.exponent, exponent), wide.mantissa, 0);
  }
  /// How far an accumulator lies below the row's largest, 2^-10 octave.
  static OCTET_HD I32 far(Acc acc, const View& v) {
    const I32 r = L::min_i32(L::sub_i32(v.peak, acc), v.limit);
    const I32 scaled = L::shl_i32(L::sra_i32(L::add_i32(r, v.half), v.right), v.left);
    return as_signed(L::mulhi_u32(as_unsigned(scaled), v.multiplier));
  }
  static OCTET_HD std::int32_t fold_of(std::int32_t sixteenth);
  static OCTET_HD std::int32_t used_after(const Step& step) {
    std::int32_t used = 0;
    if (step.out_used > 0) {
      const std::int32_t moved = step.out.moved < integer::kBins ? step.out.moved : integer::kBins;
      used = step.out_used + moved < integer::kBins ? step.out_used + moved : integer::kBins;
    }
    return step.out.slot >= used && step.out.slot < integer::kBins ? step.out.slot + 1 : used;
  }
};

// c = octaves an accumulator unit, as the product of a row's and a block's mantissa: p * 2^e with 55 bits.
template <class L>
OCTET_HD typename IntegerScheme<L>::View IntegerScheme<L>::view(const Row& row, const Block& block,
                                                                std::int32_t peak) const {
  const std::int64_t product = row.octaves.mantissa * block.k.mantissa;  // < 2^31 * 2^24
  std::int32_t shift = -64;                                              // c * 2^10 = M * 2^(shift - 16)
  std::int64_t p = product;
  if (product != 0) {
    const std::int32_t up = product < (std::int64_t{1} << 54) ? 1 : 0;
    p = product << up;
    shift = row.octaves.exponent + block.k.exponent - up + 55 + kUnitBits;
  }
  const std::int64_t rounded = integer::shift_round(p, 39);
  const std::uint32_t m16 = static_cast<std::uint32_t>(rounded < 65535 ? rounded : 65535);
  const std::int64_t m31 = integer::shift_round(p, 24);

  View v{};
  v.peak = peak;
  v.multiplier = m16 << 16;
  v.left = static_cast<std::uint32_t>(shift < 0 ? 0 : shift < 29 ? shift : 29);
  v.limit = kFar >> v.left;
  v.right = static_cast<std::uint32_t>(shift < -30 ? 30 : shift < 0 ? -shift : 0);
  v.half = shift < 0 ? std::int32_t{1} << (v.right - 1) : 0;
  // |peak * m31| < 2^22 * 2^31. Positions saturate at 2^30 octaves, as any accumulator but 0 does with more
  // than 8 bits to the left.
  constexpr std::int64_t kLimit = std::int64_t{1} << 40;
  const std::int64_t position = shift > 39 ? peak * kLimit : integer::shift_round(peak * m31, 31 - shift);
  v.position = position > kLimit ? kLimit : position < -kLimit ? -kLimit : position;
  v.v_exponent = block.v_exponent;
  return v;
}

// The reference is the block's largest score rounded up to a sixteenth of an octave: 16 * octave + sixteenth.
template <class L>
OCTET_HD typename IntegerScheme<L>::Step IntegerScheme<L>::step(const State& state, std::int32_t peak,
                                                                const View& view) const {
  const std::int64_t largest = view.position + peak;
  const std::int64_t reference = -((-largest) >> kGridBits);
  const std::int32_t octave = static_cast<std::int32_t>(reference >> 4);
  Step s{};
  s.origin = peak + static_cast<std::int32_t>((reference << kGridBits) - largest);
  s.fold = fold_of(static_cast<std::int32_t>(reference & 15));
  s.out = integer::place(state.out_top, octave + view.v_exponent);
  s.sum = integer::place(state.sum_top, octave);
  s.out_used = state.out_top == integer::kNoBin ? 0 : integer::kBins - state.out_unused;
  return s;
}

template <class L>
OCTET_HD std::int32_t IntegerScheme<L>::fold_of(std::int32_t sixteenth) {
  if constexpr (requires { L::kWords; }) {
    return integer::fold_in_words(sixteenth);
  } else {
    constexpr integer::Folds kFolds;
    return kFolds.of[sixteenth];
  }
}

// One reciprocal a row, no division of an output: codes are mantissas times the sum's reciprocal, shifted so
// that the row's largest lies in 64...127.
template <class L>
OCTET_HD typename IntegerScheme<L>::Ending IntegerScheme<L>::ending(const State& state, const Row&,
                                                                    const Wide& peak) const {
  Ending e{};
  e.exponent = L::largest_lane_i32(peak.exponent);
  const std::int64_t mantissa = L::largest_lane_i32(mantissa_at(peak, e.exponent));
  if (mantissa == 0) return e;
  constexpr std::int32_t kSumBits = 31;
  const integer::Scaled sum = integer::normalised(state.sum.total(), 0, kSumBits);
  const std::int64_t reciprocal = integer::reciprocal_of_sum(sum.mantissa);  // 2^29 < reciprocal < 2^31
  const std::int64_t largest = mantissa * reciprocal;                        // 2^59 <= largest < 2^62
  e.reciprocal = static_cast<std::uint32_t>(reciprocal);
  e.shift = integer::bit_length(static_cast<std::uint64_t>(largest)) - 7;
  if (integer::shift_round(largest, e.shift) > 127) ++e.shift;  // rounding carried to 128
  e.scale_exponent =
      e.exponent - sum.exponent + integer::kBinOctaves * (state.out_top - state.sum_top) + e.shift - 61;
  return e;
}

}  // namespace octet
