// Scheme `qflash`: QFlash's integer attention, bit for bit as published, failures included
// (docs/numerics/qflash.md lists them; `integer` is octet's scheme without them). Scales are per tensor; P is
// s8 against the running maximum. Source: QFlash, equations (3) to (16), Algorithms 1 and 2; where paper and
// kernel differ, the kernel.
#pragma once
#include "base/divider.h"
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/formats.h"
#include "numerics/shift_exp2.h"

namespace octet {

/// Integer constants of a call, from D = softmax_scale * log2(e) * s_Q * s_K: octaves per unit of a score.
struct QFlashConstants {
  float octaves = 0;        ///< D, rounded: bias and LSE only
  ShiftExp2Constants exp;   ///< R0 = round(1 / D), M_e = round(-D 2^16)
  std::int32_t requantise;  ///< M_r = round(127 D 2^16): E / R0 to a P code
  std::int32_t release;     ///< M_a = round(2^30 / R0)
  Divider by_one;           ///< of R0, where the quotient is one; else nobody asks
};

/// x rounded to an integer, ties to even, held within int32. For any x that is not NaN.
OCTET_HD constexpr std::int32_t round_to_i32(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: the adder rounds at the units place
  const double low = x > -2147483647.0 ? x : -2147483647.0;
  const double held = low < 2147483647.0 ? low : 2147483647.0;
  return static_cast<std::int32_t>((held + kMagic) - kMagic);
}

/// In double, as the published host code (Python floats): products and quotients in its order, each correctly
/// rounded. A zero scale (a tensor of zeros) gives the largest R0 instead of a division by zero.
OCTET_HD constexpr QFlashConstants qflash_constants(float softmax_scale, float q_scale, float k_scale) {
  constexpr double kPublishedLog2E = 1.44269504;
  constexpr double kTwo16 = 65536.0, kTwo30 = 1073741824.0;
  constexpr double kLeast = 0x1p-100;  // a bias is divided by it
  const double d = static_cast<double>(softmax_scale) * kPublishedLog2E * static_cast<double>(q_scale) *
                   static_cast<double>(k_scale);
  const std::int32_t one = round_to_i32(d > 0 ? 1.0 / d : kTwo30);
  QFlashConstants c;
  c.octaves = static_cast<float>(d > kLeast ? d : kLeast);
  c.exp.one = one > 0 ? one : 1;
  c.exp.multiplier = round_to_i32(-d * kTwo16);
  c.requantise = round_to_i32(127.0 * d * kTwo16);
  c.release = round_to_i32(kTwo30 / static_cast<double>(c.exp.one));
  return c;
}

template <class L>
struct QFlashScheme {
  using One = typename L::Scalar;
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = I32;
  using PvAcc = I32;
  using Score = I32;
  using Sum = std::int32_t;
  using Out = I32;
  using Bias = I32;
  static constexpr Operand kQk = Operand::s8, kP = Operand::s8, kV = Operand::s8;
  static constexpr Output kOutput = Output::one_scale;
  static constexpr bool kUsesRowPeak = false;
  static constexpr bool kRowLanes = false;
  static constexpr int kMassTerms = 1 << 23;  ///< of at most 128 each, in size
  static constexpr bool kMassIsCode = true;
  static constexpr bool kSumsAreScores = true;
  static constexpr bool kAsksOptions = true;

  /// The score of a masked and of a padding key, and the first reference: only a few octaves down where D is
  /// small.
  static constexpr std::int32_t kFarBelow = -(1 << 20);
  /// Biases below this hide a key in the published host code.
  static constexpr float kHidingBias = -100.0f;
  static constexpr float kPUnit = 127.0f;

  struct State {
    std::int32_t reference = kFarBelow;
    std::int32_t sum = 1;  ///< as published; the first block's decay is 0 and takes it away
    std::int32_t unit =
        0;  ///< Rescale::accumulate: what a P code of 1 counts for in the sums; 0 before the first block
  };
  struct Step {
    std::int32_t reference, decay, unit;
  };
  struct Row {};
  struct Key {};
  struct Block {};
  struct View {};
  struct Channel {};

  QFlashConstants constants;
  float v_scale;
  SchemeOptions options;

