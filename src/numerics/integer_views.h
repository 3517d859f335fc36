// The views of several rows of the scheme `integer` against one key block, a row a lane:
// IntegerScheme::view() in words, for rows and blocks whose distances fit 16 bits (IntegerScheme::fits_u16).
// Nothing is shifted left there, so positions lie below 2^23 and need no limit. docs/numerics/integer.md has
// the formulas.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_ends.h"

namespace octet::integer {

/// R: a lane of rows.
template <class R>
struct Views {
  using I32 = typename R::I32;

  /// Octaves an accumulator unit as rows bring them: Scaled of 31 bits or 0.
  struct Rows {
    alignas(32) std::int32_t mantissa[R::kWidth], exponent[R::kWidth];
    std::int32_t most;  ///< the largest exponent of a row

    /// normalised() of each row's scale, finite and >= 0, times `octaves`, 24 bits or 0: the products have 47
    /// or 48 bits. Rows beyond `count` are not counted.
    static OCTET_HOST Rows of(typename R::F32 scales, const Scaled& octaves, int count) {
      constexpr std::uint32_t kBelow = 8;  // of a scale's 32 bits the lowest are 0
      const ScaledLanes<R> scale = split_lanes<R>(scales);
      const I32 factor = as_signed(R::srl_u32(as_unsigned(scale.mantissa), kBelow));
      const auto product = R::mul_wide(factor, static_cast<std::int32_t>(octaves.mantissa));
      const I32 high = R::high_word(product);
      const auto is_short = R::less_i32(high, 1 << (47 - 32));
      const auto rounded = [&](std::uint32_t n) {
        return R::low_word(R::sra_i64(R::add_i64(product, std::int64_t{1} << (n - 1)), n));
      };
      const I32 bits = R::select_i32(is_short, rounded(16), rounded(17));
      const auto carry = R::srl_u32(as_unsigned(bits), 31);
      const I32 drop = R::add_i32(R::select_i32(is_short, 16, 17), as_signed(carry));
      const I32 power =
          R::add_i32(R::add_i32(scale.exponent, drop), octaves.exponent + static_cast<std::int32_t>(kBelow));
      Rows rows;
      R::store(rows.mantissa, as_signed(R::srl_u32(as_unsigned(bits), carry)));
      R::store(rows.exponent, R::select_i32(R::equal_i32(bits, 0), 0, power));
      rows.most = rows.exponent[0];
      for (int i = 1; i < count; ++i) rows.most = rows.exponent[i] > rows.most ? rows.exponent[i] : rows.most;
      return rows;
    }
    OCTET_HOST Scaled at(std::int64_t row) const { return {mantissa[row], exponent[row]}; }
  };

  I32 multiplier;  ///< M of 16 bits
  I32 right;       ///< the shift before it, 0...30
  I32 half;        ///< what rounds it
  I32 fine;        ///< C - 2^30, of 31 bits
  I32 down;        ///< position = round(peak C 2^-30 2^-down)

  /// k: the block's scale, 24 bits or 0. unit_bits: of the unit that distances have.
  static OCTET_HD Views of(const Rows& rows, const Scaled& k, std::int32_t unit_bits) {
    constexpr std::int32_t kC = 24;  // bits of the product below those of C where it has all its 55
    const auto product = R::mul_wide(R::load(rows.mantissa), static_cast<std::int32_t>(k.mantissa));
    const I32 high = R::high_word(product);
    const auto is_short = R::less_i32(high, 1 << (54 - 32));  // one bit less
    const auto rounded = [&](std::uint32_t n) {
      return R::low_word(R::sra_i64(R::add_i64(product, std::int64_t{1} << (n - 1)), n));
    };
    const I32 c = R::select_i32(is_short, rounded(kC - 1), rounded(kC));
    const I32 top = R::low_word(R::sra_i64(product, kC));  // 31 bits; what is below decides nothing of M
    const auto rounded_m = [&](std::uint32_t n) {
      return as_signed(R::srl_u32(as_unsigned(R::add_i32(top, 1 << (n - 1))), n));
    };
    const I32 m = R::select_i32(is_short, rounded_m(14), rounded_m(15));
    const I32 exponent = R::add_i32(R::load(rows.exponent), k.exponent + 55 + unit_bits);
    const I32 shift = R::select_i32(is_short, R::sub_i32(exponent, 1), exponent);
    const auto none = R::equal_i32(R::low_word(product) | high, 0);
    Views v;
    v.multiplier = R::min_i32(m, 65535);
    v.right = R::select_i32(none, 30, R::min_i32(R::sub_i32(0, shift), 30));
    v.half = R::sra_i32(R::shl_i32(1, as_unsigned(v.right)), 1);
    v.fine = R::sub_i32(c, 1 << 30);
    v.down = R::select_i32(none, 30, R::min_i32(R::sub_i32(1, shift), 30));
    return v;
  }

  /// Positions of the rows' largest accumulators. |peak C| < 2^53, of which the lowest 30 bits decide
  /// nothing: they lie below the half that is added.
  OCTET_HD I32 position(I32 peak) const {
    const auto product = R::add_i64(R::mul_wide(peak, fine), R::shl_i64(R::widen(peak), 30));
    const I32 top = R::low_word(R::sra_i64(product, 30));
    const I32 rounding = R::sra_i32(R::shl_i32(1, as_unsigned(down)), 1);
    return R::sra_i32(R::add_i32(top, rounding), as_unsigned(down));
  }
};

}  // namespace octet::integer
