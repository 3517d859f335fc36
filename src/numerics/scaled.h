// What the schemes on scaled codes share: scores from scales, the fold of a key block, the end of a row. A
// scheme adds prepare(), step() (where P's reference is), weight() and code() (exponential and format of P),
// mass() (what the row sum adds) and lse().
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/online.h"
#include "numerics/value_words.h"

namespace octet {

/// Where V's scale enters when it varies along tokens and not along channels.
enum class VScale : std::int32_t {
  at_fold,  ///< as a factor of the key block's sums: it must be constant inside a key block
  in_p,     ///< in P, before P is rounded, one of each key's own; the row sum takes it out again
};

/// The operand formats of a scheme.
struct Formats {
  Operand qk, p, v;
  VScale v_scale;
};

/// Constants of a key where P does not carry V's scale.
template <class F32>
struct PlainKey {
  F32 scale;  ///< k scale
};

/// Constants of a key where it does.
template <class F32>
struct WeightedKey {
  F32 scale;   ///< k scale
  F32 log2_v;  ///< value_words() of V's token scale
  F32 rv;
};

template <class L, Formats kFormats>
struct ScaledOperands {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = std::conditional_t<is_float(kFormats.qk), F32, I32>;
  using PvAcc = std::conditional_t<is_float(kFormats.v), F32, I32>;
  using Score = F32;
  using Sum = F32;
  using Out = F32;
  using Bias = F32;
  using State = typename Online<L>::State;
  using Step = typename Online<L>::Step;
  static constexpr Operand kQk = kFormats.qk, kP = kFormats.p, kV = kFormats.v;
  static constexpr bool kVInP = kFormats.v_scale == VScale::in_p;
  static constexpr Output kOutput = Output::values;
  static constexpr bool kUsesRowPeak = false;
  static constexpr bool kRowLanes = true;
  static constexpr bool kScaledSums = !kVInP && !is_float(kQk);
  static constexpr auto kConstants = Constants::of_own_scales;

  struct Row {
    F32 octaves;  ///< q scale * softmax_scale * log2 e
  };
  using Key = std::conditional_t<kVInP, WeightedKey<F32>, PlainKey<F32>>;
  struct Block {};
  using View = Row;
  struct Channel {
    F32 scale;  ///< V's scale * 2^exponent
  };

  float octaves;  ///< softmax_scale * log2 e

  OCTET_HD Row row(F32 q_scale) const { return {q_scale * octaves}; }
  OCTET_HD Block block(float /*k_scale*/) const { return {}; }
  OCTET_HD Key key(const KeyScales<L>& s, const Block&) const {
    if constexpr (kVInP) {
      const ValueWords<F32> v = value_words<L>(s.v);
      return {s.k, v.log2_v, v.rv};
    } else {
      return {s.k};
    }
  }
  OCTET_HD Channel channel(const ChannelScales<L>& s) const { return {s.v * power_of_two(s.exponent)}; }
  OCTET_HD Bias bias(F32 b) const { return L::max(kLeastBias, b * kLog2E); }  // NaN stays

  OCTET_HD View view(const Row& row, const Block&, Acc /*row_peak*/) const { return row; }
  /// Integer |acc| <= 127 * 127 * 256 < 2^22, exact in f32. The scales are multiplied first: their product
  /// leaves f32's range only where the score does.
  OCTET_HD Score score(Acc acc, const View& row, const Key& key, Bias b) const {
    if constexpr (kVInP)
      return number(acc) * (key.scale * row.octaves) + (b + key.log2_v);
    else
      return number(acc) * (key.scale * row.octaves) + b;
  }

  /// The channel's scale is 1 unless V's scales vary along key blocks and P does not carry them. Integer |pv|
  /// <= 255 * 127 * key block: below 2^24, so exact in f32, up to key blocks of 512.
  OCTET_HD Out& fold(Out& out, PvAcc pv, const Step& step, const Channel& channel) const {
    return out = Online<L>::fold(out, number(pv) * channel.scale, step);
  }
  OCTET_HD bool keeps(const Step& step) const { return Online<L>::keeps(step); }
  OCTET_HD Out& rescale(Out& out, const Step& step) const { return out = Online<L>::rescale(out, step); }
  OCTET_HD Out& add(Out& out, PvAcc pv, const Step& step, const Channel& channel) const {
    return out = Online<L>::add(out, number(pv) * channel.scale, step);
  }
  OCTET_HD State absorb(const State& state, const Step& step, Sum sum) const {
    return Online<L>::absorb(state, step, sum);
  }
  /// One division a row, not one an output.
  OCTET_HD F32 closing(const State& state) const { return 1.0f / state.sum; }
  OCTET_HD F32 finish(Out out, F32 closing, const Channel& channel) const {
    return out * closing * channel.scale;
  }
  OCTET_HD F32 finish(Out out, const State& state, const Row&, const Channel& channel) const {
    return finish(out, closing(state), channel);
  }

  /// A sum of products as a number.
  template <class A>
  static OCTET_HD F32 number(A acc) {
    if constexpr (std::is_same_v<A, F32>)
      return acc;
    else
      return L::to_f32(acc);
  }
};

}  // namespace octet