  static OCTET_HD QFlashScheme prepare(const Prepare& p) {
    QFlashConstants constants = qflash_constants(p.softmax_scale, p.q_scale, p.k_scale);
    if (p.options.quotient == SchemeOptions::Quotient::divide) constants.by_one = Divider(constants.exp.one);
    return {constants, p.v_scale, p.options};
  }
  OCTET_HD Row row(float /*q_scale*/) const { return {}; }
  OCTET_HD Block block(float /*k_scale*/) const { return {}; }
  OCTET_HD Key key(const KeyScales<L>&, const Block&) const { return {}; }
  OCTET_HD Channel channel(const ChannelScales<L>&) const { return {}; }
  OCTET_HD Bias bias(F32 b) const {
    return L::select_i32(b < kHidingBias, kFarBelow, L::to_i32(b * kLog2E / constants.octaves));
  }

  OCTET_HD View view(const Row&, const Block&, std::int32_t /*row_peak*/) const { return {}; }
  OCTET_HD Score score(Acc acc, const View&, const Key&, Bias b) const { return L::add_i32(acc, b); }
  OCTET_HD Step step(const State& state, std::int32_t peak, const View&) const {
    const std::int32_t reference = One::max_i32(state.reference, peak);
    const std::int32_t unit = state.unit == 0 ? 1 : One::mul_i32(state.unit, constants.exp.one);
    return {reference, exponential(One::sub_i32(state.reference, reference)), unit};
  }
  OCTET_HD I32 weight(Score score, const Step& step) const {
    return exponential(L::sub_i32(score, step.reference));
  }
  /// body(a scheme whose weight() knows its quotient): for loops that would ask it of each key.
  template <class Body>
  OCTET_HD void with_weights(const Body& body) const {
    if (options.quotient == SchemeOptions::Quotient::divide)
      body(WithQuotient<SchemeOptions::Quotient::divide>{*this});
    else
      body(WithQuotient<SchemeOptions::Quotient::multiply_shift>{*this});
  }
  /// (10). The low byte, not the nearest code: 128 wraps to -128, as published.
  OCTET_HD auto code(I32 weight) const {
    if constexpr (requires { L::kWords; })
      return typename L::template InByte<2>{as_unsigned(scaled<L>(weight))};
    else
      return code_of<L>(weight);
  }
  template <class Code>
  OCTET_HD Code mass(I32 /*weight*/, const Code& code, const Key&) const {
    return code;
  }
  /// The mass of a key that only fills up the last block. 0, except at scales where kFarBelow is not far.
  OCTET_HD Sum padding_mass(const Step& step) const {
    return code_of<One>(exponential(One::sub_i32(kFarBelow, step.reference)));
  }
  OCTET_HD Out& fold(Out& out, PvAcc pv, const Step& step, const Channel&) const {
    return out = gather<L>(out, pv, step);
  }
  /// body(fold() of a row whose step this is): for loops that would ask options and ranges of each output.
  template <class Body>
  OCTET_HD void with_fold(const Step& step, const Body& body) const {
    const std::int64_t factor = One::mul_wide(step.decay, constants.release);
    const std::int32_t short_factor = One::low_word(factor);
    if (options.rescale == SchemeOptions::Rescale::accumulate) {
      body([&](Out& out, PvAcc pv) { out = gather<L>(out, pv, step); });
    } else if (short_factor == factor) {
      body([&](Out& out, PvAcc pv) {
        const auto raised = L::add_i64(L::mul_wide(out, short_factor), kReleaseHalf);
        out = L::add_i32(L::low_word(L::sra_i64(raised, kReleaseBits)), pv);
      });
    } else {
      body([&](Out& out, PvAcc pv) { out = gather<L>(out, pv, step); });
    }
  }
  OCTET_HD State absorb(const State& state, const Step& step, Sum sum) const {
    return {step.reference, gather<One>(state.sum, sum, step), step.unit};
  }
  /// The quotient in f32, truncated, and of that the low byte: an integer division is claimed, but the
  /// published kernel's
  /// `/` on integers is this one.
  OCTET_HD I32 finish(Out out, const State& state, const Row&, const Channel&) const {
    const F32 quotient = L::to_f32(out) / One::to_f32(state.sum);
    if constexpr (requires { L::kWords; })
      return low_byte<L>(L::truncate_i32(quotient));
    else
      return low_byte<L>(truncate(quotient));
  }
  OCTET_HD float output_scale() const { return v_scale; }
  /// Not in the paper: the reference in octaves, and the integer sum, a P code of 127 counting as 1. NaN
  /// where the sum has gone negative, of the same bits everywhere: a product with one has others on a GPU.
  OCTET_HD float lse(const State& state, const Row&) const {
    const float codes = One::to_f32(state.sum);
    const float unit = options.rescale == SchemeOptions::Rescale::accumulate ? One::to_f32(state.unit) : 1.0f;
    const float sum = codes / (kPUnit * unit);
    if (!(sum >= 0)) return float_of(kF32QuietNan);
    return (One::to_f32(state.reference) * constants.octaves + log2_poly(sum)) * kLn2;
  }

