// What several rows of the scheme `integer` take from one key block, a row a lane: IntegerScheme::step(),
// into() and absorb() in words, for rows and blocks whose distances fit 16 bits (integer_views.h), so that
// positions lie below 2^23. The states of rows are arrays in memory, a member each.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_bins.h"

namespace octet::integer {

/// The members of IntegerScheme::State of R::kWidth rows. R: a lane of rows.
template <class R>
struct States {
  alignas(64) std::int64_t bin[kBins][R::kWidth];
  alignas(32) std::int32_t out_top[R::kWidth], sum_top[R::kWidth], out_unused[R::kWidth],
      out_factor[R::kWidth];

  /// Bins::total() of the sums.
  OCTET_HOST typename R::I64 total() const {
    const auto rounded = [](typename R::I64 x, std::uint32_t n) {
      return R::sra_i64(R::add_i64(x, std::int64_t{1} << (n - 1)), n);
    };
    return R::add_i64(R::load(bin[0]), R::add_i64(rounded(R::load(bin[1]), kBinOctaves),
                                                  rounded(R::load(bin[2]), 2 * kBinOctaves)));
  }
  /// Of rows that saw nothing yet.
  OCTET_HOST void clear() {
    for (int i = 0; i < R::kWidth; ++i) {
      out_top[i] = sum_top[i] = kNoBin;
      out_unused[i] = out_factor[i] = 0;
      for (int b = 0; b < kBins; ++b) bin[b][i] = 0;
    }
  }
};

/// What rows add to their outputs, as IntegerScheme::Into.
template <class R>
struct IntoRows {
  alignas(64) std::int64_t factor[R::kWidth];
  alignas(32) std::int32_t bin[R::kWidth], moved[R::kWidth], used[R::kWidth];
  std::uint32_t opens;  ///< bit r: of row r

  OCTET_HOST void clear() { *this = {}; }
  template <class Into>
  OCTET_HOST void put(std::int64_t row, const Into& of_row) {
    factor[row] = of_row.factor, bin[row] = of_row.bin;
    moved[row] = of_row.moved, used[row] = of_row.used;
    opens |= static_cast<std::uint32_t>(of_row.opens) << row;
  }
};

template <class R>
class Steps {
  using I32 = typename R::I32;
  using I64 = typename R::I64;

 public:
  /// largest: positions of the rows' largest scores. grid_bits: of the grid of references.
  static OCTET_HOST Steps of(const States<R>& states, I32 largest, std::int32_t v_exponent,
                             std::int32_t grid_bits) {
    Steps s;
    const auto bits = static_cast<std::uint32_t>(grid_bits);
    const I32 reference = R::sra_i32(R::add_i32(largest, (1 << grid_bits) - 1), bits);
    const I32 octave = R::sra_i32(reference, 4);
    s.above_ = R::sub_i32(R::shl_i32(reference, bits), largest);
    s.fold_ = R::lookup16(kFolds.of, reference & 15);
    s.out_ = place(R::load(states.out_top), R::add_i32(octave, v_exponent));
    s.sum_ = place(R::load(states.sum_top), octave);
    const I32 used = R::sub_i32(kBins, R::load(states.out_unused));
    s.used_ = R::select_i32(R::equal_i32(R::load(states.out_top), kNoBin), 0, used);
    return s;
  }

  /// How far the reference lies above the largest score: 0...2^grid_bits - 1.
  I32 above() const { return above_; }

  /// Rows outside of `seen`, a mask, add nothing.
  OCTET_HOST void put_into(IntoRows<R>& into, I32 seen) const {
    const I32 counts = seen & R::less_i32(out_.slot, kBins);
    const I32 moves = R::less_i32(0, out_.moved) | R::less_i32(R::sub_i32(used_, 1), out_.slot);
    const I32 opens = counts & moves;
    R::store(into.factor, R::widen(factor() & counts));
    R::store(into.bin, out_.slot & counts);
    into.opens = R::lanes_that_i32(opens);
    if (into.opens == 0) return;
    R::store(into.moved, out_.moved);
    R::store(into.used, used_);
  }

  /// Takes the sums of a block's masses into the states of rows in `seen`, a mask.
  OCTET_HOST void absorb(States<R>& states, I64 sums, I32 seen) const {
    const auto keep = [&](std::int32_t* member, I32 next) {
      R::store(member, R::select_i32(seen, next, R::load(member)));
    };
    const I32 counts = R::less_i32(out_.slot, kBins);
    const I32 moved = R::min_i32(R::add_i32(used_, R::min_i32(out_.moved, kBins)), kBins);
    const I32 used = R::select_i32(R::less_i32(0, used_), moved, 0);
    const I32 opens = counts & R::less_i32(R::sub_i32(used, 1), out_.slot);
    keep(states.out_top, out_.top);
    keep(states.sum_top, sum_.top);
    keep(states.out_unused, R::sub_i32(kBins, R::select_i32(opens, R::add_i32(out_.slot, 1), used)));
    keep(states.out_factor, factor() & counts);

    I64 bin[kBins];
    for (int i = 0; i < kBins; ++i) bin[i] = R::load(states.bin[i]);
    const I32 down = R::select_i32(seen, sum_.moved, 0);
    if (R::any_i32(R::less_i32(0, down))) move_down(bin, down);
    // S F < 2^56, with half a unit of what is dropped.
    const I64 product = R::add_i64(R::mul_i64(sums, R::widen(fold_)), std::int64_t{1} << 11);
    const I64 mass = R::sra_i64(product, 12) << R::widen(sum_.shift);
    for (int i = 0; i < kBins; ++i)
      R::store(states.bin[i], R::add_i64(bin[i], mass & R::widen(seen & R::equal_i32(sum_.slot, i))));
  }

 private:
  static constexpr Folds kFolds{};

  struct Places {
    I32 top, moved, slot, shift;
  };
  /// place() of each row.
  static OCTET_HOST Places place(I32 top, I32 octave) {
    const I32 number = R::sra_i32(octave, 4), highest = R::max_i32(number, top);
    return {highest, R::sub_i32(highest, top), R::sub_i32(highest, number), octave & (kBinOctaves - 1)};
  }
  I32 factor() const { return R::shl_i32(fold_, as_unsigned(out_.shift)); }
  /// Bins::move_down() of each row.
  static OCTET_HOST void move_down(I64* bin, I32 moved) {
    const I64 by0 = R::widen(R::less_i32(moved, 1)), by1 = R::widen(R::equal_i32(moved, 1)),
              by2 = R::widen(R::equal_i32(moved, 2));
    bin[2] = (bin[2] & by0) | (bin[1] & by1) | (bin[0] & by2);
    bin[1] = (bin[1] & by0) | (bin[0] & by1);
    bin[0] = bin[0] & by0;
  }

  I32 above_, fold_, used_;
  Places out_, sum_;
};

}  // namespace octet::integer