 private:
  static constexpr std::uint32_t kReleaseBits = 30;
  static constexpr std::int64_t kReleaseHalf = 1 << (kReleaseBits - 1);

  // Of a lane and of one number alike.
  template <class X>
  OCTET_HD X exponential(X x) const {
    return options.quotient == SchemeOptions::Quotient::divide ? by_division(x)
                                                               : shift_exp2_multiply(x, constants.exp);
  }
  template <class X>
  OCTET_HD X by_division(X x) const {
    if constexpr (sizeof(X) > sizeof(std::int32_t)) {
      return shift_exp2_divide(x, constants.exp);
    } else {
      const std::uint32_t quotient = constants.by_one.quotient(0u - as_unsigned(x));
      return shift_exp2_from_quotient(x, as_signed(quotient), constants.exp.one);
    }
  }
  template <SchemeOptions::Quotient kQuotient>
  struct WithQuotient {
    const QFlashScheme& scheme;
    OCTET_HD I32 weight(Score score, const Step& step) const {
      const I32 x = L::sub_i32(score, step.reference);
      if constexpr (kQuotient == SchemeOptions::Quotient::divide)
        return scheme.by_division(x);
      else
        return shift_exp2_multiply(x, scheme.constants.exp);
    }
    OCTET_HD auto code(I32 weight) const { return scheme.code(weight); }
    template <class Code>
    OCTET_HD Code mass(I32 weight, const Code& code, const Key& key) const {
      return scheme.mass(weight, code, key);
    }
  };

  /// before * 2^(...) + now. (14), release: the decay's factor R0 is taken out at once, in 64 bits. (13),
  /// accumulation: it stays in, and `now` is raised to the same power of R0; int32 is full after a block or
  /// two, then it wraps.
  template <class A>
  OCTET_HD typename A::I32 gather(typename A::I32 before, typename A::I32 now, const Step& step) const {
    if (options.rescale == SchemeOptions::Rescale::accumulate)
      return A::add_i32(A::mul_i32(before, step.decay), A::mul_i32(now, step.unit));
    const auto raised = A::mul_i64(A::mul_wide(before, step.decay), constants.release);
    return A::add_i32(A::low_word(A::sra_i64(A::add_i64(raised, kReleaseHalf), kReleaseBits)), now);
  }

  /// A code is the third byte.
  template <class A>
  OCTET_HD typename A::I32 scaled(typename A::I32 weight) const {
    constexpr std::int32_t kHalf = 1 << 15;
    return A::add_i32(A::mul_i32(weight, constants.requantise), kHalf);
  }
  template <class A>
  OCTET_HD typename A::I32 code_of(typename A::I32 weight) const {
    return low_byte<A>(A::sra_i32(scaled<A>(weight), 16));
  }
  template <class A>
  static OCTET_HD typename A::I32 low_byte(typename A::I32 x) {
    return A::sra_i32(A::shl_i32(x, 24), 24);
  }

  /// Toward zero: the nearest integer, one less in size where that is further out than x.
  static OCTET_HD I32 truncate(F32 x) {
    const F32 nearest = L::rint(x);
    const F32 size = L::max(x, 0.0f - x), rounded = L::max(nearest, 0.0f - nearest);
    const F32 inward = L::select(nearest > 0.0f, nearest - 1.0f, nearest + 1.0f);
    return L::to_i32(L::select(L::less(size, rounded), inward, nearest));
  }
};

}  // namespace octet
